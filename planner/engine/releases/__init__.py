"""vLLM's releases, and which rules each of them follows.

A fact that changed between releases is written beside the rule that needs it, as the
first release that has it (`_SINCE`) or no longer has it (`_BEFORE`), with a docstring
that says what changed and where in vLLM's source. A release compares with it:

    _ROUNDS_GIB_SINCE = (0, 14)
    ...
    if release >= _ROUNDS_GIB_SINCE:

`>=` and `<` are the only comparisons; `(0, 11) <= release < (0, 13)` is both. A fact
with several boundaries or values is a private function that takes the release, also
beside its rule. A fact that several modules need is a property of `Release`: `facts.py`
holds these by topic. What never changed has no boundary.

When an argument, an architecture or a KV cache dtype appeared is data, not code:
`planner/data/release_history.json`, read by `came_later`.

A version between two known ones follows the older; one newer than all is planned with
the newest rules, and the plan says so.
"""

from __future__ import annotations

import re

from planner.engine.releases.facts import (
    KVCacheFacts,
    ProfilingFacts,
    StartFacts,
    WeightsFacts,
)
from planner.engine.releases.facts import came_later as came_later
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
_VERSION = re.compile(
    r"v?([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:[.+a-z].*)?\Z"
)


@frozen(kw_only=False)
class Release(StartFacts, ProfilingFacts, KVCacheFacts, WeightsFacts):
    """One release of vLLM, with the facts that several rules share."""


def number_of(version: str) -> tuple[int, int, int]:
    """Return a version as three numbers.

    >>> number_of("v0.20.2"), number_of("0.18")
    ((0, 20, 2), (0, 18, 0))

    Raises:
        PlannerError: when the text is not a release.
    """
    match = _VERSION.match(str(version).strip())
    if match is None:
        raise PlannerError(
            f"vllm_version={repr(version)[:40]} is not a release such as {NEWEST}."
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
    number, newest = number_of(requested), number_of(NEWEST)
    if number < number_of(OLDEST):
        raise PlannerError(
            f"vllm_version={requested!r} is older than {OLDEST}, the oldest that is "
            "modelled. It had another engine and other rules, so no figure is given."
        )
    if number[:2] > newest[:2]:
        return Release(newest), (
            f"vLLM {requested} is newer than the planner: "
            f"planned with the rules of {NEWEST}.",
        )
    later = _next_release(number)
    if later is None:
        return Release(number), ()
    return Release(later), (
        f"vLLM {requested} was not published: a development build towards "
        f"{'.'.join(map(str, later))}, planned with its rules.",
    )


def _next_release(number: tuple[int, int, int]) -> tuple[int, int, int] | None:
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
