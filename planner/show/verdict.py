"""A plan's verdict: whether it starts, what it serves and how close it is.

The verdict, in words, a symbol and a signed number, is what a reader sees first.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from planner.memory.account import NOT_SERVED
from planner.planning.after_sizing import OUTSIDE_BUDGET
from planner.planning.cautions import provenance
from planner.planning.serving import Serving
from planner.planning.words import fails, first_sentence, served_length
from planner.units import counted, format_gib
from planner.values import frozen

if TYPE_CHECKING:
    from planner.memory.account import Line, VLLMError
    from planner.memory.estimate import RankMemory
    from planner.planning.result import Plan


_LONG_BRACKETS = re.compile(r"\s*\([^()]{24,}\)")


class VerdictState(StrEnum):
    """The state of a plan; never shown by colour alone."""

    FITS = "fits"  # and serves its load, where it has one
    PARTLY = "partly"  # starts, and serves fewer than the load
    TIGHT = "tight"
    SHORT = "short"
    REFUSED = "refused"


SYMBOLS = {
    VerdictState.FITS: "✔",
    VerdictState.PARTLY: "!",
    VerdictState.TIGHT: "!",
    VerdictState.SHORT: "✘",
    VerdictState.REFUSED: "✘",
}

_STATES = {
    "fits": VerdictState.FITS,
    "too close to call": VerdictState.TIGHT,
    "does not fit": VerdictState.SHORT,
    "refused": VerdictState.REFUSED,
}
OURS = ("too_close", "host_memory", OUTSIDE_BUDGET, NOT_SERVED)
"""Kinds of errors that the planner reports, not vLLM."""

REFUSED = "refused"
"""The kind of vLLM's errors over settings, before it loads anything."""
KV_CACHE = "KV cache"
UNUSED = "unused budget"
"""What the line of the KV cache shows where no layer has one."""
CONDITIONAL = "Fits, if what is not counted fits too"
"""The headline of a plan whose settings change memory by an amount not known."""
_HEADLINES = {
    REFUSED: "vLLM refuses these settings",
    "weights": "Does not fit: the weights are too large",
    "no_kv": "Does not fit: nothing is left for the KV cache",
    "max_model_len": "Does not fit: one request needs more KV cache",
    "host_memory": "Does not fit: a machine has too little CPU memory",
    "free_memory": "Does not start: too little memory is free",
    "num_seqs": "Does not start: max_num_seqs is too high",
    NOT_SERVED: "Does not start: vLLM loads it, and ends before it serves",
}


@frozen
class WordedVerdict:
    """The answer to "will it start, does it serve the load, how close is it?"."""

    state: VerdictState
    headline: str
    margin: str
    """KV cache left after one request, signed; empty when vLLM stops before that.
    Without a KV cache, the rest of vLLM's budget."""
    sentence: str
    """What the margin means, in plain words."""
    starts: str = ""
    """Whether it starts: the first part of the headline."""
    serves: str = ""
    """How many of the load it serves, such as "serves 1 of 20 at once"; empty without
    a load, and where it does not start."""

    @property
    def symbol(self) -> str:
        """A sign that shows the state without colour."""
        return SYMBOLS[self.state]


def state_of(plan: Plan) -> VerdictState:
    """Return whether `plan` starts and serves its load, or what it does instead."""
    state, served = _STATES[str(plan.outcome)], plan.serving
    if state is VerdictState.FITS and served is not None and not served.is_served:
        return VerdictState.PARTLY
    is_decided = served is not None and served.is_short_though_close
    return VerdictState.SHORT if is_decided else state


def missing_bytes(plan: Plan, rank: RankMemory) -> int:
    """Return the KV cache that one request of `max_model_len` lacks on a rank."""
    return max(0, _request_bytes(plan, rank) - rank.available_kv_cache_bytes)


def _request_bytes(plan: Plan, rank: RankMemory) -> int:
    """Return the blocks of one request, and the null block if vLLM sets it aside."""
    return plan.blocks_per_request * rank.bytes_per_block + rank.set_aside_bytes


def verdict(plan: Plan) -> WordedVerdict:
    """Return the verdict of `plan` in words."""
    state = state_of(plan)
    if plan.error is not None and plan.error.kind == "host_memory":
        return WordedVerdict(
            state=state,
            headline=_headline(plan, state),
            margin=format_gib(_missing_host_bytes(plan)),
            sentence="of CPU memory missing on a machine",
        )
    served = plan.serving
    if served is not None and (plan.fits or served.is_short_though_close):
        return _of_load(plan, state, served)
    margin = plan.margin_bytes
    has_ended = plan.error is not None and plan.error.kind in (REFUSED, NOT_SERVED)
    is_over = has_ended or (plan.fits and (margin or 0) < 0)
    starts = _headline(plan, state)
    return WordedVerdict(
        state=state,
        headline=_refusal(plan) if state is VerdictState.REFUSED else starts,
        margin="" if is_over else _margin(margin),
        sentence=_sentence(plan, margin),
        starts=starts,
    )


def _refusal(plan: Plan) -> str:
    """Give vLLM's reason; without what it puts in long brackets."""
    reason = "" if plan.error is None else first_sentence(plan.error.message)
    short = _LONG_BRACKETS.sub("", reason.partition("\n")[0])
    return f"vLLM refuses: {short.removesuffix(':')}"


