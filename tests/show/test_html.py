"""HTML written by `tag()`: no text, wherever it comes from, becomes markup."""

from __future__ import annotations

import ast
import re
from enum import StrEnum
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planner.show.html import Html, element, fragment, tag
from tests.conftest import ROOT

FILES = [p for p in sorted((ROOT / "planner").rglob("*.py")) if p.name != "html.py"]
_OF_CHARTS = re.compile(r"</?b>|<br>|<extra></extra>")
"""What Plotly reads in a text."""
_MARKUP = re.compile(r"(?<!\?P)<[a-z][a-z0-9]*[ >/]|</[a-z]")

# HTML has no way to write a NUL; a carriage return reads as a line feed; and a
# character reference to half of a surrogate pair is none.
texts = st.text(st.characters(blacklist_characters="\0\r", blacklist_categories=["Cs"]))
names = st.sampled_from(["class_", "title", "data_key", "aria_label", "style"])


class Read(HTMLParser):
    """Notes what a parser sees."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.starts: list[tuple[str, dict[str, str | None]]] = []
        self.ends: list[str] = []
        self.others: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs) -> None:
        """Note a start tag."""
        self.starts.append((tag, dict(attrs)))

    def handle_endtag(self, tag) -> None:
        """Note an end tag."""
        self.ends.append(tag)

    def handle_data(self, data) -> None:
        """Note text."""
        self.text += data

    def handle_comment(self, data) -> None:
        """Note a comment, which nothing here writes."""
        self.others.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


@given(text=texts, attributes=st.dictionaries(names, texts))
@example(text="</p><script>alert(1)</script>", attributes={"title": "' onclick='x"})
@example(text="<!--", attributes={"class_": '"><b>'})
@example(text="&lt;", attributes={"style": "&#x27;"})
def test_no_text_breaks_out(text: str, attributes: dict[str, str]) -> None:
    """A parser reads back one element with the same attributes and the same text."""
    read = Read(tag("p", text, **attributes))

    written = {n.rstrip("_").replace("_", "-"): v for n, v in attributes.items()}
    assert [("p", written)] == read.starts
    assert ["p"] == read.ends
    assert text == read.text
    assert [] == read.others


@given(parts=st.lists(st.one_of(texts, st.none(), st.lists(texts))))
def test_parts_follow_each_other(parts) -> None:
    """Text, nothing, and lists of text, in their order and escaped."""
    expected = "".join(
        part if isinstance(part, str) else "".join(part or []) for part in parts
    )

    assert expected == Read(tag("div", parts)).text
    assert expected == Read(fragment(*parts)).text


@given(text=texts)
def test_html_is_escaped_once(text: str) -> None:
    """An element inside another stays what it was."""
    inner = tag("b", text)

    assert f"<p>{inner}</p>" == tag("p", inner) == tag("p", [inner])
    assert text == Read(tag("p", inner)).text


def test_an_attribute_is_escaped_even_where_it_is_html() -> None:
    """HTML may hold the quotation mark that would end the attribute."""
    read = Read(tag("p", title=tag("b", "x", class_="y")))

    assert [("p", {"title": "<b class='y'>x</b>"})] == read.starts


def test_joined_text_is_no_html_any_more() -> None:
    """What `+` and f-strings make is escaped: too often shows, too seldom does not."""
    bold = tag("b", "x")

    assert "<p>&lt;b&gt;x&lt;/b&gt;!</p>" == tag("p", bold + "!")
    assert "<p>&lt;b&gt;x&lt;/b&gt;!</p>" == tag("p", f"{bold}!")


def test_text_of_other_kinds_is_text() -> None:
    """A member of an enumeration is escaped as its value."""

    class Sign(StrEnum):
        LESS = "<"

    assert "<td>&lt;</td>" == tag("td", Sign.LESS)


def test_attributes_come_and_go() -> None:
    """True is the name alone; False and None are nothing; empty text is a value."""
    assert "<details open>x</details>" == tag(
        "details", "x", open=True, hidden=False, title=None
    )
    assert "<i class='' data-a-b='1'></i>" == tag("i", class_="", data_a_b="1")


def test_void_elements_have_no_end() -> None:
    """A `br` ends where it begins."""
    assert "<br>" == tag("br")
    assert "<meta name='a' content='b'>" == tag("meta", name="a", content="b")


@pytest.mark.parametrize("name", ["on click", "a=b", "A", "_", "x>", "x'y"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    """An attribute's name is not escaped, for it cannot be."""
    with pytest.raises(ValueError, match="No attribute can be called"):
        tag("p", **{name: "x"})


@given(text=texts)
def test_an_element_known_before_is_the_same(text: str) -> None:
    """`element` is `tag` with the attributes first."""
    assert tag("td", text, class_="a", data_b=None) == element(
        "td", class_="a", data_b=None
    )(text)


def test_what_is_written_is_html() -> None:
    """So that it can be put into another element."""
    assert {Html} == {type(one) for one in (tag("p"), tag("br"), fragment("a"))}


def test_no_html_is_written_by_hand() -> None:
    """Text with tags in it is a docstring, a chart's, or a mistake."""
    # Models have tokens that look like tags; vLLM's refusals name Python's types; what
    # people bring is a page.
    others = (
        ROOT / "planner/confirming/dry/inside_vllm",
        ROOT / "planner/engine/human_numbers.py",
        ROOT / "planner/reading/splitting.py",
    )
    found = {
        path.relative_to(ROOT): _markup(path)
        for path in FILES
        if path not in others and path.parent not in others
    }

    assert len(found) > 100
    assert {} == {path: texts for path, texts in found.items() if texts}


def _markup(path: Path) -> list[str]:
    """Texts of a module that hold a tag, docstrings left out."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        and _MARKUP.search(_OF_CHARTS.sub("", node.value))
    ]
