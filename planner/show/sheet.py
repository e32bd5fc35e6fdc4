"""What a result says, as one value that text for a terminal and HTML are drawn from.

The module of a result has one function that returns its `Sheet`, and `views.py` names
it. What is shown in one of the two alone, such as bars, is an `Apart`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from planner.show.document import wide_page, wide_style
from planner.show.frames import columns
from planner.show.html import Content, Html, element, fragment, tag
from planner.show.pieces import (
    NOTHING,
    Column,
    command_line,
    listed,
    quoted,
    row,
    sentence,
    table,
    table_html,
    to_open,
    verdict_box,
)
from planner.show.terminal import laid_out, width_of
from planner.values import frozen
from planner.views import Views

_Value = TypeVar("_Value")

_WORDS = frozenset(("pl-word", "pl-text", "pl-basis", "pl-why", "pl-inside"))
"""Classes of columns that a terminal aligns left."""
_SENTENCES = "pl-text"
_DRAWN = frozenset("i≤")
"""Signs beside the words that say the same: a terminal has the words alone."""
_paragraph = element("p")
_title = element("h3")


@frozen(kw_only=False)
class Apart:
    """What a terminal and a page show in ways of their own; either may be empty."""

    text: str = ""
    html: Content = NOTHING

    @property
    def is_block(self) -> bool:
        """Whether a text has an empty line before and after it."""
        return "\n" in self.text

    def to_text(self) -> str:
        """Write it for a terminal."""
        return _shaped(self.text)

    def to_html(self) -> Content:
        """Write it for a page."""
        return self.html


Cell: TypeAlias = "str | Apart"


@frozen
class Answer:
    """What a reader sees first: a symbol and words, and what they are about."""

    is_block = True

    tone: str
    """A class of the style sheet: fits, partly, tight, short or open."""
    symbol: str
    headline: str
    subject: str
    sentence: str = ""
    said: str = ""
    """vLLM's error."""
    is_verdict: bool = False
    """Whether the subject stands above the headline, and the sentence behind it."""

    def to_text(self) -> str:
        """Write it for a terminal."""
        sign = "" if self.symbol in _DRAWN else f"{self.symbol} "
        first, then = f"{sign}{self.headline}", self.sentence
        lines = [first, self.subject, then]
        if self.is_verdict:
            lines = [self.subject, f"{first}: {then}" if then else first]
        said = f"vLLM said: {self.said}" if self.said else ""
        return "\n".join(_shaped(line) for line in (*lines, said) if line)

    def to_html(self) -> Html:
        """Write it for a page."""
        told = sentence(self.sentence) if self.sentence else None
        said = quoted("vLLM said", self.said) if self.said else None
        box = verdict_box(
            self.tone,
            told,
            subject=self.subject,
            symbol=self.symbol,
            headline=self.headline,
            is_answer=not self.is_verdict,
        )
        return fragment(box, said)


@frozen(kw_only=False)
class Listing:
    """Sentences, one below the other."""

    items: Sequence[Cell]
    title: str = ""
    is_folded: bool = False
    """Whether a page shows only the title at first."""
    look: str = "pl-notes"
    """A class of the style sheet."""
    sign: str = ""
    """What stands before each item of a text, such as "Note: "."""

    @property
    def is_block(self) -> bool:
        """Whether a text has an empty line before and after it."""
        return bool(self.title)

    def to_text(self) -> str:
        """Write it for a terminal."""
        indent = "  " if self.title else ""
        lines = [f"{indent}{self.sign}{_plain(item)}" for item in self.items]
        head = [f"{self.title}:"] if lines and self.title else []
        return _shaped("\n".join([*head, *lines]))

    def to_html(self) -> Html:
        """Write it for a page."""
        written = listed(map(_content, self.items), self.look)
        if not written or not self.title:
            return written
        if self.is_folded:
            return to_open(self.title, written, "pl-rank")
        return fragment(_title(self.title), written)


@frozen(kw_only=False)
class Table:
    """Figures in rows, each under its name."""

    is_block = True

    caption: str
    columns: Sequence[Column]
    """Each a title, or a title and a class: "pl-word" for words, "pl-text" for
    sentences."""
    rows: Sequence[Sequence[Cell]]
    is_folded: bool = False
    """Whether a page shows only the caption at first."""
    most: int = 0
    """Rows that a page shows at first; 0: all."""
    look: str = ""
    """Classes of the style sheet, instead of a table that scrolls sideways:
    "pl-lines", and "pl-stacked" where a row becomes a list on a narrow page."""

    def to_text(self) -> str:
        """Write it for a terminal, with the caption above it."""
        if not self.rows:
            return ""
        titles, kinds = self._heads()
        rows = [list(map(_plain, cells)) for cells in self.rows]
        if kinds.count(_SENTENCES) > 1:
            lines = [line for cells in rows for line in _record(titles, cells)]
        else:
            sides = "".join("<" if kind in _WORDS else ">" for kind in kinds[1:])
            lines = columns([titles, *rows], f"<{sides}")
        return "\n".join(map(_shaped, (f"{self.caption}:", "\n".join(lines))))

    def to_html(self) -> Html:
        """Write it for a page."""
        if not self.rows:
            return NOTHING
        if 0 < self.most < len(self.rows) - 1:  # one row is as long as a summary
            return self._in_two()
        rows = [list(map(_content, cells)) for cells in self.rows]
        written = (
            self._stacked(rows)
            if self.look
            else table_html(self.caption, self.columns, rows)
        )
        return to_open(self.caption, written, "pl-rank") if self.is_folded else written

    def _in_two(self) -> Html:
        """Write the first rows, and the others folded."""
        first = replace(self, rows=self.rows[: self.most], most=0)
        rest = self.rows[self.most :]
        title = f"The other {len(rest):,}"
        others = replace(self, caption=title, rows=rest, most=0, is_folded=True)
        return fragment(first.to_html(), others.to_html())

    def _heads(self) -> tuple[list[str], list[str]]:
        """Return the titles of the columns, and their classes."""
        heads = [(one, "") if isinstance(one, str) else one for one in self.columns]
        return [title for title, _ in heads], [kind for _, kind in heads]

    def _stacked(self, rows: Iterable[Iterable[Content]]) -> Html:
        titles, kinds = self._heads()
        written = (
            row(first, *map(_labelled, cells, titles[1:], kinds[1:]))
            for first, *cells in rows
        )
        columns = (titles[0], *self.columns[1:])
        return table(self.caption, columns, written, self.look)