def _of_load(plan: Plan, state: VerdictState, served: Serving) -> WordedVerdict:
    """Return the verdict of a plan that starts and has a load: both parts."""
    starts = "Starts, if what is not counted fits too" if plan.conditions else "Starts"
    between = ", and" if state is VerdictState.FITS else ", but"
    if not plan.fits:  # the load decides, however close the start is
        starts, between = "Does not hold the load", ":"
    margin = None if served.held is None or not served.admits else _left(served)
    return WordedVerdict(
        state=state,
        headline=f"{starts}{between} {served.words}",
        margin=_margin(margin),
        sentence=_load_sentence(served, margin),
        starts=starts,
        serves=served.words,
    )


def _left(served: Serving) -> int:
    """Return the KV cache left on one GPU with the load in it; negative when short."""
    rank = served.plan.limiting_rank
    if rank is None:
        return 0
    return (served.num_blocks - served.needed_blocks) * rank.bytes_per_block


def _load_sentence(served: Serving, margin: int | None) -> str:
    """Say what the margin of a load means, or why vLLM does not admit the load."""
    if not served.admits:
        return f"{fails(served)}."
    requests = f"{counted(served.share, 'requests')} of {served_length(served)}"
    engines = served.plan.engines
    place = f" on each of {engines} engines" if engines > 1 else ""
    if margin is None:
        return f"Nothing is stored between steps: {requests}{place} take no KV cache."
    end = _at_low_end(served.plan)
    if margin < 0:
        return f"of KV cache missing for {requests}{place}{end}"
    return f"of KV cache left after {requests}{place}{end}"


def _at_low_end(plan: Plan) -> str:
    rank = plan.limiting_rank
    if rank is None:
        return ""
    low, high = rank.available_kv_cache_low_bytes, rank.available_kv_cache_high_bytes
    return ", at the low end of the estimate" if low < high else ""


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


def _headline(plan: Plan, state: VerdictState) -> str:
    error = plan.error
    if error is not None and plan.safe_gpu_memory_utilization is not None:
        return error.message.partition("\n")[0].rstrip(".")
    if state is VerdictState.TIGHT or error is None:
        fits = CONDITIONAL if plan.conditions else "Fits"
        return "Too close to call" if state is VerdictState.TIGHT else fits
    return _HEADLINES.get(error.kind, "vLLM would not start")


def _sentence(plan: Plan, margin: int | None) -> str:
    kind = "" if plan.error is None else plan.error.kind
    if margin is None or plan.resolved is None or kind == REFUSED:
        return "vLLM stops before it loads anything."
    if kind == NOT_SERVED:
        return "The memory below is what it would take, the reason beneath it."
    if stores_nothing(plan):
        return _budget_sentence(plan, margin)
    request = f"one request of {counted(plan.resolved.max_model_len, 'tokens')}"
    if kind == "weights":
        return f"missing for the weights and {request}"
    return f"of KV cache {'missing for' if margin < 0 else 'left after'} {request}"


def _budget_sentence(plan: Plan, margin: int) -> str:
    """Say what is left of the budget, where no layer has a KV cache to take it.

    Source: vLLM 0.33.0 `v1/engine/core.py` _initialize_kv_caches, which measures and
    checks no memory then.
    """
    if margin >= 0:
        return "of vLLM's budget left unused: this model stores no KV cache"
    if not plan.fits:
        return "more than vLLM's budget; this model stores no KV cache"
    return (
        f"This start takes {format_gib(-margin)} more than its budget, which vLLM "
        "does not check without a KV cache."
    )


def stores_nothing(plan: Plan) -> bool:
    """Return whether no layer of a plan has a KV cache, or a state in its place."""
    return bool(plan.ranks) and not any(rank.bytes_per_block for rank in plan.ranks)


def cache_name(rank: RankMemory) -> str:
    """Name the line that closes a rank's account, as readers should see it."""
    return KV_CACHE if rank.bytes_per_block else UNUSED


def shown_lines(rank: RankMemory) -> tuple[Line, ...]:
    """Return a rank's lines under the names that readers should see."""
    shown = cache_name(rank)
    return tuple(
        replace(line, name=shown) if line.name == KV_CACHE else line
        for line in rank.lines
    )


def noted(plan: Plan, *, with_sources: bool = True) -> tuple[str, ...]:
    """Return what a plan does not count, and its notes, as a reader should see them.

    Without sources, notes on where the model's files come from are left out.
    """
    sources = () if with_sources else sources_of(plan)
    notes = (note for note in plan.notes if note not in sources)
    return (*(f"Not counted: {one}." for one in plan.conditions), *notes)


def sources_of(plan: Plan) -> tuple[str, ...]:
    """Return the notes on where the files of a plan's model come from."""
    return () if plan.model is None else provenance(plan.model)


def error_text(error: VLLMError) -> str:
    """Write an error, introduced as vLLM's where it is not the planner's own."""
    if error.kind in OURS:
        return error.message
    return f"vLLM says: {error.message}"


def verdict_text(plan: Plan) -> str:
    """Write the verdict in one line: symbol, words and signed number."""
    answer = verdict(plan)
    if answer.state in (VerdictState.FITS, VerdictState.PARTLY) and not answer.margin:
        return f"{answer.symbol} {answer.headline}: {answer.sentence}"
    if not answer.margin:
        return f"{answer.symbol} {answer.headline}"
    return f"{answer.symbol} {answer.headline}: {answer.margin} {answer.sentence}"


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
