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

from planner.reading.documents.nodes import DEEPEST, Node
from planner.reading.documents.templates import hide
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


def json_of(page: Passage) -> Node:
    """Return a page in JSON.

    Raises:
        ValueError: for anything else.
    """
    reader = _Blocks(page, is_json=True)
    node = reader.value(0)
    if reader.next(lines=True) is not None:
        raise ValueError
    return node


def scalar_of(word: Word) -> Node:
    """Return a word of a command as a value."""
    return Node.of(word.passage, "scalar", 0, len(word.value), text=word.value)


def tree_of(pairs: Iterable[tuple[Node, Node]]) -> Node | None:
    """Return paths, such as `a.b[0].c`, and their values as a table; None for none."""
    root: dict[str, Any] = {}
    first: Node | None = None
    for path, value in pairs:
        first = first or path
        below = root
        *above, leaf = _PART.findall(path.text)[:DEEPEST] or [""]
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
    if all(name.startswith("[") for name in below):
        items = tuple(value for _, value in pairs)
        return Node.of(at.page, "sequence", at.start, at.end, style="set", items=items)
    return _table(at.page, at.start, at.end, pairs, "set")


def _table(
    page: Passage, start: int, end: int, pairs: list[tuple[Node, Node]], style: str
) -> Node:
    return Node.of(page, "mapping", start, end, style=style, pairs=tuple(pairs))


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
            key = Node.of(page, "scalar", *match.span("name"), text=match["name"])
            inner = value.strip(style) if style else value
            given = Node.of(page, "scalar", start, end, style=style, text=inner)
            pairs.append((key, given))
        else:
            match = _EMPTY_LINE.match(page.text, at)
            if match is None or match.end() == at:
                raise ValueError
        at = match.end()
    return _table(page, 0, len(page.text), pairs, "names")


