"""HCL, TOML and files of NAME=value as nodes that know their places in the text.

Source: HCL 2 native syntax specification (Terraform 1.13, Nomad 1.10); TOML 1.0; dotenv
and Java's properties, as DJL's serving.properties has them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from textwrap import dedent
from typing import Any

from planner.reading.documents.templates import hide
from planner.reading.documents.yaml_nodes import Node
from planner.reading.passage import Passage
from planner.reading.scripts.shell import Word

_HCL = re.compile(
    r"^(?:resource|variable|locals|job|group|task|module|data|terraform|provider|output"
    r"|container_definitions|template|config)\b[^=:\n{]*\{",
    re.MULTILINE,
)
_TOML = re.compile(r"^\[\[?[\w.\"' -]+\]\]?[ \t]*(?:#[^\n]*)?\r?$", re.MULTILINE)
_TOML_VALUE = re.compile(r"(?:\s|#[^\n]*\n)*[\w.\"-]+[ \t]*=[ \t]*[\"'\d\[{tf]")
_NAMED_LINE = re.compile(
    r"[ \t]*(?:export[ \t]+)?(?P<name>(?:option\.[\w.]+|[A-Za-z]\w*))[ \t]*=[ \t]*"
    r"(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\n#]*?)[ \t]*(?:#[^\n]*)?\r?(?:\n|\Z)"
)
_EMPTY_LINE = re.compile(r"[ \t]*(?:[#!][^\n]*)?\r?(?:\n|\Z)")
_TOKEN = re.compile(
    r"(?P<blank>[ \t\r]+|(?:\#|//)[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/|\Z))"
    r"|(?P<line>\n)"
    r"|(?P<heredoc><<-?(?P<tag>\w+)[ \t]*\r?\n)"
    r"|(?P<triple>\"\"\"|''')"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*')"
    r"|(?P<plain>[^\s{}\[\](),=:\"']+)"
    r"|(?P<sign>[{}\[\](),=:])"
)
_PLAIN = re.compile(r"-?\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")
_PART = re.compile(r"\[\d+\]|(?:[^.\[\]\\]|\\.)+")
_THROUGH = (
    "jsonencode yamlencode tostring base64encode trimspace chomp tolist tomap "
    "tonumber toset indent nonsensitive".split()
)
"""Functions of Terraform whose result says what their argument says."""
_DEEPEST = 40


def blocks_of(page: Passage) -> Node | None:
    r"""Return a page in HCL, TOML or NAME=value as one table; None for anything else.

    >>> root = blocks_of(Passage.whole('[a.b]\nc = [1, "x"] # y\n'))
    >>> root.get("a", "b", "c").value
    [1, 'x']
    """
    readers: tuple[tuple[bool, Callable[[], Node]], ...] = (
        (_HCL.search(page.text) is not None, lambda: _Blocks(page).body(0, "")),
        (_TOML.search(page.text) is not None, lambda: _Blocks(page).toml()),
        ("=" in page.text, lambda: _named(page)),
    )
    for is_like, reader in readers:
        if is_like:
            try:
                return reader()
            except (ValueError, RecursionError):
                continue
    return None


def is_hcl(text: str) -> bool:
    """Return whether a text has a block of Terraform or Nomad."""
    return _HCL.search(text) is not None


def is_toml(text: str) -> bool:
    """Return whether a text has a table of TOML, with a dot in its name or a value."""
    header = _TOML.search(text)
    return header is not None and _TOML_VALUE.match(text, header.end()) is not None


def _scalar(page: Passage, start: int, end: int, style: str, text: str) -> Node:
    return Node(
        kind="scalar",
        page=page,
        start=start,
        end=end,
        at=(start, end),
        style=style,
        text=text,
        size=end - start,
    )


def _table(
    page: Passage, start: int, end: int, pairs: list[tuple[Node, Node]], style: str
) -> Node:
    return Node(
        kind="mapping",
        page=page,
        start=start,
        end=end,
        at=(start, end),
        style=style,
        pairs=tuple(pairs),
        size=end - start,
    )


def scalar_of(word: Word) -> Node:
    """Return a word of a command as a value."""
    return _scalar(word.passage, 0, len(word.value), "", word.value)


def tree_of(pairs: Iterable[tuple[Node, Node]]) -> Node | None:
    """Return paths, such as `a.b[0].c`, and their values as a table; None for none."""
    root: dict[str, Any] = {}
    first: Node | None = None
    for path, value in pairs:
        first = first or path
        below = root
        *above, leaf = _PART.findall(path.text)[:_DEEPEST] or [""]
        for part in above:
            below = below.setdefault(part, {})
            if not isinstance(below, dict):
                return None
        below[leaf] = (path, value)
    return None if first is None else _tree(root, first)


def _tree(below: dict[str, Any], at: Node) -> Node:
    pairs: list[tuple[Node, Node]] = []
    for name, inner in below.items():
        key, value = inner if isinstance(inner, tuple) else (at, _tree(inner, at))
        pairs.append((replace(key, text=name.strip("[]").replace("\\.", ".")), value))
    table = _table(at.page, at.start, at.end, pairs, "set")
    if all(name.startswith("[") for name in below):
        items = tuple(value for _, value in pairs)
        return replace(table, kind="sequence", pairs=(), items=items)
    return table


def _named(page: Passage) -> Node:
    """Return the lines of NAME=value; ValueError where a line is anything else."""
    pairs: list[tuple[Node, Node]] = []
    at = 0
    while at < len(page.text):
        match = _NAMED_LINE.match(page.text, at)
        if match is not None:
            start, end = match.span("value")
            value = match["value"]
            style = value[:1] if value[:1] in ("'", '"') else ""
            key = _scalar(page, *match.span("name"), "", match["name"])
            inner = value.strip(style) if style else value
            pairs.append((key, _scalar(page, start, end, style, inner)))
        else:
            match = _EMPTY_LINE.match(page.text, at)
            if match is None or match.end() == at:
                raise ValueError
        at = match.end()
    return _table(page, 0, len(page.text), pairs, "names")


class _Blocks:
    """Reads HCL or TOML with the places of its values."""

    def __init__(self, page: Passage) -> None:
        self.page = page
        self.text = page.text
        self.at = 0

    def _next(self, *, lines: bool = False) -> re.Match[str] | None:
        """Return the token that comes, over blanks (and lines); None at the end."""
        while self.at < len(self.text):
            match = _TOKEN.match(self.text, self.at)
            if match is None:
                raise ValueError
            if not match["blank"] and not (lines and match["line"]):
                return match
            self.at = match.end()
        return None

    def _take(self, *, lines: bool = False) -> re.Match[str]:
        match = self._next(lines=lines)
        if match is None:
            raise ValueError
        self.at = match.end()
        return match

    def _is_next(self, sign: str, *, lines: bool = False) -> bool:
        match = self._next(lines=lines)
        return match is not None and match["sign"] == sign

    def _key(self, match: re.Match[str]) -> Node:
        if not (match["plain"] or match["text"]):
            raise ValueError
        text = match[0][1:-1] if match["text"] else match[0]
        style = '"' if match["text"] else ""
        return _scalar(self.page, match.start(), match.end(), style, text)

    def body(self, depth: int, closing: str) -> Node:
        """Return the attributes and the blocks up to a closing brace."""
        if depth > _DEEPEST:
            raise ValueError
        pairs: list[tuple[Node, Node]] = []
        begun = self.at - len(closing)
        while True:
            match = self._next(lines=True)
            if match is None or (closing and match["sign"] == closing):
                break
            if match["sign"] == ",":
                self.at = match.end()
                continue
            pairs.append(self._entry(depth))
        if closing:
            self._take(lines=True)
        return _table(self.page, begun, self.at, pairs, "hcl")

    def _entry(self, depth: int) -> tuple[Node, Node]:
        keys = [self._key(self._take(lines=True))]
        while not (self._is_next("=") or self._is_next(":") or self._is_next("{")):
            keys.append(self._key(self._take()))
        if self._take()["sign"] == "{":
            value = self.body(depth + 1, "}")
        else:
            value = self._value(depth + 1)
        for key in reversed(keys[1:]):
            value = _table(self.page, key.start, value.end, [(key, value)], "hcl")
        return keys[0], value

    def _value(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise ValueError
        match = self._take(lines=True)
        start = match.start()
        if match["heredoc"]:
            return self._heredoc(match)
        if match["triple"]:
            return self._triple(match)
        if match["text"]:
            node = self._text(match)
        elif match["sign"] == "{":
            node = self.body(depth, "}")
        elif match["sign"] == "[":
            node = self._list(start, depth)
        else:
            node = self._plain(match, depth)
        return self._rest(node)

    def _text(self, match: re.Match[str]) -> Node:
        text = match[0][1:-1]
        if match[0][0] == '"':
            text = json.loads(match[0].replace("\\'", "'"), strict=False)
        return _scalar(self.page, match.start(), self.at, match[0][0], text)

    def _plain(self, match: re.Match[str], depth: int) -> Node:
        if not match["plain"]:
            raise ValueError
        is_call = self._is_next("(")
        if is_call:
            self._take()
        if is_call and match[0] in _THROUGH:
            inner = self._value(depth + 1)
            self._until()
            return inner
        if is_call:
            self._until()
        end = self.at
        if is_call or not _PLAIN.fullmatch(match[0]):
            return self._open(match.start(), end)
        return _scalar(self.page, match.start(), end, "json", match[0].replace("_", ""))

    def _until(self) -> None:
        """Pass over the rest of what a bracket opened."""
        depth = 1
        while depth:
            sign = self._take(lines=True)["sign"]
            depth += (sign in ("(", "[", "{")) - (sign in (")", "]", "}"))

    def _rest(self, node: Node) -> Node:
        """Pass over the rest of an expression, which leaves it open."""
        end = node.end
        while (match := self._next()) is not None and not match["line"]:
            if match["sign"] in ("]", "}", ")", ","):
                break
            self.at = match.end()
            if match["sign"] in ("(", "[", "{"):
                self._until()
            end = self.at
        if end == node.end:
            return node
        return self._open(node.start, end)

    def _open(self, start: int, end: int) -> Node:
        """Return what is decided when it is run."""
        return _scalar(self.page, start, end, "", hide(self.text[start:end]))

    def _list(self, start: int, depth: int) -> Node:
        items: list[Node] = []
        while not self._is_next("]", lines=True):
            items.append(self._value(depth + 1))
            if self._is_next(",", lines=True):
                self._take(lines=True)
        self._take(lines=True)
        return Node(
            kind="sequence",
            page=self.page,
            start=start,
            end=self.at,
            at=(start, self.at),
            style="json",
            items=tuple(items),
            size=self.at - start,
        )

    def _heredoc(self, match: re.Match[str]) -> Node:
        closing = re.compile(rf"^[ \t]*{match['tag']}[ \t]*\r?$", re.MULTILINE)
        found = closing.search(self.text, self.at)
        if found is None:
            raise ValueError
        text = self.text[self.at : found.start()]
        text = dedent(text) if match[0].startswith("<<-") else text
        node = _scalar(self.page, match.start(), found.start(), "|", text)
        self.at = found.end()
        return node

    def _triple(self, match: re.Match[str]) -> Node:
        end = self.text.find(match[0], self.at)
        if end < 0:
            raise ValueError
        text = self.text[self.at : end]
        self.at = end + len(match[0])
        return _scalar(self.page, match.start(), self.at, "triple", text)

    def toml(self) -> Node:
        """Return the tables of TOML as one table."""
        root: dict[str, Any] = {}
        while self._next(lines=True) is not None:
            start = self.at
            path: list[Node] = []
            while self._is_next("[", lines=True):
                self._take(lines=True)
            if self.at != start and self.text[self.at - 1] == "[":
                path = [self._key(self._take())]
            while self._is_next("]"):
                self._take()
            pairs = self._toml_pairs()
            if self.at == start:  # a sign that begins nothing here
                raise ValueError
            table = _table(self.page, start, self.at, pairs, "toml")
            _put(root, _split(path), table)
        return _joined(self.page, root)

    def _toml_pairs(self) -> list[tuple[Node, Node]]:
        pairs: list[tuple[Node, Node]] = []
        while (match := self._next(lines=True)) is not None and not match["sign"]:
            key = self._key(self._take(lines=True))
            if self._take()["sign"] != "=":
                raise ValueError
            value = self._value(0)
            if value.kind == "scalar" and not value.style:  # such as of an INI file
                raise ValueError
            pairs.append((key, value))
        return pairs


def _split(path: list[Node]) -> list[tuple[str, Node]]:
    return [(part, node) for node in path for part in node.text.split(".")]


def _put(root: dict[str, Any], path: list[tuple[str, Node]], table: Node) -> None:
    """Put a table at its place; several of one name follow each other."""
    for name, key in path:
        root = root.setdefault(name, {"": key, "tables": [], "below": {}})["below"]
    root.setdefault("", []).append(table)


def _joined(page: Passage, root: dict[str, Any], key: Node | None = None) -> Node:
    own = root.get("", [])
    pairs = [pair for table in own for pair in table.pairs]
    for name, part in root.items():
        if name:
            at: Node = part[""]
            named = _scalar(page, at.start, at.end, at.style, name)
            pairs.append((named, _joined(page, part["below"], at)))
    start = own[0].start if own else (key.start if key else 0)
    end = own[-1].end if own else start
    return _table(page, start, end, pairs, "toml")
