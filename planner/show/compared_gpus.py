"""A comparison of GPUs, best first, and the texts of its cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.compared_plans import written
from planner.show.sheet import Answer, Listing, Sheet, table_of
from planner.units import counted, format_gib

if TYPE_CHECKING:
    from planner.solve.comparing.gpus import GPUChoice, GPUComparison

_MOST_WORDS = 160
"""Characters of an error that are shown; to_dict() has the whole text."""
_CENT = 0.01
_SPEED = "Tokens per second, at most"
_ANSWERS = "Per million answer tokens, at least"
_KINDS = {"Verdict": "pl-word", _SPEED: "pl-wide", _ANSWERS: "pl-wide"}
"""Columns that hold words, and columns with a long title."""


def price_text(price: float | None, currency: str) -> str:
    """Write a price with two decimals, or two digits where it is less than a hundredth.

    >>> price_text(2.5, "EUR"), price_text(0.00123, ""), price_text(None, "EUR")
    ('2.50 EUR', '0.0012', '')
    """
    if price is None:
        return ""
    number = f"{price:,.2f}" if price >= _CENT or not price else f"{price:.2g}"
    return f"{number} {currency}".strip()


def cells(choice: GPUChoice, found: GPUComparison) -> dict[str, str]:
    """Write one GPU's figures by the titles of their columns; deciding ones first."""
    plan = choice.plan
    rank = None if plan is None else plan.limiting_rank
    tokens = choice.kv_cache_size_tokens if rank else None
    serves = "starts" if found.load is None else "serves"
    speed = choice.at_most_tokens_per_second
    answers = choice.at_least_price_per_million_answer_tokens
    cost = {"Price per hour": price_text(choice.price_per_hour, found.currency)}
    bounds: dict[str, str] = {}
    if any(one.at_most_tokens_per_second for one in found.choices):
        bounds = {_SPEED: "" if speed is None else f"{speed:,.0f}"}
        if found.has_prices:
            bounds[_ANSWERS] = price_text(answers, found.currency)
    return {
        "GPU": choice.gpu.name,
        "GPUs": f"{choice.gpus_total or ''}",
        "Verdict": f"✔ {serves}" if choice.serves else "✘ does not",
        **bounds,
        **(cost if found.has_prices else {}),
        "KV cache of each": format_gib(rank.available_kv_cache_bytes)
        if rank
        else "none",
        "KV cache, tokens": f"{tokens:,}" if tokens is not None else "none",
        "Requests": written(choice.requests, "requests") if rank else "none",
        "Requests, at least": written(choice.requests_low, "requests")
        if rank
        else "none",
    }


def title(found: GPUComparison) -> str:
    """State what is compared, and what each GPU must do."""
    load = found.load
    if load is None:
        must = "start"
    else:
        must = (
            f"hold {counted(load.requests, 'requests')} of "
            f"{counted(load.request_tokens, 'tokens')}"
        )
    return (
        f"{found.plan.name}, vLLM {found.plan.vllm_version}: the fewest GPUs of each "
        f"kind that {must}"
    )


def tried(found: GPUComparison) -> str:
    """Say of which layouts the fewest and the cheapest are."""
    sizes = ", ".join(map(str, found.sizes_tried))
    return (
        f"Tried: tensor parallel sizes {sizes}, with pipeline and data "
        "parallel sizes as given. Another layout may need fewer GPUs, or cost less."
    )


def reasons(found: GPUComparison) -> list[str]:
    """Return the start of the reason for each GPU that does not serve."""
    return [
        f"{choice.gpu.name}: {_shortened(choice.why_not)}"
        for choice in found.choices
        if not choice.serves
    ]


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_WORDS else f"{text[: _MOST_WORDS - 3]}..."


def sheet(found: GPUComparison) -> Sheet:
    """Say the best GPU, the table, why some do not serve, and what was tried."""
    rows = [cells(choice, found) for choice in found.choices]
    return Sheet(
        (
            _best(found),
            table_of("Each kind of GPU, best first", rows, _KINDS, most=5),
            Listing(reasons(found), "Why some do not", is_folded=True),
            tried(found),
        )
    )


def _best(found: GPUComparison) -> Answer:
    """Name the first GPU that serves, and say what "best" means here."""
    best = found.best
    serving = sum(choice.serves for choice in found.choices)
    do = "start" if found.load is None else "serve"
    counted = f"{serving:,} of {len(found.choices):,} kinds of GPU {do}"
    if best is None:
        headline, tone, symbol, order = f"No kind of GPU {do}s", "short", "✘", ""
    else:
        price = price_text(best.price_per_hour, found.currency)
        hourly = f", {price} per hour" if price else ""
        headline = f"{best.gpus_total} x {best.gpu.name}{hourly}"
        tone, symbol = "fits", "✔"
        order = "; the cheapest is first" if price else "; the fewest GPUs are first"
        order = f"{order}, of those tried"
    return Answer(
        tone=tone,
        symbol=symbol,
        headline=headline,
        subject=title(found),
        sentence=f"{counted}{order}.",
    )