def table_of(
    caption: str,
    rows: Sequence[Mapping[str, Cell]],
    kinds: Mapping[str, str],
    most: int,
) -> Table:
    """Return a table of rows by the titles of their columns, which have classes."""
    columns = [(title, kinds.get(title, "")) for title in (rows[0] if rows else ())]
    return Table(caption, columns, [list(row.values()) for row in rows], most=most)


def _labelled(cell: Content, title: str, kind: str) -> Html:
    label = None if kind == "pl-why" else title  # arithmetic says itself what it is
    return tag("td", cell, class_=kind, data_label=label)


def _record(titles: Sequence[str], cells: Sequence[str]) -> Iterator[str]:
    """Yield a row of several sentences as lines below each other."""
    yield ": ".join(filter(None, cells[:2]))
    for title, cell in zip(titles[2:], cells[2:], strict=True):
        if cell:
            yield f"  {title}: {cell}"


@frozen(kw_only=False)
class Command:
    """A command or a program as it is typed."""

    is_block = True

    typed: str
    label: str = "Command"

    def to_text(self) -> str:
        """Write it for a terminal."""
        return self.typed

    def to_html(self) -> Html:
        """Write it for a page."""
        return command_line(self.typed, self.label) if self.typed else NOTHING


@frozen(kw_only=False)
class Group:
    """Parts that belong together; with a summary they are folded on a page."""

    parts: Sequence[Part]
    summary: str = ""
    look: str = "pl-rank"
    """A class of the style sheet."""

    def to_html(self) -> Html:
        """Write it for a page."""
        inside = html_of(self.parts)
        if self.summary:
            return to_open(self.summary, inside, self.look)
        return tag("div", inside, class_=self.look) if inside else NOTHING


Part: TypeAlias = "str | Apart | Answer | Listing | Table | Command | Group | None"
"""A sentence, or one of the others; None and what is empty are left out."""


@frozen(kw_only=False)
class Sheet:
    """What a result says, from the first part to the last."""

    parts: Sequence[Part]

    def to_text(self) -> str:
        """Write it for standard output, as wide as that is.

        Sentences follow each other; before and after anything else is an empty line.
        """
        written, was_block = "", True
        for text, is_block in _texts(self.parts):
            between = "\n\n" if is_block or was_block else "\n"
            written += f"{between if written else ''}{text}"
            was_block = is_block
        return written

    def to_html(self) -> Html:
        """Write it for a page that has the style sheets."""
        return html_of(self.parts)


def shown(sheet: Callable[[_Value], Sheet], **more: Any) -> Views[_Value]:  # noqa: ANN401 - as `Views` has them
    """Return how a result is shown whose sheet a function returns."""

    def html(value: _Value) -> str:
        return wide_page(sheet(value).to_html())

    return Views(text=lambda value: sheet(value).to_text(), html=html, **more)


def pinned(*sheets: Sheet) -> Html:
    """Write sheets for a page that has every style sheet but that of wide tables."""
    return fragment(tag("style", wide_style()), (one.to_html() for one in sheets))


def html_of(parts: Iterable[Part]) -> Html:
    """Write parts for a page that has the style sheets."""
    return fragment(
        (_paragraph(part) if part else None)
        if isinstance(part, str)
        else part.to_html()
        for part in parts
        if part is not None
    )


def _texts(parts: Iterable[Part]) -> Iterator[tuple[str, bool]]:
    """Yield each text that is not empty, and whether it stands alone."""
    for part in parts:
        if isinstance(part, Group):
            inside = list(_texts(part.parts))
            yield from [(f"{part.summary}:", True)] if part.summary and inside else []
            yield from inside
        elif isinstance(part, str):
            yield from [(_shaped(part), False)] if part else []
        elif part is not None and (text := part.to_text()):
            yield text, part.is_block


def _plain(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.text


def _content(cell: Cell) -> Content:
    return cell if isinstance(cell, str) else cell.html


def _shaped(text: str) -> str:
    return laid_out(text, width_of())
