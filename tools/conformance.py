"""Count how often the planner answers as vLLM's own code did, and name what differs.

    python -m tools.conformance [RELEASE ...]

Every recorded case is planned and compared: weights within 0.1 %, everything else
exactly. docs/conformance.md explains the differences of the newest release.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

from planner.errors import PlannerError
from tools.answers import BEFORE_LOADING, RELEASES, Case, cases, differences

Differences = Mapping[str, Sequence[str]]
"""By the id of a case; nothing where the planner's answer is vLLM's."""


def main(releases: Sequence[str]) -> int:
    """Compare the cases of each release and print what was found."""
    for release in releases or RELEASES:
        recorded = cases(release)
        found = {case["id"]: _differences(case) for case in recorded}
        print(f"vLLM {release}\n\n{table(recorded, found)}\n\n{listed(found)}")
    return 0


def table(recorded: Sequence[Case], found: Differences) -> str:
    """Write how many cases are answered alike, by what is compared."""
    answered = [case for case in recorded if "refused" not in case["expect"]]
    plain = [
        case for case in answered if case["expect"]["resolved"]["quantization"] is None
    ]
    refused = [case for case in recorded if "refused" in case["expect"]]
    later = {name: _without(what, BEFORE_LOADING) for name, what in found.items()}
    settings = {name: _without(what, "weights") for name, what in found.items()}
    weights = {
        name: [one for one in what if one.startswith("weights")]
        for name, what in found.items()
    }
    rows = (
        ("all figures", recorded, found),
        ("all figures, weights only where recorded after loading", recorded, later),
        ("defaults, block sizes, KV cache groups, capacity", answered, settings),
        ("refusals and their text", refused, found),
        ("weights of checkpoints that are not quantised", plain, weights),
    )
    lines = ["| compared | cases | answered alike |", "| --- | ---: | ---: |"]
    return "\n".join([*lines, *(_row(*row) for row in rows)])


def listed(found: Differences) -> str:
    """Write each case that differs, except in weights recorded before loading."""
    later = {name: _without(what, BEFORE_LOADING) for name, what in found.items()}
    lines = (f"- {name}: {', '.join(what)}\n" for name, what in later.items() if what)
    return "".join(lines)


def _differences(case: Case) -> list[str]:
    try:
        return differences(case)
    except PlannerError as error:
        return [f"{type(error).__name__}: {error}"]


def _without(names: Iterable[str], start: str) -> list[str]:
    return [name for name in names if not name.startswith(start)]


def _row(compared: str, chosen: Sequence[Case], found: Differences) -> str:
    alike = sum(not found[case["id"]] for case in chosen)
    share = alike / max(len(chosen), 1)
    return f"| {compared} | {len(chosen):,} | {alike:,} ({100 * share:.1f} %) |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
