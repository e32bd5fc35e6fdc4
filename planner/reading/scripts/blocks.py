"""Where the blocks of a shell script begin and end: loops and functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from planner.reading.scripts.word import Word

_MARK = re.compile(
    r"(?:\A|[;&|\n])[ \t\r]*+(?P<word>do|done|[{}])(?![\w=/.-])|\)\s*+(?P<brace>\{)"
    r"|\bfunction[ \t]+[\w:.-]+\s*+(?P<body>\{)"
)
FUNCTION = re.compile(
    r"(?:function\s+(?P<named>[\w:.-]+)(?:\s*\(\s*\))?|(?P<name>[\w:.-]+)\s*\(\s*\))\s*\{"
)
FOR = re.compile(r"for\s+(?P<name>[A-Za-z_]\w*)\s+in(?=\s)")
DO = re.compile(r"\s*do(?=\s)")
PATTERN = re.compile(
    r"(?:\s|#[^\n]*\n)*+\(?[ \t]*(?P<patterns>(?!esac\b)[^()\n;]{1,200})\)"
)
"""How a function and a loop over a list begin."""
_RANGE = re.compile(r"\{(\d{1,3})\.\.(\d{1,3})\}\Z|\$\(seq\s+(\d{1,3})\s+(\d{1,3})\)\Z")
_HERE = re.compile(r"<<-?[ \t]*[\\'\"]?(?P<end>[A-Za-z_]\w*)")
_KEYS = re.compile(r"\$\{!(\w+)\[[@*]\]\}\Z")
_OPENS = {"do": "done", "{": "}"}


def ends_of_blocks(text: str) -> Mapping[int, int]:
    """Return where each block's closing word stands, by where its body begins.

    >>> text = "f() { a; }"
    >>> [(text[start:end]) for start, end in ends_of_blocks(text).items()]
    [' a; ']
    """
    ends: dict[int, int] = {}
    begun: dict[str, list[int]] = {close: [] for close in _OPENS.values()}
    for mark in _MARK.finditer(text):
        word = mark["word"] or "{"
        if word in _OPENS:
            begun[_OPENS[word]].append(mark.end())
        elif begun[word]:
            ends[begun[word].pop()] = mark.start("word")
    return ends


def has_here_document(text: str) -> bool:
    r"""Return whether a text has a here-document with its end.

    >>> has_here_document("cat <<EOF\nx\nEOF"), has_here_document("a << b\n")
    (True, False)
    """
    found = {match["end"] for match in _HERE.finditer(text)}
    return bool(found) and not found.isdisjoint(map(str.strip, text.split("\n")))


def lines_of(text: str) -> Mapping[str, Sequence[int]]:
    """Return where lines begin, by their words without the blanks around them."""
    starts: dict[str, list[int]] = {}
    at = 0
    for line in text.split("\n"):
        starts.setdefault(line.strip(), []).append(at)
        at += len(line) + 1
    return starts


def turns_of(word: Word, keys: Callable[[str], Sequence[str]]) -> Iterator[Word]:
    """Yield the numbers of `{0..3}`, the keys of `${!ARRAY[@]}`, or the word itself.

    Args:
        word: one of those that a loop goes through.
        keys: returns those of an array.
    """
    name, match = _KEYS.match(word.value), _RANGE.match(word.value)
    texts = keys(name[1]) if name else ()
    if match is not None:
        first, last = (int(one) for one in match.groups() if one is not None)
        texts = [str(number) for number in range(first, last + 1)]
    if not texts:
        yield word
    for text in texts:
        passage = word.passage.inside(text, [0] * (len(text) + 1), str)
        yield replace(word, passage=passage, variables=())
