"""A release that notes which changes its rules asked for, and can leave some out.

Planning under it shows which changes a difference between two releases comes from.
"""

from __future__ import annotations

from functools import lru_cache

from planner.engine.releases import Release
from planner.engine.releases.change import Change, Number


class WatchedRelease(Release):
    """A release that collects the changes that rules ask for.

    It is equal to itself only, so that what was computed for another is not taken.
    """

    __slots__ = ("_ignored", "_old", "seen")

    seen: set[Change]
    """The changes that were asked for so far."""
    _old: Number
    _ignored: frozenset[Change]

    def __init__(self, number: Number, old: Number, ignored: frozenset[Change]) -> None:
        super().__init__(number)
        object.__setattr__(self, "_old", old)
        object.__setattr__(self, "_ignored", ignored)
        object.__setattr__(self, "seen", set())

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        """Return whether it is this very object."""
        return self is other

    def has(self, change: Change) -> bool:
        """Return whether this release has a change, or the old one where ignored."""
        self.seen.add(change)
        return change.holds_in(self._old if change in self._ignored else self.number)


@lru_cache(maxsize=1024)
def watched(
    number: Number, old: Number, ignored: frozenset[Change] = frozenset()
) -> WatchedRelease:
    """Return a release that answers ignored changes as an older one does.

    The same question gets the same object: what is cached for it stays right, and what
    was asked for stays known.
    """
    return WatchedRelease(number, old, ignored)
