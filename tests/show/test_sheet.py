"""A result's content as one value, and the text and the HTML that are drawn from it."""

from __future__ import annotations

import re

import pytest

from planner.show.sheet import (
    Answer,
    Apart,
    Command,
    Group,
    Listing,
    Sheet,
    Table,
    shown,
)
from planner.show.terminal import NARROWEST

ANSWER = Answer(
    tone="fits", symbol="✔", headline="Two", subject="1 + 1", sentence="Exactly."
)
TABLE = Table(
    "Sums",
    ("Name", "Size", ("State", "pl-word")),
    [("one", "1", "fits"), ("two", "20", "no")],
)
PARTS = (
    ANSWER,
    "A sentence.",
    TABLE,
    Listing(["a < b", "the last"], sign="Note: "),
    Command("vllm serve m"),
)


@pytest.fixture(autouse=True)
def unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal lines are as long as they are."""
    monkeypatch.delenv("COLUMNS", raising=False)


def rows_of(html: str) -> list[list[str]]:
    """The cells of each row of a table's body."""
    found = re.findall(r"<tr><th scope='row'>(.*?)</tr>", html)
    return [re.split(r"</t[hd]>(?:<td[^>]*>)?", row)[:-1] for row in found]


def test_both_drawers_say_the_same_in_the_same_order() -> None:
    """Each word and figure is given once."""
    sheet = Sheet(PARTS)
    words = [
        "Two",
        "1 + 1",
        "Exactly.",
        "A sentence.",
        "Sums",
        "20",
        "the last",
        "serve m",
    ]

    for drawn in (sheet.to_text(), sheet.to_html()):
        places = [drawn.index(word) for word in words]
        assert places == sorted(places)


def test_a_text_has_empty_lines_around_all_but_sentences() -> None:
    """Sentences and untitled lists follow each other."""
    assert Sheet(PARTS).to_text() == "\n".join(
        [
            *("✔ Two", "1 + 1", "Exactly.", "", "A sentence.", ""),
            *("Sums:", "Name  Size  State", "one      1  fits", "two     20  no", ""),
            *("Note: a < b", "Note: the last", "", "vllm serve m"),
        ]
    )


def test_what_is_empty_leaves_nothing() -> None:
    """Neither a line, nor a title, nor an element."""
    empty = ("", None, Apart(), Listing((), "T"), Command(""), Group((None,), "G"))
    sheet = Sheet((*empty, Table("T", ("A",), ())))

    assert sheet.to_text() == ""
    assert sheet.to_html() == ""


def test_the_subject_of_a_verdict_stands_above_its_words() -> None:
    """With what vLLM said below, which a page quotes."""
    told = Answer(
        tone="short",
        symbol="✘",
        headline="No",
        subject="A start",
        sentence="too large",
        said="<error>",
        is_verdict=True,
    )

    assert told.to_text() == "A start\n✘ No: too large\nvLLM said: <error>"
    assert told.to_html().index("A start") < told.to_html().index("No")
    assert "&lt;error&gt;" in told.to_html()


def test_a_sign_that_repeats_its_words_is_for_a_page_alone() -> None:
    """≤ At most."""
    bound = Answer(tone="tight", symbol="≤", headline="At most 1", subject="Speed")

    assert bound.to_text() == "At most 1\nSpeed"
    assert "≤" in bound.to_html()


def test_what_is_not_alike_is_given_for_both() -> None:
    """A cell, an item or a part."""
    both = Apart("plain", "<b>")
    sheet = Sheet((both, Table("T", ("A",), [(both,)]), Listing([both])))

    assert sheet.to_text().count("plain") == 3
    assert "&lt;b&gt;" in sheet.to_html()
    assert "plain" not in sheet.to_html()


def test_a_page_folds_what_a_text_shows() -> None:
    """A title, a caption or a summary opens it."""
    folded = (
        Listing(["x"], "Why", is_folded=True),
        Table("More", ("A", "B"), [("1", "2")], is_folded=True),
        Group([Apart("one\ntwo", "both")], "Commands"),
    )
    sheet = Sheet(folded)

    for title in ("Why", "More", "Commands"):
        assert f"<summary>{title}</summary>" in sheet.to_html()
        assert f"{title}:" in sheet.to_text().splitlines()
    assert "  x" in sheet.to_text().splitlines()


def test_a_table_with_several_sentences_is_written_row_by_row() -> None:
    """Columns of sentences beside each other could not be read in a terminal."""
    table = Table(
        "Rules",
        ("Release", ("In this start", "pl-text"), ("Rule", "pl-text")),
        [("0.20.0", "more", "New."), ("0.21.0", "less", "")],
    )

    assert table.to_text() == "Rules:\n0.20.0: more\n  Rule: New.\n0.21.0: less"
    assert rows_of(table.to_html()) == [
        ["0.20.0", "more", "New."],
        ["0.21.0", "less", ""],
    ]


def test_a_row_that_becomes_a_list_names_its_columns() -> None:
    """But for arithmetic, which says itself what it is."""
    columns = ("Name", ("Size", "pl-number"), ("Why", "pl-why"))
    html = Table("T", columns, [("a", "1", "0 + 1")], look="pl-stacked").to_html()

    assert "<td class='pl-number' data-label='Size'>1</td>" in html
    assert "<td class='pl-why'>0 + 1</td>" in html


def test_a_narrow_terminal_gets_folded_sentences_and_whole_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command is there to be copied."""
    monkeypatch.setenv("COLUMNS", str(NARROWEST))
    command = f"vllm serve {'x' * 80}"
    text = Sheet((ANSWER, "word " * 30, Command(command))).to_text()

    assert command in text.splitlines()
    others = (line for line in text.splitlines() if line != command)
    assert max(map(len, others)) <= NARROWEST


def test_a_result_is_shown_by_the_function_that_returns_its_sheet() -> None:
    """Text, and a page with its style sheets; other views are added."""
    views = shown(lambda number: Sheet((f"It is {number}.",)), as_dict=lambda _: {})

    assert views.text(3) == "It is 3."
    assert views.html(3).startswith("<style>")
    assert "<p>It is 3.</p>" in views.html(3)
    assert views.as_dict(3) == {}
