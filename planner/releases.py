"""vLLM releases whose rules the planner knows.

Only 0.33 so far. A newer release is planned with the newest known rules, and the plan
says so; an older one is refused, because its rules differ.
"""

from __future__ import annotations

import re

from planner.errors import PlannerError

NEWEST = "0.33.0"
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[.+a-z].*)?\Z")


def resolve_version(asked: str) -> tuple[str, tuple[str, ...]]:
    """Return the release whose rules apply, and what a reader should know about it.

    Raises:
        PlannerError: when the text is not a release, or one older than any known.
    """
    match = _VERSION.match(asked.strip())
    if match is None:
        raise PlannerError(f"vllm_version={asked!r} is not a release such as {NEWEST}.")
    wanted = (int(match[1]), int(match[2]))
    known = tuple(int(part) for part in NEWEST.split(".")[:2])
    if wanted < known:
        raise PlannerError(
            f"vllm_version={asked!r} is not modelled yet; {NEWEST} is. "
            "Older releases have other rules, so no figure is given."
        )
    if wanted > known:
        return NEWEST, (
            f"vLLM {asked} is newer than the planner: "
            f"planned with the rules of {NEWEST}.",
        )
    return NEWEST if match[3] is None else f"{match[1]}.{match[2]}.{match[3]}", ()
