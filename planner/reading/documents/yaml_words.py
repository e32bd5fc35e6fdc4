"""Words of a command in lists of a document, and how further ones are written there.

Each list is written on in its own style: dashes or commas, quotes, --flag=value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import pairwise

from planner.errors import PlannerError
from planner.reading.documents.nodes import Node
from planner.reading.documents.yaml_edits import (
    at_the_end,
    check_may_grow,
    line_break,
    line_end,
    passage_of,
    replaced,
    written,
)
from planner.reading.passage import Edit, Passage
from planner.reading.scripts.shell import Word
from planner.reading.sites import WordList
from planner.values import frozen


@frozen
class Layout:
    """How words are written in one of the lists that make up a command."""

    before_flag: str = " "
    before_value: str = " "
    is_joined: bool = False
    """Whether flags are written --flag=value."""
    first: int = -1
    """Where the first item of a list in one line stands: it has no comma before it."""


@frozen
class YamlList(WordList):
    """Words of a command that stand in one list or several of a document."""

    layouts: Mapping[int, Layout] = field(default_factory=dict)
    """The layout of each word, by its place."""

    def remove(self, first: int, last: int) -> list[Edit]:
        """Return the edits that take out words, `last` excluded; comments stay."""
        if last <= first:
            return []
        start, end = self.spans[first][0], self.spans[last - 1][1]
        layout = self.layouts[self.words[first].start]
        if layout.first == self.words[first].start and last < len(self.words):
            follower = self.words[last].start
            if self.layouts[follower] is layout:
                return [Edit(start=start, end=follower, text="")]
        if "\n" not in layout.before_flag:
            return [Edit(start=start, end=end, text="")]
        return [
            Edit(start=begin, end=stop, text="")
            for begin, stop in self.spans[first:last]
        ]

    def insert(
        self, after: int, values: Sequence[str], *, is_flag: bool = True
    ) -> list[Edit]:
        """Return the edit that adds a flag and its values, or further values."""
        if not values:
            return []
        if not self.words:
            raise PlannerError("The text has no list of arguments to add to.")
        word = self.words[after]
        layout = self.layouts[word.start]
        has_one_value = len(values) == 1 + 1
        if is_flag and layout.is_joined and has_one_value:
            values = ["=".join(values)]
        leads = [layout.before_flag if is_flag else layout.before_value]
        leads += [layout.before_value] * (len(values) - 1)
        text = "".join(
            before + word.write(value)
            for before, value in zip(leads, values, strict=True)
        )
        place = self.spans[after][1]
        return [Edit(start=place, end=place, text=text)]


def joined_lists(lists: Sequence[WordList]) -> YamlList:
    """Return lists that follow each other, such as command and args, as one."""
    layouts: dict[int, Layout] = {}
    for one in lists:
        first = one.words[0].start if one.words else -1
        own = Layout(
            before_flag=one.before_flag, before_value=one.before_value, first=first
        )
        known = one.layouts if isinstance(one, YamlList) else {}
        layouts |= {word.start: known.get(word.start, own) for word in one.words}
    return YamlList(
        words=tuple(word for one in lists for word in one.words),
        spans=tuple(span for one in lists for span in one.spans),
        layouts=layouts,
    )


Reads = Callable[[Passage], "tuple[Passage, tuple[str, ...]]"]
"""Puts in what variables stand for; returns the names of those not known, too."""


def as_it_is(passage: Passage) -> tuple[Passage, tuple[str, ...]]:
    """Put nothing in."""
    return passage, ()


def word_of(
    node: Node,
    reads: Reads,
    flag_style: str | None = None,
    *,
    is_yaml: bool = False,
) -> Word:
    """Return a scalar as a word of a command, or as a variable's value."""
    passage, variables = reads(passage_of(node))
    return Word(
        passage=passage,
        start=node.page.places[node.start],
        end=node.page.places[node.end if node.is_alias else node.at[1]],
        write=partial(_word, node, passage, flag_style, is_yaml),
        variables=variables,
    )


