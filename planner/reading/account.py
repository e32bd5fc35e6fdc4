"""The account of a text: each of its pieces is used, kept, open or not understood.

What a reader took tells its place (`Site.at`, `Reading.places`); the rest of the text
is accounted for here, so that the four add up to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from planner.engine.arguments import ARGUMENTS, Memory
from planner.engine.environment_names import is_variable
from planner.engine.server import SERVER_FLAGS
from planner.values import frozen

if TYPE_CHECKING:
    from planner.reading.reading import Reading
    from planner.reading.sites import Site, Start


class Use(StrEnum):
    """What became of a piece of a text."""

    USED = "used"
    KEPT = "kept"
    OPEN = "open"
    NOT_UNDERSTOOD = "not understood"


@frozen
class Piece:
    """Characters `start` to `end` of a text, and what became of them."""

    start: int
    end: int
    use: Use
    what: str
    """Used: for which input. Kept: why it has no effect. Open: what to say. Not
    understood: what it would have to be."""
    text: str = ""
    """The characters themselves."""


_FIRST = (Use.OPEN, Use.NOT_UNDERSTOOD, Use.USED, Use.KEPT)
"""Which counts where two readers took the same characters."""
_NO_MEMORY = "no effect on memory"
_OF_SERVER = "a flag of the server: no effect on memory"
_OF_LOG = "what the log tells of this start"
_GIVEN_AGAIN = "given again further on, which counts"
_WORDS_NOT_TOLD = "further words of the command, which the text does not tell"
_OUTSIDE = "outside of this start"
_WORD_OF_QUESTION = "a word around what is asked"
_NUMBER = "a number that belongs to nothing that is asked"
_WORDS = re.compile(r"\S+(?:[ \t]+\S+)*")
_OF_QUESTION = re.compile(
    r"(?P<number>\S*\d\S*)|[^\s\d]+(?!\S)(?:[ \t]+[^\s\d]+(?!\S))*+"
)


def account_of(
    reading: Reading, *, lines: Iterable[tuple[int, int]], is_question: bool
) -> tuple[Piece, ...]:
    """Return the pieces of a reading's text, in order; only blanks are in none.

    Args:
        reading: what was read.
        lines: of a log, where the lines are that tell of this start.
        is_question: whether a number that nobody took is missed.
    """
    text = reading.given
    taken = [*reading.places]
    taken += [Piece(start=a, end=b, use=Use.USED, what=_OF_LOG) for a, b in lines]
    if reading.start is not None:
        taken += _of_start(reading.start)
    found: list[Piece] = []
    done = 0
    for piece in [*_apart(taken), None]:
        end = len(text) if piece is None else piece.start
        found += _between(text, done, end, is_question=is_question)
        if piece is not None:
            found.append(piece)
            done = piece.end
    return tuple(replace(one, text=text[one.start : one.end]) for one in found)


def _apart(taken: Iterable[Piece]) -> list[Piece]:
    """Return pieces in order, none over another: the more urgent ones stay whole."""
    kept: list[Piece] = []
    for piece in sorted(taken, key=lambda one: (one.start, _FIRST.index(one.use))):
        start = max(piece.start, kept[-1].end if kept else 0)
        if kept and start > piece.start and _is_urgent(piece, kept[-1]):
            last = kept.pop()
            if last.start < piece.start:
                kept.append(_part(last, last.start, piece.start))
            start = piece.start
        if start < piece.end:
            kept.append(_part(piece, start, piece.end))
    return kept


def _is_urgent(piece: Piece, before: Piece) -> bool:
    return _FIRST.index(piece.use) < _FIRST.index(before.use)


def _part(piece: Piece, start: int, end: int) -> Piece:
    return replace(piece, start=start, end=end)


def _of_start(start: Start) -> Iterator[Piece]:
    last = {(site.name, site.path): site for site in start.sites}
    for site in start.sites:
        is_last = last[site.name, site.path] is site or site.is_appended
        yield from _of_site(site, is_last=is_last)
    for begin, end in start.open_at:
        yield Piece(start=begin, end=end, use=Use.OPEN, what=_WORDS_NOT_TOLD)
    for name, site in start.env.items():
        if name.startswith("VLLM_") and is_variable(name):
            yield from _placed(site, Use.USED, name)
    if start.version is not None:
        yield from _placed(start.version, Use.USED, "vllm_version")


def _of_site(site: Site, *, is_last: bool) -> Iterator[Piece]:
    argument = ARGUMENTS.get(site.name)
    if not is_last:
        yield from _placed(site, Use.KEPT, _GIVEN_AGAIN)
    elif site.name == "model" or argument is not None:
        is_idle = argument is not None and argument.memory is Memory.NONE
        use, what = (Use.KEPT, _NO_MEMORY) if is_idle else (Use.USED, site.name)
        yield from _placed(site, use, what)
    elif site.name in SERVER_FLAGS:
        yield from _placed(site, Use.KEPT, _OF_SERVER)
    else:
        yield from _placed(site, Use.NOT_UNDERSTOOD, "no argument of vLLM")


def _placed(site: Site, use: Use, what: str) -> Iterator[Piece]:
    if site.variables:
        use = Use.OPEN
        what = f"{site.name}: {' '.join(site.variables[:3])} is not set in the text"
    for start, end in site.at:
        yield Piece(start=start, end=end, use=use, what=what)


def _between(text: str, start: int, end: int, *, is_question: bool) -> Iterator[Piece]:
    """Yield what no reader took: of a question its numbers are missed."""
    pieces = _OF_QUESTION if is_question else _WORDS
    for one in pieces.finditer(text, start, end):
        use, what = Use.KEPT, _OUTSIDE
        if is_question:
            is_number = one["number"] is not None
            use = Use.NOT_UNDERSTOOD if is_number else Use.KEPT
            what = _NUMBER if is_number else _WORD_OF_QUESTION
        yield Piece(start=one.start(), end=one.end(), use=use, what=what)
