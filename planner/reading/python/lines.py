"""Lines of code between lines of words: of a page that was copied, of a damaged script.

Each statement stands for itself; a comma that was lost between two lines is put in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from planner.reading.passage import Passage, joined
from planner.reading.python.syntax import parsed
from planner.reading.splitting import dedented, taken

_BEGINS = re.compile(
    r"[ \t]*(?:(?:from|import|if|for|with|def|class|async|try|else|elif|except)\b"
    r"|@\w|[A-Za-z_][\w.\[\]\"', ]*?[ \t]*(?:\+?=|:[ \t]*\w+[ \t]*=)(?!=)"
    r"|(?:await[ \t]+)?[A-Za-z_][\w.]*\()"
)
_TOKEN = re.compile(
    r"\"\"\"|\'\'\'|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?|#[^\n]*"
    r"|[\[({]|[\])}]|\n"
)
_LOST_COMMA = re.compile(
    r"^([^#\n]*[\])}\"'\w])\n(?=[ \t]*[A-Za-z_]\w*[ \t]*=(?!=))", re.MULTILINE
)
_LEFT_OUT = re.compile(r"^[ \t]*(?:\.\.\.|\u2026),?[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
"""What stands for arguments that are not shown."""
_MOST_LINES = 60
_WIDEST = 200
_QUOTES = ('"""', "'''")
_CLOSES = {"(": ")", "[": "]", "{": "}"}


def lines_of_code(page: Passage) -> Passage | None:
    r"""Return the statements of a page of words as one piece of code; None for none.

    >>> page = Passage.whole("So:\nx = f(\na=1)\n(see)")
    >>> getattr(lines_of_code(page), "text")
    'x = f(\na=1)\n'
    """
    found = list(_statements(page))
    return joined(found) if found else None


def _statements(page: Passage) -> Iterator[Passage]:
    text, at = page.text, 0
    while at < len(text):
        stop = text.find("\n", at) + 1 or len(text)
        if _BEGINS.match(text, at, stop):
            end, missing = _end_of(text, at)
            found = _parsed(_with_end(page, at, end, missing)) if end > at else None
            if found is not None:
                yield found
                stop = end
        at = stop


def _end_of(text: str, at: int) -> tuple[int, str]:
    """Return where a statement and its block end, and the brackets it leaves open."""
    opened: list[str] = []
    lines, quote = 0, ""
    head = text[at : at + _WIDEST]
    deeper = _deeper(len(head) - len(head.lstrip(" \t")))
    for match in _TOKEN.finditer(text, at):
        token = match[0]
        if token in _QUOTES or quote:
            quote = "" if token == quote else quote or token
        elif token in _CLOSES:
            opened.append(_CLOSES[token])
        elif token in ")]}":
            del opened[-1:]
        lines += token == "\n"
        if lines > _MOST_LINES:
            return at, ""
        is_end = token == "\n" and not opened and not quote
        if is_end and not deeper.match(text, match.end()):
            return match.end(), ""
    return len(text), "".join(reversed(opened))


def _deeper(indent: int) -> re.Pattern[str]:
    return re.compile(rf"(?:[ \t]{{0,{_WIDEST}}}\n){{0,3}}[ \t]{{{indent + 1},}}\S")


def _with_end(page: Passage, at: int, end: int, missing: str) -> Passage:
    """Return a statement that ends in a line break, closed where its end is cut off."""
    part = page.part(at, end)
    more = missing + ("" if part.text.endswith("\n") and not missing else "\n")
    return part.ended(more)


def _parsed(page: Passage) -> Passage | None:
    """Return a statement that is Python, without its indentation; None for words."""
    text, indent = page.text, len(page.text) - len(page.text.lstrip(" \t"))
    found = taken(page, dedented(text, 0, len(text), indent))
    whole = _LEFT_OUT.sub(lambda match: " " * len(match[0]), found.text)
    for one in (found.text, whole, _LOST_COMMA.sub(r"\1,", whole)):
        if parsed(one) is not None:
            return replace(found, text=one)
    return None
