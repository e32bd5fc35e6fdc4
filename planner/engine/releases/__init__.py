"""vLLM's releases, and which rules each of them follows.

What changed between releases is a `Change` (`change.py`) beside the rule that needs it,
asked with `release.has(CHANGE)`. Those that several modules ask for are in `shared.py`.
What never changed has none.

When an argument, an architecture or a KV cache dtype appeared is data, not code:
`planner/data/release_history.json`, read by `came_later`.

A version between two known ones follows the older; one newer than all is planned with
the newest rules, and the plan says so.
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from typing import Literal

from planner.data import DATA
from planner.engine.releases.change import Change, Number, recorded
from planner.errors import PlannerError
from planner.values import frozen

MODELLED = (
    *("0.33.0", "0.32.0", "0.31.0", "0.30.0", "0.29.0", "0.28.0", "0.27.1", "0.27.0"),
    *("0.26.0", "0.25.1", "0.25.0", "0.24.0", "0.23.0", "0.22.1", "0.22.0", "0.21.0"),
    *("0.20.2", "0.20.1", "0.20.0", "0.19.1", "0.19.0", "0.18.1", "0.18.0", "0.17.1"),
    *("0.17.0", "0.16.0", "0.15.1", "0.15.0", "0.14.1", "0.14.0", "0.13.0", "0.12.0"),
    *("0.11.2", "0.11.1", "0.11.0", "0.10.2", "0.10.1", "0.10.0", "0.9.2"),
)
"""Releases whose sources were read, newest first; `make release` adds one."""
NEWEST, OLDEST = MODELLED[0], MODELLED[-1]
"""Nothing else names the newest release: what is about it reads this."""
NEWEST_ON = "2026-11-01"
"""The day of NEWEST's wheel; `make release` writes the day on which it runs."""
_DAYS_BETWEEN = 21
"""vLLM has a new release after two or three weeks."""
_VERSION = re.compile(
    r"v?([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:[.+a-z].*)?\Z"
)


@frozen(kw_only=False)
class Release:
    """One release of vLLM."""

    number: Number

    @property
    def version(self) -> str:
        """The release as text, such as 0.33.0."""
        return ".".join(map(str, self.number))

    def has(self, change: Change) -> bool:
        """Return whether this release does what a change describes."""
        until = change.until  # as `Change.holds_in`, which is asked much less often
        return change.since <= self.number and (until is None or self.number < until)


def number_of(version: str) -> Number:
    """Return a version as three numbers.

    >>> number_of("v0.20.2"), number_of("0.18")
    ((0, 20, 2), (0, 18, 0))

    Raises:
        PlannerError: when the text is not a release.
    """
    match = _VERSION.match(str(version).strip())
    if match is None:
        raise PlannerError(
            f"vllm_version={repr(version)[:40]} is not a release such as {NEWEST}. "
            f"A nightly build or main is planned by the rules of {NEWEST}; "
            "`planner dry-run` asks the vLLM that is installed."
        )
    return int(match[1]), int(match[2]), int(match[3] or 0)


def resolve_version(requested: str | Release) -> tuple[Release, tuple[str, ...]]:
    """Return the release whose rules apply, and remarks for the reader.

    A `Release` is taken as it is.

    Raises:
        PlannerError: when the text is not a release, or is older than any known.
    """
    if isinstance(requested, Release):
        return requested, ()
    is_text = type(requested) is str  # what else users give is refused
    return _of_text(requested) if is_text else _resolved(requested)


@lru_cache(maxsize=256)
def _of_text(requested: str) -> tuple[Release, tuple[str, ...]]:
    return _resolved(requested)


def _resolved(requested: str) -> tuple[Release, tuple[str, ...]]:
    number, newest = number_of(requested), number_of(NEWEST)
    if number < number_of(OLDEST):
        raise PlannerError(
            f"vllm_version={requested!r} is older than {OLDEST}, the oldest that is "
            "modelled. It had another engine and other rules, so no figure is given."
        )
    if number[:2] > newest[:2]:
        return Release(newest), (
            f"vLLM {requested} is newer than the planner: "
            f"planned with the rules of {NEWEST}. {unknown(requested)}",
        )
    later = _next_release(number)
    if later is None:
        return Release(number), ()
    return Release(later), (
        f"vLLM {requested} was not published: a development build towards "
        f"{'.'.join(map(str, later))}, planned with its rules.",
    )


def _next_release(number: Number) -> Number | None:
    """Return the release towards which a build was made; None for releases.

    vLLM's own builds have the number after the last release of a minor:
    0.23.1rc1.dev280 is on the way to 0.24.0, and 0.23.1 never was published.
    """
    published = [number_of(one) for one in MODELLED]
    patches = [one[2] for one in published if one[:2] == number[:2]]
    is_build = bool(patches) and number[2] == max(patches) + 1
    after = [one for one in published if one > number]
    return min(after) if is_build and after else None


NEWEST_RELEASE, OLDEST_RELEASE = Release(number_of(NEWEST)), Release(number_of(OLDEST))


Kind = Literal["arguments", "architectures", "kv_cache_dtypes"]


@cache
def _history() -> dict[Kind, dict[str, str]]:
    path = DATA / "release_history.json"
    table: dict[Kind, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return table


def came_later(kind: Kind, name: str, release: Release) -> str | None:
    """Return the first release that has a name; None if `release` has it.

    Also None for a name that is unknown, or that the oldest release has already.
    """
    first = _history()[kind].get(name)
    if first is None:
        return None
    words = f"vLLM knows {name}, one of its {kind.replace('_', ' ')}."
    has_it = release.has(
        recorded(words, since=first, source="planner/data/release_history.json")
    )
    return None if has_it else first


def is_old(version: str) -> bool:
    """Return whether a version is older than the oldest release known."""
    return number_of(version) < number_of(OLDEST)


def is_behind(version: str) -> bool:
    """Return whether a version is older than the newest release known."""
    return number_of(version) < number_of(NEWEST)


def is_newer(version: str) -> bool:
    """Return whether a version is of a minor release after the newest one known."""
    return number_of(version)[:2] > number_of(NEWEST)[:2]


def unknown(version: str) -> str:
    """Say what is not known of a release that is newer than the newest one known."""
    return (
        f"What {version} changes is not known here: `planner dry-run` asks the "
        "installed vLLM itself."
    )


def known(today: str = "") -> str:
    """Say which release is the newest one known, and how old it is.

    Args:
        today: as 2026-12-31; empty: today.

    >>> known(NEWEST_ON).endswith(f"of {NEWEST_ON}, 0 days old.")
    True
    """
    from datetime import date  # noqa: PLC0415 - few need it

    day = date.fromisoformat(today) if today else date.today()
    days = (day - date.fromisoformat(NEWEST_ON)).days
    found = f"The newest release known is vLLM {NEWEST} of {NEWEST_ON}, {days} days old"
    if days < _DAYS_BETWEEN:
        return f"{found}."
    return (
        f"{found}. A newer one may be out: it is planned with the rules of {NEWEST}, "
        "and what it changes is not counted."
    )


def is_modelled(version: str) -> bool:
    """Return whether a version is neither older nor newer than the releases known."""
    return number_of(OLDEST) <= number_of(version) <= number_of(NEWEST)


def between(first: str, last: str) -> list[str]:
    """Return the releases from one to another, both ends included."""
    first, last = str(first), str(last)  # a number does for `plan` as well
    low, high = sorted((first, last), key=number_of)
    inner = [n for n in MODELLED if number_of(low) < number_of(n) < number_of(high)]
    found = [low, *reversed(inner), *([high] if first != last else [])]
    return found if low == first else found[::-1]
