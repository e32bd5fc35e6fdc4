"""Pieces of HTML that pages share: tables, lists, verdicts and commands."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from planner.show.html import Content, Html, element, tag

NOTHING = Html("")
Column: TypeAlias = str | tuple[str, str]
"""A column's title, or its title and its class."""
number = element("td", class_="pl-number")
"""Writes a table cell with a figure."""
sentence = element("p", class_="pl-sentence")
"""Writes the sentence of a verdict, below its headline."""
bar_name = element("div", class_="pl-bar-name")
"""Writes the name of a bar, above it."""
_subject = element("p", class_="pl-subject")
_headline = element("p", class_="pl-headline")
_sign = element("span", class_="pl-symbol", aria_hidden="true")


def table(
    caption: str,
    columns: tuple[Column, ...],
    rows: Content,
    class_: str = "pl-lines",
) -> Html:
    r"""Write a table; `rows` are HTML, as `row` writes them.

    >>> written = table("Sizes", ("Line",), row("KV cache", number("1 GiB")))
    >>> print(written.replace("><", ">\n<"))
    <table class='pl-lines'>
    <caption>Sizes</caption>
    <thead>
    <tr>
    <th scope='col'>Line</th>
    </tr>
    </thead>
    <tbody>
    <tr>
    <th scope='row'>KV cache</th>
    <td class='pl-number'>1 GiB</td>
    </tr>
    </tbody>
    </table>
    """
    return tag(
        "table",
        tag("caption", caption),
        head(columns),
        tag("tbody", rows),
        class_=class_,
    )


@lru_cache(64)
def head(columns: tuple[Column, ...]) -> Html:
    """Write a table's head; a column is its title, or its title and its class."""
    named = [(one, None) if isinstance(one, str) else one for one in columns]
    cells = [tag("th", title, scope="col", class_=kind) for title, kind in named]
    return tag("thead", tag("tr", cells))


def row(heading: Content, *cells: Html, class_: str | None = None) -> Html:
    """Write a row under its heading; the cells are elements of their own."""
    return tag("tr", tag("th", heading, scope="row"), cells, class_=class_)


def listed(items: Iterable[Content], class_: str | None = "pl-notes") -> Html:
    """Write a list; empty where it has no items.

    >>> listed(["a < b"]), listed([])
    ("<ul class='pl-notes'><li>a &lt; b</li></ul>", '')
    """
    written = [tag("li", item) for item in items]
    return tag("ul", written, class_=class_) if written else NOTHING


def verdict_box(  # noqa: PLR0913 - what a verdict shows
    tone: str,
    *more: Content,
    subject: Content,
    symbol: str,
    headline: str,
    role: str | None = None,
    is_answer: bool = False,
) -> Html:
    """Write a verdict: its subject, a sign beside the headline, and what follows.

    An answer has its subject, the question, below the headline.
    """
    box = (_subject(subject), _headline(_sign(symbol), " ", headline))
    return tag(
        "div",
        reversed(box) if is_answer else box,
        more,
        class_=f"pl-verdict pl-{tone}",
        role=role,
    )


def command_line(
    text: str, label: str | None = None, *, is_reached: bool = False
) -> Html:
    """Write a command or a program as it is typed.

    With a label, or where `is_reached`, it takes the keyboard's focus, so that it can
    be scrolled.
    """
    return tag(
        "pre",
        tag("code", text),
        class_="pl-plain-command",
        tabindex="0" if label or is_reached else None,
        aria_label=label,
    )


def to_open(
    summary: str, inside: Content, class_: str | None = None, key: str | None = None
) -> Html:
    """Fold content under its summary; `key` identifies it once a reader opens it.

    Empty where the content is.
    """
    if not inside:
        return NOTHING
    return tag("details", tag("summary", summary), inside, class_=class_, data_key=key)


def quoted(speaker: str, message: str, class_: str = "pl-error") -> Html:
    """Quote an error, with its speaker."""
    return tag(
        "blockquote", tag("span", speaker, class_="pl-says"), message, class_=class_
    )


def to_copy(code: Html, *, label: str, copied: str) -> Html:
    """Show code beside a button; the page's script makes the button copy it."""
    return tag(
        "div",
        tag("pre", code, tabindex="0", aria_label=label),
        tag("button", "Copy", type="button", class_="pl-copy", data_copy=copied),
        class_="pl-command",
    )


def table_html(
    caption: str, names: Iterable[Column], rows: Iterable[Iterable[Content]]
) -> Html:
    """Return a table that scrolls sideways where the page is too narrow.

    The first cell of a row is its heading, which stays in sight. A column is its title,
    or its title and its class: "pl-word" for words, "pl-text" for sentences.
    """
    columns = tuple(names)
    kinds = [None if isinstance(one, str) else one[1] for one in columns[1:]]
    lines = (
        row(
            first,
            *(
                tag("td", cell, class_=kind)
                for cell, kind in zip(cells, kinds, strict=True)
            ),
        )
        for first, *cells in rows
    )
    return tag(
        "div",
        table(tag("span", caption), columns, lines, "pl-side"),
        class_="pl-scroll",
        tabindex="0",
        role="group",
        aria_label=caption,
    )
