"""How sure is this: what a plan's figures rest on, and how far off they were before."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.units import format_gib

if TYPE_CHECKING:
    from planner.result import Plan

_OWN = "measured here"
_MEANINGS = {
    "exact": "vLLM's code decides it, byte for byte",
    "formula": "derived from vLLM's code",
    "measured": "fitted to published start-ups",
    _OWN: "by a start of your own",
    "assumed": "an assumption, with a wide range",
}


@cache
def accuracy() -> dict[str, Any]:
    """Return the figures of the accuracy report, which `make accuracy` writes."""
    path = Path(__file__).parents[1] / "data" / "accuracy.json"
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table


def certainty_html(plan: Plan) -> str:
    """Show the panel; empty where nothing is allocated."""
    inside = certainty_body(plan)
    if not inside:
        return ""
    return (
        "<details class='pl-rank pl-certainty' data-key='certainty'><summary>How sure "
        f"is this?</summary>{inside}</details>"
    )


def certainty_body(plan: Plan) -> str:
    """Say what the figures rest on; empty where nothing is allocated."""
    if plan.limiting_rank is None:
        return ""
    bases = "".join(
        f"<li><b>{basis}</b> ({escape(_MEANINGS[basis])}): {format_gib(size)}</li>"
        for basis, size in sizes_by_basis(plan).items()
    )
    return (
        f"<ul>{bases}</ul><p>{escape(range_sentence(plan))}</p>"
        f"<p>{escape(own_sentence(plan) or record_sentence(plan))}</p>"
        f"<p>{escape(overall_sentence())}</p>"
    )


def sizes_by_basis(plan: Plan) -> dict[str, int]:
    """Return how many bytes of the limiting rank's lines rest on what; no KV cache."""
    rank = plan.limiting_rank
    sizes = dict.fromkeys(_MEANINGS, 0)
    for line in rank.lines if rank else ():
        if line.name not in ("KV cache", "not planned"):
            basis = str(line.basis)
            sizes[_OWN if line.record and basis == "measured" else basis] += (
                line.size_bytes
            )
    return {basis: size for basis, size in sizes.items() if size}


def range_sentence(plan: Plan) -> str:
    """Say within which range the KV cache should be."""
    rank = plan.limiting_rank
    if rank is None:
        return ""
    low, high = rank.available_kv_cache_low_bytes, rank.available_kv_cache_high_bytes
    if low == high:
        return "The KV cache is fixed, so nothing of it is uncertain."
    return (
        f"The KV cache should come out between {format_gib(low)} and "
        f"{format_gib(high)}. {plan.outcome.capitalize()}."
    )


def own_sentence(plan: Plan) -> str:
    """Say that a start of the user's own is behind the figures; empty without one."""
    records = {line.record for rank in plan.ranks for line in rank.lines} - {""}
    if not records:
        return ""
    return (
        f"Figures of your own GPU are used (record {min(records)}); their range is "
        "that of repeated starts."
    )


def record_sentence(plan: Plan) -> str:
    """Say how far off plans of this release were."""
    minor = ".".join(plan.vllm_version.split(".")[:2])
    known = accuracy()["releases"].get(minor)
    if known is None:
        return (
            f"No published start-up of vLLM {minor} was compared yet: its rules are "
            "read from its code."
        )
    return (
        f"vLLM {minor}: {known['starts']} published start-ups, KV cache off by "
        f"{known['median_error_gib']:.2f} GiB in the median and "
        f"{known['mean_error_gib']:.2f} GiB on average."
    )


def overall_sentence() -> str:
    """Say how far off all plans were, and a flat reserve instead."""
    known = accuracy()
    return (
        f"All {known['starts']} published start-ups: off by "
        f"{known['kv_median_error_gib']:.2f} GiB in the median; "
        f"{known['inside_percent']:.0f} % lie in the stated range. Taking off a flat "
        f"2.5 GiB is off by {known['rival_median_error_gib']:.2f} GiB."
    )
