"""What a running server has and what it uses, and whether that is enough.

Source: vLLM 0.33.0 `v1/metrics/loggers.py` PrometheusStatLogger; a request is preempted
when the KV cache has no block left for it, `v1/core/sched/scheduler.py` schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.confirming.log import LogReading
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.units import counted

_MANY_PREEMPTIONS = 0.01
"""Of the requests that finished."""
_NOW = "It uses {usage:.1%} of its KV cache now"
_FULLEST = "At its fullest the KV cache was used to {usage:.1%}"
_FULL, _MOSTLY_EMPTY = 0.9, 0.3
"""Shares of the KV cache in use."""


def observed_load(log: LogReading) -> Load | None:
    """Return one request of the mean length that a server has seen."""
    prompt = log.figures.get("mean_prompt_tokens")
    answer = log.figures.get("mean_generation_tokens")
    if not prompt:
        return None
    return Load(prompt_tokens=max(round(prompt), 1), output_tokens=round(answer or 0))


def size_of_server(log: LogReading) -> str:
    """Return whether a server's KV cache is too small, in a few words."""
    figures = log.figures
    finished = max(figures.get("num_requests_finished", 0), 1)
    share = figures.get("num_preemptions", 0) / finished
    usage, waiting = figures.get("kv_cache_usage"), figures.get("num_requests_waiting")
    is_full = usage is not None and usage >= _FULL and bool(waiting)
    if share >= _MANY_PREEMPTIONS or is_full:
        return "The server runs, and its KV cache is too small for its load"
    if usage is not None and usage <= _MOSTLY_EMPTY and not waiting:
        return "The server runs, and most of its KV cache is free now"
    return "The server runs, and its KV cache is enough for its load"


def is_in_use(log: LogReading | None) -> bool:
    """Whether a log has how full the KV cache was while it served."""
    return log is not None and "kv_cache_usage" in log.figures


def logged_use(log: LogReading | None, plan: Plan | None = None) -> Iterator[str]:
    """Yield how full the KV cache was where a log has it, and if the plan is another.

    A server that served what the plan cannot start had another GPU, release or
    arguments.
    """
    if not is_in_use(log):
        return
    if plan is not None and not plan.fits:
        yield (
            "The log is of a server that ran, and this plan does not start: its GPU, "
            "its release or its arguments are others."
        )
    yield from use_of(log, is_now=False)


def use_of(log: LogReading | None, *, is_now: bool = True) -> Iterator[str]:
    """Yield what a running server has and uses, in sentences.

    Args:
        log: its figures.
        is_now: whether they are of this moment, else of the fullest one in a log.
    """
    figures = {} if log is None else log.figures
    blocks, tokens = figures.get("num_gpu_blocks"), figures.get("kv_tokens")
    if blocks:
        size = "" if not tokens else f", {tokens:,} tokens"
        yield f"It has {blocks:,} blocks of KV cache{size}."
    usage = figures.get("kv_cache_usage")
    if usage is not None:
        running = figures.get("num_requests_running", 0)
        waiting = figures.get("num_requests_waiting", 0)
        uses = _NOW if is_now else _FULLEST
        yield (
            f"{uses.format(usage=usage)}: {counted(int(running), 'requests')} "
            f"running, {waiting:,} waiting."
        )
    yield from _preempted(figures)
    yield from _seen(figures, tokens)


def _preempted(figures: Mapping[str, float]) -> Iterator[str]:
    count, finished = (
        figures.get("num_preemptions"),
        figures.get("num_requests_finished"),
    )
    if count is None:
        return
    if not count:
        yield "No request was preempted: the KV cache never ran out."
        return
    of_all = "" if not finished else f", {count / finished:.1%} of those that finished"
    yield (
        f"{counted(int(count), 'preemptions')}{of_all}: the KV cache ran out, and "
        "their tokens were computed again."
    )


def _seen(figures: Mapping[str, float], tokens: float | None) -> Iterator[str]:
    prompt = figures.get("mean_prompt_tokens")
    answer = figures.get("mean_generation_tokens", 0)
    if not prompt:
        return
    whole = prompt + answer
    yield (
        f"Requests had {prompt:,.0f} tokens of prompt and {answer:,.0f} of answer on "
        "average."
    )
    if tokens:
        yield (
            f"{tokens:,} tokens hold about {int(tokens / whole):,} of them at once, "
            "without shared prefixes."
        )
