"""Ranking names against what somebody types, letter by letter.

Every word typed must be found in the name. What counts, best first: the whole model
name, its beginning, the beginning of one of its words, anywhere, and last the letters
in their order with others between. Signs that separate words do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"[0-9]+|[a-z]+")
_SIGNS = re.compile(r"[-_. ]+")

_WHOLE, _BEGINS, _OWNER_BEGINS, _WORD_BEGINS, _HOLDS, _LETTERS = range(6)
_MISS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A name taken apart for searching."""

    name: str
    whole: str
    """owner/model, lower case, without signs."""
    model: str
    """The part after the last slash, lower case, without signs."""
    starts: frozenset[int]
    """Where words begin in `whole`."""

    @classmethod
    def of(cls, name: str) -> Named:
        """Take a name apart."""
        whole, starts = "", set()
        for piece in re.split(r"([-_. ]+|/)", name.lower()):
            if _SIGNS.fullmatch(piece):
                continue
            starts |= {len(whole) + word.start() for word in _WORD.finditer(piece)}
            whole += piece
        model = whole.rpartition("/")[2]
        return cls(name=name, whole=whole, model=model, starts=frozenset(starts))


def rank(text: str, names: Sequence[Named]) -> tuple[str, ...]:
    """Return the names that hold every word of `text`, best first.

    Equally good ones are ordered by length (a plain model before its variants), then
    by name. Scattered letters count only where no name holds the words themselves.
    Nothing typed holds in every name, in the given order.
    """
    words = [_SIGNS.sub("", word) for word in text.lower().split()]
    words = [word for word in words if word]
    if not words:
        return tuple(named.name for named in names)
    found = [(_score(words, named), len(named.name), named.name) for named in names]
    found = [row for row in found if row[0] < _MISS] or [
        (_LETTERS, len(named.name), named.name)
        for named in names
        if all(_has_letters(word, named.whole) for word in words)
    ]
    return tuple(name for _, _, name in sorted(found))


def _score(words: list[str], named: Named) -> int:
    return sum(_word_score(word, named) for word in words)


def _word_score(word: str, named: Named) -> int:
    if word in (named.model, named.whole):
        return _WHOLE
    if named.model.startswith(word):
        return _BEGINS
    if named.whole.startswith(word):
        return _OWNER_BEGINS
    place = named.whole.find(word)
    while place >= 0:
        if place in named.starts:
            return _WORD_BEGINS
        following = named.whole.find(word, place + 1)
        if following < 0:
            return _HOLDS
        place = following
    return _MISS


def _has_letters(word: str, whole: str) -> bool:
    """Whether the letters of `word` appear in their order."""
    rest = iter(whole)
    return all(letter in rest for letter in word)
