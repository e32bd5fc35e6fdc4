"""Edits of YAML and JSON in their places: scalars, lists of words, entries of tables.

Each writes in the style that it finds: quotes, indentation, one line or several.

Source: YAML 1.1 (yaml.org/spec/1.1) scalar styles, chapter 9.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from planner.engine.flags import plain
from planner.errors import PlannerError
from planner.export.texts.passage import Edit, Passage
from planner.export.texts.shell import Word
from planner.export.texts.sites import WordList
from planner.export.texts.yaml_nodes import Node, resolved
from planner.export.yaml_text import quoted, yaml_text

_FOLD = re.compile(r"[ \t]*\r?\n(?:[ \t]*\r?\n)*[ \t]*")
_ESCAPE = re.compile(
    r"\\(?:x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r"|(?P<line>\r?\n[ \t]*)|(?P<one>.))"
)
_ESCAPES = dict(
    zip(
        '0abt\tnvfre "/\\N_LP',
        '\0\a\b\t\t\n\v\f\r\x1b "/\\\x85\xa0\u2028\u2029',
        strict=True,
    )
)


def passage_of(node: Node) -> Passage:
    r"""Return what a scalar holds, with the place of each of its characters.

    >>> (one,) = documents(Passage.whole('{"a": "x\\ty"}'))
    >>> list(passage_of(one.pairs[0][1]).places)
    [7, 8, 10, 11]
    """
    if node.style in ("|", ">"):
        pieces, places, indent = _block(node)
        encode: Callable[[str], str] = partial(_in_block, indent)
    else:
        quotes = 1 if node.style in ("'", '"') else 0
        pieces, places = _flow(node, node.start + quotes, node.end - quotes)
        encode = _ENCODERS.get(node.style, _in_plain)
    if "".join(pieces) != node.text:  # a form that is not taken apart: only as a whole
        places = [node.start] * len(node.text) + [node.end]
    return node.page.inside(node.text, places, encode)


def _flow(node: Node, start: int, end: int) -> tuple[list[str], list[int]]:
    """Return the characters of a plain or quoted scalar, and where each stands."""
    text, style = node.page.text, node.style
    pieces: list[str] = []
    places: list[int] = []
    at = start
    while at < end:
        new, after = text[at], at + 1
        if fold := _FOLD.match(text, at, end):
            new, after = "\n" * (fold[0].count("\n") - 1) or " ", fold.end()
        elif style == "'" and new == "'":
            after = at + 2
        elif style == '"' and (escape := _ESCAPE.match(text, at, end)):
            new, after = _unescaped(escape), escape.end()
        pieces += new
        places += [at] * len(new)
        at = after
    return pieces, [*places, end]


def _unescaped(escape: re.Match[str]) -> str:
    code = escape["x"] or escape["u"] or escape["U"]
    if code:
        return chr(min(int(code, 16), 0x10FFFF))
    return "" if escape["line"] else _ESCAPES.get(escape["one"], escape["one"])


def _block(node: Node) -> tuple[list[str], list[int], str]:
    """Return the characters of a block scalar, their places and its indentation."""
    text, value = node.page.text, node.text
    first = text.find("\n", node.start) + 1
    lines = list(re.finditer(r"( *)([^\r\n]*)(\r?\n|\Z)", text[first : node.end]))
    full = [line for line in lines if line[2].strip()]
    shown = next((line for line in value.split("\n") if line.strip()), "")
    indent = len(full[0][1]) - (len(shown) - len(shown.lstrip(" "))) if full else 0
    pieces: list[str] = []
    places: list[int] = []
    for kind, at, new in _lines(lines, indent, is_folded=node.style == ">"):
        pieces += new
        places += range(at + first, at + first + len(new)) if kind else [at + first]
    end = min(max(first, node.end), len(text))
    pieces = pieces[: len(value)]
    return pieces, [*places, end, end][: len(value) + 1], " " * indent


def _lines(
    lines: list[re.Match[str]], indent: int, *, is_folded: bool
) -> Iterator[tuple[bool, int, str]]:
    """Yield stretches of a block (verbatim or not, place, text), line breaks too."""
    ended: int | None = None
    breaks: list[int] = []
    was_plain = False
    for line in lines:
        content = line[0][indent:].rstrip("\r\n")
        stop = line.start(3)
        if not content:
            breaks.append(stop)
            continue
        is_plain = is_folded and content[0] not in " \t"
        if ended is not None and is_plain and was_plain:
            if not breaks:
                yield False, ended, " "
        elif ended is not None:
            yield False, ended, "\n"
        yield from ((False, at, "\n") for at in breaks)
        yield True, line.start() + indent, content
        ended, breaks, was_plain = stop, [], is_plain
    if ended is not None:
        yield False, ended, "\n"
    yield from ((False, at, "\n") for at in breaks)


def _in_block(indent: str, new: str) -> str:
    return new.replace("\n", "\n" + indent)


def _in_double(new: str) -> str:
    return json.dumps(new, ensure_ascii=False)[1:-1]


def _in_single(new: str) -> str:
    return new.replace("'", "''")


def _in_plain(new: str) -> str:
    if ": " in new or " #" in new or "\n" in new:
        raise PlannerError(
            f"{new[:80]!r} cannot be written into YAML text without quotes: put the "
            "text in quotes, or under `|`, first."
        )
    return new


_ENCODERS: Mapping[str, Callable[[str], str]] = {"'": _in_single, '"': _in_double}


_SAFE = re.compile(r"(?:--?)?[A-Za-z/][\w./=@+-]*(?::[\w./@-]+)*\Z", re.ASCII)
"""Words that need no quotes in any place of a document."""


def written(value: object, style: str, *, is_text: bool = False) -> str:
    """Return a scalar, a list or a table in the style of the value before it.

    Args:
        value: what to write.
        style: the quote, or "json", of what stands there or beside it.
        is_text: whether a number must be read back as a text.

    >>> written(8192, ""), written("8192", "", is_text=True), written("a", "'")
    ('8192', '"8192"', "'a'")
    """
    if isinstance(value, str):
        return _text(value, style, is_text=is_text)
    if isinstance(value, Mapping | list | tuple | set | frozenset) or style == "json":
        return json.dumps(plain(value), ensure_ascii=False)
    if style in ("'", '"'):
        return _text(json.dumps(value), style)
    return yaml_text(value)


def _text(value: str, style: str, *, is_text: bool = True) -> str:
    if style == "'" and value.isprintable():
        return "'" + _in_single(value) + "'"
    if style == "json":
        return json.dumps(value, ensure_ascii=False)
    is_plain = not style and _SAFE.match(value) and isinstance(resolved(value), str)
    if is_plain or (not style and not is_text and resolved(value) != value):
        return value
    return quoted(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How words are written in one of the lists that make up a command."""

    before_flag: str = " "
    before_value: str = " "
    is_joined: bool = False
    """Whether flags are written --flag=value."""
    first: int = -1
    """Where the first item of a list in one line stands: it has no comma before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
            Edit(start=begin, end=stop, text="") for begin, stop in self.spans[first:last]
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
        if is_flag and layout.is_joined and len(values) == 2:
            values = ["=".join(values)]
        befores = [layout.before_flag if is_flag else layout.before_value]
        befores += [layout.before_value] * (len(values) - 1)
        text = "".join(
            before + word.write(value)
            for before, value in zip(befores, values, strict=True)
        )
        place = self.spans[after][1]
        return [Edit(start=place, end=place, text=text)]


def joined_lists(lists: Sequence[WordList]) -> YamlList:
    """Return lists that follow each other, such as command and args, as one."""
    layouts: dict[int, Layout] = {}
    for one in lists:
        own = Layout(before_flag=one.before_flag, before_value=one.before_value)
        known = one.layouts if isinstance(one, YamlList) else {}
        layouts |= {word.start: known.get(word.start, own) for word in one.words}
    return YamlList(
        words=tuple(word for one in lists for word in one.words),
        spans=tuple(span for one in lists for span in one.spans),
        layouts=layouts,
    )


Reads = Callable[[Passage], "tuple[Passage, tuple[str, ...]]"]
"""Puts in what variables stand for; returns the names of those not known, too."""


def word_of(node: Node, reads: Reads, flag_style: str | None = None) -> Word:
    """Return a scalar as a word of a command, or as a variable's value."""
    passage, variables = reads(passage_of(node))
    return Word(
        passage=passage,
        start=node.page.places[node.start],
        end=node.page.places[node.end if node.is_alias else node.at[1]],
        write=partial(_word, node, passage, flag_style),
        variables=variables,
    )


