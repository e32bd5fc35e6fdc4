"""A release that notes which boundaries its rules asked for, and can ignore some.

Planning under it shows which rules a difference between two releases comes from.
"""

from __future__ import annotations

import sys
from functools import lru_cache

from planner.engine.releases import Release
from planner.values import frozen

_CALLER = 2
"""Frames from `WatchedRelease._is_since` to the rule."""


@frozen
class Boundary:
    """Where a rule compares the release, and with which."""

    file: str
    """Of the rule's code."""
    line: int
    """The first of the function."""
    function: str
    release: tuple[int, ...]
    """The first that follows the rule's new form."""


class WatchedRelease(Release):
    """A release that collects what it was compared with.

    It is equal to itself only, so that what was computed for another is not taken.
    """

    __slots__ = ("_ignored", "_old", "seen")

    seen: set[Boundary]
    """The boundaries that were asked for so far."""
    _old: tuple[int, int, int]
    _ignored: frozenset[Boundary]

    def __init__(
        self,
        number: tuple[int, int, int],
        old: tuple[int, int, int],
        ignored: frozenset[Boundary],
    ) -> None:
        super().__init__(number)
        object.__setattr__(self, "_old", old)
        object.__setattr__(self, "_ignored", ignored)
        object.__setattr__(self, "seen", set())

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        """Return whether it is this very object."""
        return self is other

    def __ge__(self, first: tuple[int, ...]) -> bool:
        """Return whether this release is `first` or later, as far as not ignored."""
        return self._is_since(first)

    def __lt__(self, first: tuple[int, ...]) -> bool:
        """Return whether this release is older than `first`, as far as not ignored."""
        return not self._is_since(first)

    def _is_since(self, first: tuple[int, ...]) -> bool:
        code = sys._getframe(_CALLER).f_code
        boundary = Boundary(
            file=code.co_filename,
            line=code.co_firstlineno,
            function=code.co_qualname,
            release=tuple(first),
        )
        self.seen.add(boundary)
        number = self._old if boundary in self._ignored else self.number
        return number >= first


@lru_cache(maxsize=1024)
def watched(
    number: tuple[int, int, int],
    old: tuple[int, int, int],
    ignored: frozenset[Boundary] = frozenset(),
) -> WatchedRelease:
    """Return a release whose ignored boundaries are answered as by an older one.

    The same question gets the same object: what is cached for it stays right, and its
    boundaries stay known.
    """
    return WatchedRelease(number, old, ignored)
