"""Published starts beside dry runs: how many agree, and a table of the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from planner.units import GIB

SIZES = {
    "weights_gib": "weights_bytes",
    "activation_gib": "peak_activation_bytes",
    "available_kv_gib": "available_kv_cache_bytes",
}
"""A dry run's name of each figure of a log."""
NAMES = {"weights_gib": "weights", "activation_gib": "peak", "available_kv_gib": "KV"}
MOST_WEIGHTS_ERROR = 0.001
MOST_PEAK_ERROR_GIB = 0.02
ROUNDING_GIB = 0.005
"""Logs print two decimals."""
BEGIN, END = "<!-- published starts: made -->", "<!-- published starts: end -->"


def compared(start: Mapping[str, Any]) -> dict[str, tuple[float, bool]]:
    """Return by how many GiB each figure is off, and whether that is little enough."""
    found = {}
    for name, size in SIZES.items():
        logged, dry = start["logged"].get(name), start.get(size)
        if logged is not None and dry is not None:
            error = dry / GIB - logged
            below, above = _tolerance_gib(name, start)
            found[name] = (error, -above <= error <= below)
    return found


def _tolerance_gib(name: str, start: Mapping[str, Any]) -> tuple[float, float]:
    """Return by how much a dry figure may be more, and by how much less, than logged.

    A KV cache is less than the dry one where the driver takes more than its estimate.
    """
    if name == "weights_gib":
        most = max(MOST_WEIGHTS_ERROR * start["logged"][name], ROUNDING_GIB)
        return most, most
    if name == "activation_gib":
        return MOST_PEAK_ERROR_GIB, MOST_PEAK_ERROR_GIB
    sizes = (start.get("kv_below_bytes", 0), start.get("kv_above_bytes", 0))
    return sizes[0] / GIB + ROUNDING_GIB, sizes[1] / GIB + ROUNDING_GIB


def with_starts(page: str, starts: Sequence[Mapping[str, Any]]) -> str:
    """Return the page with these starts between its two marks."""
    before, rest = page.split(BEGIN)
    _old, after = rest.split(END)
    return "\n".join(
        [before + BEGIN, *_summary(starts), "", *table(differing(starts)), END + after]
    )


def differing(starts: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the starts with a figure beyond its tolerance."""
    return [
        start
        for start in starts
        if any(not is_within for _, is_within in compared(start).values())
    ]


def shares(starts: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Return for each figure how many starts are within, and how many were compared."""
    found = [compared(start) for start in starts]
    figures = {name: [one[name][1] for one in found if name in one] for name in SIZES}
    return {name: (sum(held), len(held)) for name, held in figures.items()}


def _summary(starts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the totals, and what is not in them."""
    answered = [start for start in starts if "why_not" not in start]
    runs = len({(start["dry_of"], start["cache"]) for start in answered})
    (weights, peak, kv) = shares(starts).values()
    yield (
        f"Of {len(starts)} comparable starts {len(answered)} stand beside {runs} dry "
        f"runs: weights are within 0.1 % in {weights[0]} of {weights[1]}, the peak is "
        f"within 0.02 GiB in {peak[0]} of {peak[1]} whose logs print it, and the KV "
        f"cache is within the driver's range in {kv[0]} of {kv[1]}."
    )
    alike = [start for start in answered if start["has_equal_rules"]]
    held, of = shares(alike)["activation_gib"]
    yield (
        f"Where the release that was started has the log's rules, the peak is within "
        f"in {held} of {of}."
    )


def table(starts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the starts as a table in Markdown, each with what differs."""
    yield "| Start | GPUs | Release | Dry run of | Differs |"
    yield "|" + " --- |" * 5
    for start in starts:
        tensor, pipeline = start["ranks"]
        gpus = f"{tensor * pipeline} x {start['gpu']}" + (pipeline > 1) * ", pipeline"
        yield (
            f"| `{start['id']}` | {gpus} | {start['release']} | "
            f"{start.get('dry_release', '-')}, {start['cache']} | {_words(start)} |"
        )


def _words(start: Mapping[str, Any]) -> str:
    """Say whether the figures agree to the targets."""
    if "why_not" in start:
        return str(start["why_not"])
    off = [
        f"{NAMES[name]} {error:+.3f} GiB"
        for name, (error, is_within) in compared(start).items()
        if not is_within
    ]
    words = ", ".join(off) or "within"
    return words if start["has_equal_rules"] else f"{words} (other release's rules)"
