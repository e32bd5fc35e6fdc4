"""How certain a plan's figures are: their basis, and how accurate past plans were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.html import Html, fragment, tag
from planner.show.pieces import NOTHING, listed, to_open
from planner.show.record import accuracy, record_sentences
from planner.show.verdict import KV_CACHE
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.planning.result import Plan

_OWN = "measured here"
_MEANINGS = {
    "exact": "follows from vLLM's code, byte for byte",
    "dry run": "measured by vLLM itself, on a GPU that is not there",
    "formula": "derived from vLLM's code",
    "measured": "fitted to published start-ups",
    _OWN: "by one of your own starts",
    "assumed": "an assumption, with a wide range",
}


def certainty_html(plan: Plan) -> Html:
    """Show the panel; empty where nothing is allocated."""
    inside = certainty_body(plan)
    if not inside:
        return NOTHING
    return to_open("How sure is this?", inside, "pl-rank pl-certainty", key="certainty")


def certainty_body(plan: Plan) -> Html:
    """List the basis of the figures; empty where nothing is allocated."""
    if plan.limiting_rank is None:
        return NOTHING
    bases = [
        (tag("b", basis), f" ({_MEANINGS[basis]}): {format_gib(size)}")
        for basis, size in sizes_by_basis(plan).items()
    ]
    return fragment(listed(bases, None), (tag("p", text) for text in sentences(plan)))


def sentences(plan: Plan) -> tuple[str, ...]:
    """Say the range, then what it rests on: an own start, or the record of others."""
    own = own_sentence(plan)
    rests = (own,) if own else record_sentences(plan)
    return (range_sentence(plan), *rests, overall_sentence())


def sizes_by_basis(plan: Plan) -> dict[str, int]:
    """Return the bytes of the limiting rank's lines by basis, without the KV cache."""
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
    """State the range in which the KV cache should be."""
    rank = plan.limiting_rank
    if rank is None:
        return ""
    low, high = rank.available_kv_cache_low_bytes, rank.available_kv_cache_high_bytes
    if low == high:
        return "The size of the KV cache is fixed, so it is not uncertain."
    what = f"The {KV_CACHE}" if rank.bytes_per_block else "What is left of the budget"
    return (
        f"{what} should come out between {format_gib(low)} and "
        f"{format_gib(high)}. {plan.outcome.capitalize()}."
    )


def own_sentence(plan: Plan) -> str:
    """State that the figures come from the user's own start; empty without one."""
    records = {line.record for rank in plan.ranks for line in rank.lines} - {""}
    if not records:
        return ""
    return (
        f"Figures of your own GPU are used (record {min(records)}); their range is "
        "that of repeated starts."
    )


def overall_sentence() -> str:
    """State the error of all past plans, and that of a flat reserve instead."""
    known = accuracy()
    return (
        f"All {known['starts']} published start-ups: off by "
        f"{known['kv_median_error_gib']:.2f} GiB in the median; "
        f"{known['inside_percent']:.0f} % lie in the stated range. Taking off a flat "
        f"2.5 GiB is off by {known['rival_median_error_gib']:.2f} GiB."
    )
