"""The verdict in words, symbol and signed number: what a reader sees first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from planner.units import format_gib

if TYPE_CHECKING:
    from planner.result import Plan, RankMemory


class State(StrEnum):
    """What the verdict comes to; never shown by colour alone."""

    FITS = "fits"
    TIGHT = "tight"
    SHORT = "short"
    REFUSED = "refused"


SYMBOLS = {State.FITS: "✔", State.TIGHT: "!", State.SHORT: "✘", State.REFUSED: "✘"}

_STATES = {
    "fits": State.FITS,
    "too close to call": State.TIGHT,
    "does not fit": State.SHORT,
    "refused": State.REFUSED,
}
OURS = ("too_close", "host_memory")
"""Kinds of errors that the planner says, not vLLM."""

_HEADLINES = {
    "refused": "vLLM refuses these settings",
    "weights": "Does not fit: the weights are too large",
    "no_kv": "Does not fit: nothing is left for the KV cache",
    "max_model_len": "Does not fit: one request needs more KV cache",
    "host_memory": "Does not fit: a machine has too little CPU memory",
    "free_memory": "Does not start: too little memory is free",
    "num_seqs": "Does not start: max_num_seqs is too high",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer to "will it start, and how close is it?"."""

    state: State
    headline: str
    margin: str
    """KV cache left after one request, signed; empty when vLLM never gets so far."""
    sentence: str
    """What the margin means, in plain words."""

    @property
    def symbol(self) -> str:
        """A sign that says the state without colour."""
        return SYMBOLS[self.state]


def state_of(plan: Plan) -> State:
    """Tell whether `plan` starts, starts only within the estimate's range, or fails."""
    return _STATES[str(plan.outcome)]


def missing_bytes(plan: Plan, rank: RankMemory) -> int:
    """KV cache that one request of `max_model_len` needs on a rank and does not get."""
    return max(0, _request_bytes(plan, rank) - rank.available_kv_cache_bytes)


def _request_bytes(plan: Plan, rank: RankMemory) -> int:
    """Blocks of one request, and the null block where vLLM sets it aside."""
    return plan.blocks_per_request * rank.bytes_per_block + rank.set_aside_bytes


def verdict(plan: Plan) -> Verdict:
    """Put the verdict of `plan` into words."""
    state = state_of(plan)
    if plan.error is not None and plan.error.kind == "host_memory":
        return Verdict(
            state=state,
            headline=_headline(plan, state),
            margin=format_gib(-_missing_host_bytes(plan), signed=True),
            sentence="of CPU memory missing on a machine",
        )
    margin = plan.margin_bytes
    return Verdict(
        state=state,
        headline=_headline(plan, state),
        margin=""
        if margin is None or state is State.REFUSED
        else format_gib(margin, signed=True),
        sentence=_sentence(plan, margin),
    )


def _missing_host_bytes(plan: Plan) -> int:
    """What the machine lacks that is shortest of CPU memory."""
    return max(
        one.certain_bytes - (one.capacity_bytes or one.certain_bytes)
        for one in plan.host
    )


def _headline(plan: Plan, state: State) -> str:
    if state is State.TIGHT:
        return "Too close to call"
    if plan.error is not None:
        return _HEADLINES.get(plan.error.kind, "vLLM would not start")
    return "Fits"


def _sentence(plan: Plan, margin: int | None) -> str:
    if margin is None or plan.resolved is None:
        return "vLLM stops before it loads anything."
    request = f"one request of {plan.resolved.max_model_len:,} tokens"
    if margin < 0:
        return f"of KV cache missing for {request}"
    return f"of KV cache left after {request}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One of the few numbers to lead with, under vLLM's name for it."""

    name: str
    text: str
    detail: str


def key_figures(plan: Plan) -> tuple[Figure, ...]:
    """Choose the numbers that answer "how much, how many, how long, how many GPUs".

    Source of the names: the start-up log of vLLM 0.33.0 (`v1/core/kv_cache_utils.py`).
    """
    rank = plan.limiting_rank
    if rank is None or plan.resolved is None:
        return ()
    longest = plan.max_model_len_that_fits
    return (
        _available(rank, plan.gpu.kind),
        Figure(
            name=f"{plan.gpu.kind} KV cache size",
            text=f"{max(plan.kv_cache_size_tokens, 0):,}",
            detail="tokens",
        ),
        Figure(
            name="Maximum concurrency",
            text=f"{max(plan.max_concurrency, 0):,.2f}x",
            detail=f"requests of {plan.resolved.max_model_len:,} tokens",
        ),
        Figure(
            name="Longest max_model_len",
            text="none" if longest is None else f"{longest:,}",
            detail="tokens that fit",
        ),
    )


def _available(rank: RankMemory, kind: str) -> Figure:
    low, high = rank.available_kv_cache_low_bytes, rank.available_kv_cache_high_bytes
    return Figure(
        name="Available KV cache",
        text=format_gib(rank.available_kv_cache_bytes),
        detail=f"per {kind}"
        if low == high
        else f"{format_gib(low)} to {format_gib(high)}",
    )
