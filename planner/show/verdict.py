"""A plan's verdict and key figures, and a plan as text and as one spoken sentence.

The verdict, in words, a symbol and a signed number, is what a reader sees first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from planner.show.host import host_lines, host_spoken
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.memory.account import Line, VLLMError
    from planner.memory.estimate import RankMemory
    from planner.planning.result import Plan


class State(StrEnum):
    """The state of a plan; never shown by colour alone."""

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
"""Kinds of errors that the planner reports, not vLLM."""

CONDITIONAL = "Fits, if what is not counted fits too"
"""The headline of a plan whose settings change memory by an amount not known."""
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
    """KV cache left after one request, signed; empty when vLLM stops before that."""
    sentence: str
    """What the margin means, in plain words."""

    @property
    def symbol(self) -> str:
        """A sign that shows the state without colour."""
        return SYMBOLS[self.state]


def state_of(plan: Plan) -> State:
    """Return whether `plan` starts, may start within the estimate's range, or fails."""
    return _STATES[str(plan.outcome)]


def missing_bytes(plan: Plan, rank: RankMemory) -> int:
    """Return the KV cache that one request of `max_model_len` lacks on a rank."""
    return max(0, _request_bytes(plan, rank) - rank.available_kv_cache_bytes)


def _request_bytes(plan: Plan, rank: RankMemory) -> int:
    """Return the blocks of one request, and the null block if vLLM sets it aside."""
    return plan.blocks_per_request * rank.bytes_per_block + rank.set_aside_bytes


def verdict(plan: Plan) -> Verdict:
    """Return the verdict of `plan` in words."""
    state = state_of(plan)
    if plan.error is not None and plan.error.kind == "host_memory":
        return Verdict(
            state=state,
            headline=_headline(plan, state),
            margin=format_gib(_missing_host_bytes(plan)),
            sentence="of CPU memory missing on a machine",
        )
    margin = plan.margin_bytes
    return Verdict(
        state=state,
        headline=_headline(plan, state),
        margin="" if state is State.REFUSED else _margin(margin),
        sentence=_sentence(plan, margin),
    )


def _margin(margin: int | None) -> str:
    """Write what is left with a plus; a sentence says of the other that it is missing.

    >>> _margin(1 << 30), _margin(-(1 << 30)), _margin(None)
    ('+1.00 GiB', '1.00 GiB', '')
    """
    if margin is None:
        return ""
    return format_gib(abs(margin), signed=margin >= 0)


def _missing_host_bytes(plan: Plan) -> int:
    """Return how much CPU memory is missing on the machine that lacks the most."""
    return max(
        one.certain_bytes - (one.capacity_bytes or one.certain_bytes)
        for one in plan.host
    )


def _headline(plan: Plan, state: State) -> str:
    if state is State.TIGHT:
        return "Too close to call"
    if plan.error is not None:
        return _HEADLINES.get(plan.error.kind, "vLLM would not start")
    return CONDITIONAL if plan.conditions else "Fits"


def _sentence(plan: Plan, margin: int | None) -> str:
    if margin is None or plan.resolved is None:
        return "vLLM stops before it loads anything."
    request = f"one request of {plan.resolved.max_model_len:,} tokens"
    if margin < 0:
        return f"of KV cache missing for {request}"
    return f"of KV cache left after {request}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One of the key figures, under vLLM's name for it."""

    name: str
    text: str
    detail: str