class _Blocks:
    """Reads HCL, TOML or JSON with the places of its values."""

    def __init__(self, page: Passage, *, is_json: bool = False) -> None:
        self.page = page
        self.text = page.text
        self.at = 0
        self.is_json = is_json

    def next(self, *, lines: bool = False) -> re.Match[str] | None:
        """Return the token that comes, over blanks (and lines); None at the end."""
        while self.at < len(self.text):
            match = _TOKEN.match(self.text, self.at)
            if match is None:
                raise ValueError
            if not match["blank"] and not (lines and match["line"]):
                return match
            self.at = match.end()
        return None

    def _take(self, sign: str = "", *, lines: bool = False) -> re.Match[str]:
        match = self.next(lines=lines)
        if match is None or (sign and match["sign"] != sign):
            raise ValueError
        self.at = match.end()
        return match

    def _is_next(self, signs: str, *, lines: bool = False) -> bool:
        match = self.next(lines=lines)
        return match is not None and (match["sign"] or "\0") in signs

    def _scalar(self, start: int, text: str, style: str = "") -> Node:
        return Node.of(self.page, "scalar", start, self.at, style=style, text=text)

    def _key(self, *, lines: bool = False) -> Node:
        match = self._take(lines=lines)
        if match["text"]:
            return self._text(match)
        if self.is_json or not match["plain"]:
            raise ValueError
        return self._scalar(match.start(), match[0])

    def body(self, depth: int, closing: str) -> Node:
        """Return the attributes and the blocks up to a closing brace."""
        if depth > DEEPEST:
            raise ValueError
        pairs: list[tuple[Node, Node]] = []
        begun = self.at - len(closing)
        while self.next(lines=True) is not None:
            if closing and self._is_next(closing, lines=True):
                break
            if pairs and self.is_json:
                self._take(",", lines=True)
            elif self._is_next(",", lines=True):
                self._take()
                continue
            pairs.append(self._entry(depth))
        if closing:
            self._take(closing, lines=True)
        style = "json" if self.is_json else "hcl"
        return _table(self.page, begun, self.at, pairs, style)

    def _entry(self, depth: int) -> tuple[Node, Node]:
        keys = [self._key(lines=True)]
        if self.is_json:
            self._take(":", lines=True)
            return keys[0], self.value(depth + 1)
        while not self._is_next("=:{"):
            keys.append(self._key())
        if self._take()["sign"] == "{":
            value = self.body(depth + 1, "}")
        else:
            value = self.value(depth + 1)
        for key in reversed(keys[1:]):
            value = _table(self.page, key.start, value.end, [(key, value)], "hcl")
        return keys[0], value

    def value(self, depth: int) -> Node:
        """Return the value that comes."""
        if depth > DEEPEST:
            raise ValueError
        match = self._take(lines=True)
        if match["text"]:
            node = self._text(match)
        elif match["sign"] == "{":
            node = self.body(depth, "}")
        elif match["sign"] == "[":
            node = self._list(match.start(), depth)
        elif match["heredoc"] or match["triple"]:
            return self._long(match)
        else:
            node = self._plain(match, depth)
        return node if self.is_json else self._rest(node)

    def _text(self, match: re.Match[str]) -> Node:
        text, quote = match[0][1:-1], match[0][0]
        if quote == '"':
            text = json.loads(match[0].replace("\\'", "'"), strict=False)
        elif self.is_json:
            raise ValueError
        return self._scalar(match.start(), text, quote)

    def _plain(self, match: re.Match[str], depth: int) -> Node:
        if _PLAIN.fullmatch(match[0]):
            return self._scalar(match.start(), match[0].replace("_", ""), "json")
        if self.is_json or not match["plain"]:
            raise ValueError
        if self._is_next("("):
            self._take()
            inner = self.value(depth + 1) if match[0] in _THROUGH else None
            self._until()
            if inner is not None:
                return inner
        return self._open(match.start(), self.at)

    def _until(self) -> None:
        """Pass over the rest of what a bracket opened."""
        depth = 1
        while depth:
            sign = self._take(lines=True)["sign"]
            depth += (sign in ("(", "[", "{")) - (sign in (")", "]", "}"))

    def _rest(self, node: Node) -> Node:
        """Pass over the rest of an expression, which leaves it open."""
        end = node.end
        while (match := self.next()) is not None and not match["line"]:
            if match["sign"] in ("]", "}", ")", ","):
                break
            self.at = match.end()
            if match["sign"] in ("(", "[", "{"):
                self._until()
            end = self.at
        return node if end == node.end else self._open(node.start, end)

    def _open(self, start: int, end: int) -> Node:
        """Return what is decided when it is run."""
        return Node.of(self.page, "scalar", start, end, text=hide(self.text[start:end]))

    def _list(self, start: int, depth: int) -> Node:
        items: list[Node] = []
        while not self._is_next("]", lines=True):
            if items and self.is_json:
                self._take(",", lines=True)
            items.append(self.value(depth + 1))
            if not self.is_json and self._is_next(",", lines=True):
                self._take(lines=True)
        self._take(lines=True)
        return Node.of(
            self.page, "sequence", start, self.at, style="json", items=tuple(items)
        )

    def _long(self, match: re.Match[str]) -> Node:
        """Return a text of several lines: between three quotes, or to its own end."""
        tag, end = match["tag"], len(match[0])
        closing = rf"^[ \t]*{tag}[ \t]*\r?$" if tag else re.escape(match[0])
        found = re.compile(closing, re.MULTILINE).search(self.text, self.at)
        if found is None or self.is_json:
            raise ValueError
        text = self.text[self.at : found.start()]
        self.at, end = found.end(), found.start() if tag else found.end()
        text = dedent(text) if match[0].startswith("<<-") else text
        style = "|" if tag else "triple"
        return Node.of(self.page, "scalar", match.start(), end, style=style, text=text)

    def toml(self) -> Node:
        """Return the tables of TOML as one table."""
        pairs: list[tuple[Node, Node]] = []
        before = ""
        while self.next(lines=True) is not None:
            if self._is_next("[", lines=True):
                while self._is_next("[", lines=True):
                    self._take(lines=True)
                before = f"{self._key().text}."
                while self._is_next("]"):
                    self._take()
                continue
            key = self._key(lines=True)
            self._take("=")
            value = self.value(0)
            if value.kind == "scalar" and not value.style:  # such as of an INI file
                raise ValueError
            pairs.append((replace(key, text=before + key.text), value))
        found = tree_of(pairs)
        if found is None:
            raise ValueError
        return found