def _word(
    node: Node,
    passage: Passage,
    flag_style: str | None,
    is_yaml: bool,
    value: str,
) -> str:
    """Write a word in the place of an item, or after it."""
    style = node.style if node.style in ("'", '"') else ""
    if node.style == "json" or node.page.text.startswith('"', node.start):
        style = '"'
    if flag_style is not None and value.startswith("-"):
        style = flag_style
    if is_yaml:
        style = _single(value) or style
    is_text = node.kind != "scalar" or isinstance(node.value, str)
    escaped = value.replace("$", "$$") if passage.encode("$") == "$$" else value
    return node.page.encode(written(escaped, style, is_text=is_text))


def list_of(node: Node, reads: Reads) -> YamlList:
    """Return the items of a list as words."""
    items = [item for item in node.items if item.kind == "scalar"]
    flags = [item for item in items if item.text.startswith("-")]
    styles = [item.style if item.style in ("'", '"') else "" for item in flags]
    flag_style = max(styles, key=styles.count) if styles else None
    layout = _layout(node, items, flags)
    is_yaml = node.style != "json"
    words = [word_of(item, reads, flag_style, is_yaml=is_yaml) for item in items]
    return YamlList(
        words=tuple(words),
        spans=tuple(_spans(node, items)),
        layouts=dict.fromkeys((word.start for word in words), layout),
    )


def _layout(node: Node, items: Sequence[Node], flags: Sequence[Node]) -> Layout:
    text, encode = node.page.text, node.page.encode
    joined = [item for item in flags if "=" in item.text]
    is_joined = len(joined) * 2 > len(flags)
    if not node.style:
        dash = node.start
        line = text.rfind("\n", 0, dash) + 1
        before = encode(line_break(text) + " " * (dash - line) + "- ")
        return Layout(before_flag=before, before_value=before, is_joined=is_joined)
    gaps = [text[one.end : two.start] for one, two in pairwise(items)]
    lines = [gap for gap in gaps if "\n" in gap and "#" not in gap]
    values = [gap for gap in gaps if "\n" not in gap]
    return Layout(
        before_flag=encode(lines[-1] if lines else ", "),
        before_value=encode(lines[-1] if lines and not values else ", "),
        is_joined=is_joined,
        first=node.page.places[items[0].start] if items else -1,
    )


def _spans(node: Node, items: Sequence[Node]) -> Iterator[tuple[int, int]]:
    places, text = node.page.places, node.page.text
    for at, item in enumerate(items):
        if not node.style:
            start, end = _lines_of(text, item)
        else:
            start = items[at - 1].at[1] if at else item.at[0]
            end = item.at[1]
        yield places[start], places[end]


def _lines_of(text: str, item: Node) -> tuple[int, int]:
    """Return the lines of an item, with the line break before and no break after."""
    line = text.rfind("\n", 0, item.at[0])
    if text[max(line - 1, 0)] == "\r":
        line -= 1
    return max(line, 0), line_end(text, item.at[1])


def _single(value: str) -> str:
    return "'" if '"' in value and "'" not in value else ""


def add_words(table: Node, below: str, words: Sequence[str]) -> list[Edit]:
    """Return the edits that add a flag to a list that may be empty, or not there yet.

    Several of them can be made at once, where the table has lines of its own.
    """
    check_may_grow(table, words[0])
    pair = table.entry(below)
    if pair is not None and pair[1].items:
        found = list_of(pair[1], lambda passage: (passage, ()))
        return found.insert(len(found.words) - 1, words)
    if table.style:
        values = list(words)
        if pair is None:
            return at_the_end(table, below, values)
        return replaced(*pair, values)
    if not table.pairs:
        raise PlannerError(f"The text has no place for {words[0]}: its table is empty.")
    page, text = table.page, table.page.text
    key, last = pair or table.pairs[-1]
    end = line_end(text, last.at[1])
    line = text.rfind("\n", 0, key.at[0]) + 1
    indent = line_break(text) + " " * (key.at[0] - line)
    if pair is None:
        edits = [page.edit(end, end, f"{indent}{below}:")]
    else:
        edits = [page.edit(text.index(":", key.at[1]) + 1, last.at[1], "")]
    items = "".join(
        f"{indent}  - {written(one, _single(one), is_text=True)}" for one in words
    )
    return [*edits, page.edit(end, end, items)]
