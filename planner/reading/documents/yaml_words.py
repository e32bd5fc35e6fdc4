"""Words of a command in lists of a document, and how further ones are written there.

Each list is written on in its own style: dashes or commas, quotes, --flag=value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from planner.reading.documents.nodes import Node
from planner.reading.documents.yaml_edits import (
    at_the_end,
    check_may_grow,
    last_line,
    line_break,
    line_end,
    passage_of,
    replaced,
    written,
)
from planner.reading.passage import Edit, Passage
from planner.reading.scripts.shell import Word
from planner.reading.sites import WordList, joined_lists

__all__ = ["Reads", "add_words", "as_it_is", "joined_lists", "list_of", "word_of"]

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


def list_of(node: Node, reads: Reads) -> WordList:
    """Return the items of a list as words."""
    items = [item for item in node.items if item.kind == "scalar"]
    flags = [item for item in items if item.text.startswith("-")]
    styles = [item.style if item.style in ("'", '"') else "" for item in flags]
    flag_style = max(styles, key=styles.count) if styles else None
    is_yaml = node.style != "json"
    text, places = node.page.text, node.page.places
    own = [item.at if node.style else _lines_of(text, item) for item in items]
    joined = [item for item in flags if "=" in item.text]
    before_flag, before_value = _separators(node, items)
    return WordList(
        words=tuple(word_of(one, reads, flag_style, is_yaml=is_yaml) for one in items),
        spans=tuple((places[start], places[end]) for start, end in own),
        before_flag=node.page.encode(before_flag),
        before_value=node.page.encode(before_value),
        has_commas=bool(node.style),
        is_joined=len(joined) * 2 > len(flags),
    )


def _separators(node: Node, items: Sequence[Node]) -> tuple[str, str]:
    """Return what stands before a flag, and before any other item."""
    text = node.page.text
    if not node.style:
        line = text.rfind("\n", 0, node.start) + 1
        before = line_break(text) + " " * (node.start - line) + "- "
        return before, before
    gaps = [text[one.end : two.start] for one, two in pairwise(items)]
    lines = [gap for gap in gaps if "\n" in gap and "#" not in gap]
    values = [gap for gap in gaps if "\n" not in gap]
    first = lines[-1] if lines else ", "
    return first, first if lines and not values else ", "


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
    page, text = table.page, table.page.text
    end, indent = last_line(table, words[0])
    edits = [page.edit(end, end, f"{indent}{below}:")]
    if pair is not None:
        key, value = pair
        end = line_end(text, value.at[1])
        colon = text.index(":", key.at[1]) + 1
        edits = [page.edit(colon, value.at[1], "")]
    items = "".join(
        f"{indent}  - {written(one, _single(one), is_text=True)}" for one in words
    )
    return [*edits, page.edit(end, end, items)]
