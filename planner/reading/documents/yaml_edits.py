"""Edits of YAML and JSON in their places: scalars, lists of words, entries of tables.

Each writes in the style that it finds: quotes, indentation, one line or several.

Source: YAML 1.1 (yaml.org/spec/1.1) scalar styles, chapter 9.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from planner.engine.flags import plain
from planner.errors import PlannerError
from planner.export.yaml_text import quoted, yaml_text
from planner.reading.documents.nodes import Node, resolved
from planner.reading.passage import Edit, Passage

_BLANKS = re.compile(r"[ \t]+")
_FOLD = re.compile(r"[ \t]*\r?\n(?:[ \t]*\r?\n)*[ \t]*")
_ESCAPE = re.compile(
    r"\\(?:x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r"|(?P<line>(?:\r?\n[ \t]*)+)|(?P<one>.))"
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

    >>> from planner.reading.documents.yaml_nodes import documents
    >>> (one,) = documents(Passage.whole('{"a": "x\\ty"}'))
    >>> list(passage_of(one.pairs[0][1]).places)
    [7, 8, 10, 11]
    """
    if node.style in ("|", ">"):
        pieces, places, indent = _block(node)
        encode: Callable[[str], str] = partial(
            _in_block, line_break(node.page.text) + indent
        )
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
        elif run := _BLANKS.match(text, at, end):  # at once: none of them is a fold
            pieces += run[0]
            places += range(at, run.end())
            at = run.end()
            continue
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
    if escape["line"]:
        return "\n" * (escape["line"].count("\n") - 1)
    return _ESCAPES.get(escape["one"], escape["one"])


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


def _in_block(line: str, new: str) -> str:
    return new.replace("\n", line)


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


def line_end(text: str, at: int) -> int:
    """Return where the line of a place ends, before its line break."""
    end = text.find("\n", at)
    if end < 0:
        return len(text)
    return end - 1 if text[end - 1] == "\r" else end


def line_break(text: str) -> str:
    """Return the line break that a text uses."""
    return "\r\n" if "\r\n" in text else "\n"


def replaced(
    key: Node, value: Node, new: object, *, is_text: bool = False
) -> list[Edit]:
    """Return the edit that writes another value of an entry."""
    start, end = value.at
    style = value.style if value.style in ("'", '"', "json") else ""
    if key.page.text[key.start] == '"' and not isinstance(new, str) and style == '"':
        style = "json" if value.page.text.lstrip()[:1] in "{[" else style
    text = written(new, style, is_text=is_text or isinstance(new, str))
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
    end = line_end(text, value.at[1])
    if end < len(text):
        end = text.index("\n", end) + 1
    elif start:
        start -= 1
    return [page.edit(start, end, "")]


def check_may_grow(table: Node, name: str) -> None:
    """Refuse to add to what is no table in the text, but values by their paths."""
    if table.style == "set":
        raise PlannerError(
            f"The text has no place for {name}: add a value by its path."
        )


def added(
    table: Node, name: str, value: object, *, is_text: bool = False
) -> list[Edit]:
    """Return the edit that adds an entry after the last one, in its style."""
    check_may_grow(table, name)
    page, text = table.page, table.page.text
    key, last = table.pairs[-1] if table.pairs else (table, None)
    style = '"' if table.style == "json" or key.style == '"' else ""
    own = last.style if is_text and last is not None else ""
    own = own if own in ("'", '"') else ""
    is_json = table.style == "json" or (table.style and isinstance(value, str))
    shown = written(value, "json" if is_json else own, is_text=True)
    entry = f"{written(name, style)}: {shown}"
    if last is None:
        return [page.edit(table.end - 1, table.end - 1, entry)]
    if table.style:
        before = text[text.rfind("\n", 0, key.at[0]) + 1 : key.at[0]]
        gap = ", " if before.strip() else f",{line_break(text)}{before}"
        return [page.edit(last.at[1], last.at[1], gap + entry)]
    end, indent = last_line(table, name)
    return [page.edit(end, end, f"{indent}{entry}")]


def added_below(table: Node, below: str, name: str, value: object) -> list[Edit]:
    """Return the edits that add an entry to a table that may not be there yet.

    Several of them can be made at once: they write the same line for the table itself.
    """
    check_may_grow(table, name)
    pair = table.entry(below)
    if pair is not None and pair[1].pairs:
        return added(pair[1], name, value)
    if pair is not None:
        return replaced(*pair, {name: value})
    if table.style:
        return at_the_end(table, below, {name: value})
    end, indent = last_line(table, name)
    lines = (f"{indent}{below}:", f"{indent}  {name}: {written(value, '')}")
    return [table.page.edit(end, end, line) for line in lines]


def last_line(table: Node, name: str) -> tuple[int, str]:
    """Return where the lines of a table end, and what its next line begins with."""
    if not table.pairs:
        raise PlannerError(f"The text has no place for {name}: its table is empty.")
    text, (key, last) = table.page.text, table.pairs[-1]
    indent = key.at[0] - text.rfind("\n", 0, key.at[0]) - 1
    return line_end(text, last.at[1]), line_break(text) + " " * indent


def at_the_end(table: Node, name: str, value: object) -> list[Edit]:
    """Return an edit that no other may be made beside: it rewrites the last value."""
    (edit,) = added(table, name, value)
    page, last = table.page, table.end - 2
    if table.pairs:
        last = table.pairs[-1][1].at[1] - 1
    start = page.places[last]
    return [replace(edit, start=start, text=page.encode(page.text[last]) + edit.text)]