def _word(node: Node, passage: Passage, flag_style: str | None, value: str) -> str:
    """Write a word in the place of an item, or after it."""
    style = node.style if node.style in ("'", '"') else ""
    if node.style == "json" or node.page.text[node.start] == '"':
        style = '"'
    if flag_style is not None and value.startswith("-"):
        style = flag_style
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
    words = [word_of(item, reads, flag_style) for item in items]
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
        before = encode(_line_break(text) + " " * (dash - line) + "- ")
        return Layout(before_flag=before, before_value=before, is_joined=is_joined)
    gaps = [
        text[one.end : two.start]
        for one, two in zip(items, items[1:], strict=False)
    ]
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
    return max(line, 0), _line_end(text, item.at[1])


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    if end < 0:
        return len(text)
    return end - 1 if text[end - 1] == "\r" else end


def _line_break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def replaced(key: Node, value: Node, new: object, *, is_text: bool = False) -> list[Edit]:
    """Return the edit that writes another value of an entry."""
    start, end = value.at
    style = value.style if value.style in ("'", '"', "json") else ""
    if value.page.text[key.start] == '"' and not isinstance(new, str) and style == '"':
        style = "json" if value.page.text.lstrip()[:1] in "{[" else style
    text = written(new, style, is_text=is_text)
    if start == end:
        text = " " + text
    elif value.kind != "scalar" and not value.style and not value.is_alias:
        colon = value.page.text.find(":", key.at[1])
        start, text = colon + 1, " " + text
    return [value.page.edit(start, end, text)]