def key_figures(plan: Plan) -> tuple[Figure, ...]:
    """Return the key figures: how much KV cache, how many requests, of what length.

    Source: the names are those of vLLM 0.33.0's log (`v1/core/kv_cache_utils.py`).
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
            detail="fits" if longest is None else "tokens that fit",
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


def plan_text(plan: Plan) -> str:
    """Write the whole plan: verdict, memory lines, figures, notes and the command."""
    parts = [_title(plan), verdict_text(plan)]
    if plan.error is not None:
        parts += ["", error_text(plan.error)]
    for rank in plan.ranks:
        parts += ["", *_rank_lines(plan, rank)]
    parts += host_lines(plan)
    parts += ["", *_outside_lines(plan), *_figure_lines(plan)]
    parts += [f"Note: {note}" for note in noted(plan)]
    parts += ["", plan.command()]
    return "\n".join(parts)


def noted(plan: Plan) -> tuple[str, ...]:
    """Return what a plan does not count, and its notes, as a reader should see them."""
    return (*(f"Not counted: {one}." for one in plan.conditions), *plan.notes)


def error_text(error: VLLMError) -> str:
    """Write an error, introduced as vLLM's where it is not the planner's own."""
    if error.kind in OURS:
        return error.message
    return f"vLLM says: {error.message}"


def verdict_text(plan: Plan) -> str:
    """Write the verdict in one line: symbol, words and signed number."""
    answer = verdict(plan)
    if not answer.margin:
        return f"{answer.symbol} {answer.headline}"
    return f"{answer.symbol} {answer.headline}: {answer.margin} {answer.sentence}"


def spoken(plan: Plan) -> str:
    """Describe the picture for a screen reader, as the chart's `aria-label`."""
    rank = plan.limiting_rank
    if rank is None:
        return f"No memory is allocated. {verdict_text(plan)}."
    lines = ", ".join(
        f"{line.name} {format_gib(line.size_bytes)}" for line in rank.lines
    )
    return (
        f"Memory of one {plan.gpu.kind} with "
        f"{format_gib(plan.gpu.total_memory_bytes)}, of which vLLM may use "
        f"{format_gib(rank.requested_memory_bytes)}: {lines}. "
        f"{' '.join([*filter(None, [host_spoken(plan)]), verdict_text(plan)])}."
    )


def subject(plan: Plan) -> str:
    """Name what was planned: the model and the GPUs."""
    count = f"{plan.gpus_total} x " if plan.gpus_total > 1 else ""
    return f"{plan.name} on {count}{plan.gpu.name}"


def rank_title(plan: Plan, rank: RankMemory) -> str:
    """Name the GPUs that a rank's account describes."""
    if len(plan.ranks) == 1:
        return "Each GPU" if plan.gpus_total > 1 else f"{plan.gpu.kind} memory"
    limiting = " (limits the plan)" if rank is plan.limiting_rank else ""
    return f"Each GPU of pipeline stage {rank.pp_rank}{limiting}"


def budget(plan: Plan, rank: RankMemory) -> str:
    """State how much of the GPU vLLM may use."""
    return (
        f"{format_gib(rank.requested_memory_bytes)} requested of "
        f"{format_gib(plan.gpu.total_memory_bytes)}"
    )


def range_text(line: Line) -> str:
    """Write the range of a line; empty when the figure is certain."""
    if line.low_bytes == line.high_bytes:
        return ""
    low = format_gib(line.low_bytes).removesuffix(" GiB")
    return f"{low} to {format_gib(line.high_bytes)}"


def _title(plan: Plan) -> str:
    return f"{subject(plan)}, vLLM {plan.vllm_version}"


def _rank_lines(plan: Plan, rank: RankMemory) -> list[str]:
    rows = [
        f"  {line.name:<19}{format_gib(line.size_bytes):>12}  {line.basis:<8}"
        f"  {line.why}"
        for line in rank.lines
    ]
    return [f"{rank_title(plan, rank)}: {budget(plan, rank)}", *rows]


def _outside_lines(plan: Plan) -> list[str]:
    rank = plan.limiting_rank
    if rank is None or not rank.outside:
        return []
    room = plan.gpu.total_memory_bytes - rank.requested_memory_bytes
    return [
        f"Outside vLLM's budget: {format_gib(rank.outside_bytes)} needed of "
        f"{format_gib(room)}"
    ]


def _figure_lines(plan: Plan) -> list[str]:
    return [
        f"{figure.name + ':':<23}{figure.text} {figure.detail}".rstrip()
        for figure in key_figures(plan)
    ]
