"""`Change`: what a release of vLLM changed, as one value beside the rule it belongs to.

    _ROUNDS_GIB = Change(
        since=(0, 14),
        what="Sizes in messages are rounded to 0.01 GiB.",
        source="vLLM 0.14.0 `v1/core/kv_cache_utils.py` _check_enough_kv_cache_memory",
    )
    ...
    if release.has(_ROUNDS_GIB):

Nothing else compares releases. `planner upgrade`, docs/reference/changes.md and the
release tool read the same values, so `what` is a sentence for whoever upgrades.
"""

from __future__ import annotations

from functools import cache

from planner.errors import Refused
from planner.values import frozen

Number = tuple[int, int, int]


@frozen
class Change:
    """Something that vLLM does from one release on, or up to one."""

    since: tuple[int, ...] = ()
    """The first release that does it; () where the oldest one did already."""
    until: tuple[int, ...] | None = None
    """The first release that no longer does it; None: the newest one still does."""
    what: str
    """What vLLM does then."""
    source: str = ""
    """Release of vLLM, file and symbol, or the record from which it is known."""

    def holds_in(self, number: Number) -> bool:
        """Return whether vLLM of this number does it.

        >>> Change(since=(0, 14), what="Rounds GiB.").holds_in((0, 14, 1))
        True
        """
        return self.since <= number and (self.until is None or number < self.until)


@cache
def recorded(
    what: str, *, since: str = "", until: str = "", source: str = ""
) -> Change:
    """Return the change that a data file records for a name, its releases as text.

    >>> recorded("The argument x exists.", since="0.14.1").since
    (0, 14, 1)
    """
    return Change(
        since=_numbers(since), until=_numbers(until) or None, what=what, source=source
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("."))) if version else ()


class RefusedSince(Refused):
    """A setting that vLLM refuses since a release; how older ones act is unknown."""

    def __init__(self, message: str, since: Change) -> None:
        """Store the message and since when the setting is refused."""
        super().__init__(message)
        self.since = since