def removed(table: Node, key: Node, value: Node) -> list[Edit]:
    """Return the edit that takes an entry out, with its lines or its comma."""
    page, text = table.page, table.page.text
    pairs = list(table.pairs)
    at = next(i for i, pair in enumerate(pairs) if pair[0] is key)
    if len(pairs) == 1:
        start = key.at[0] if not table.style else table.start
        return [page.edit(start, max(value.at[1], table.end), "{}")]
    if table.style and at:
        return [page.edit(pairs[at - 1][1].at[1], value.at[1], "")]
    before = text[text.rfind("\n", 0, key.at[0]) + 1 : key.at[0]]
    if table.style or before.strip():  # the first of a line: the next takes its place
        return [page.edit(key.at[0], pairs[at + 1][0].at[0], "")]
    start = text.rfind("\n", 0, key.at[0]) + 1
    end = _line_end(text, value.at[1])
    if end < len(text):
        end = text.index("\n", end) + 1
    elif start:
        start -= 1
    return [page.edit(start, end, "")]


def added(table: Node, name: str, value: object, *, is_text: bool = False) -> list[Edit]:
    """Return the edit that adds an entry after the last one, in its style."""
    page, text = table.page, table.page.text
    quotes = bool(table.pairs) and table.pairs[-1][0].style == '"'
    style = '"' if table.style == "json" or quotes else ""
    last = table.pairs[-1][1] if table.pairs else None
    own = last.style if is_text and last is not None and last.style in ("'", '"') else ""
    entry = f"{written(name, style)}: {written(value, own, is_text=is_text)}"
    if table.style == "json" or (table.style and isinstance(value, str)):
        entry = f"{written(name, style)}: {json.dumps(plain(value), ensure_ascii=False)}"
    if last is None:
        return [page.edit(table.end - 1, table.end - 1, entry)]
    key = table.pairs[-1][0]
    line = text.rfind("\n", 0, key.at[0]) + 1
    if table.style:
        is_own_line = not text[line : key.at[0]].strip()
        gap = f",{_line_break(text)}{text[line : key.at[0]]}" if is_own_line else ", "
        return [page.edit(last.at[1], last.at[1], gap + entry)]
    end = _line_end(text, last.at[1])
    indent = " " * (key.at[0] - line)
    return [page.edit(end, end, f"{_line_break(text)}{indent}{entry}")]


def replaced_file(edits: Sequence[Edit], passage: Passage) -> list[Edit]:
    """Return edits of a text inside a scalar as edits of the whole text."""
    return [passage.edit(edit.start, edit.end, edit.text) for edit in edits]
