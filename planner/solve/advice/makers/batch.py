"""Smaller steps and shorter requests: batch limits, CUDA graphs, max_model_len."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.solve.advice.situation import Burden, Candidate, Situation
from planner.units import counted

_SIZES = "cudagraph_capture_sizes"
_LEAST_TOKENS = 256
_FEW_TOKENS = 2048
"""Below this, prefill is noticeably slower."""
_HARDLY_MISSED = 64
"""A number of requests at once that few single GPUs exceed."""
_LEAST_LENGTH = 128
_FEWEST_OF_USE = 2048
"""Requests of fewer tokens, prompt and answer together, are of use to few."""
_LENGTH_ERRORS = ("max_model_len", "no_kv", "too_close", "refused")
"""Errors that a smaller max_model_len may remove."""


def more_requests(situation: Situation) -> Iterator[Candidate]:
    """Let as many requests run at once as the load has."""
    resolved, load = situation.plan.resolved, situation.load
    if resolved is None or load is None:
        return
    count = load.share(situation.plan.engines)
    if count > resolved.max_num_seqs:
        yield Candidate(
            title=f"Run up to {count:,} requests in one step, as many as the load has",
            changes={"max_num_seqs": count},
            cost=f"Each of the {count - resolved.max_num_seqs:,} more takes sampling "
            "tables, and each request shares the GPU with more others.",
            burden=Burden.NOTHING,
        )


def fewer_requests(situation: Situation) -> Iterator[Candidate]:
    """Run fewer requests in one step: each takes sampling tables."""
    resolved = situation.plan.resolved
    if resolved is None:
        return
    held = situation.requests(situation.plan) // resolved.data_parallel_size
    for count in halves(resolved.max_num_seqs, power_of_two_from(_wanted(situation))):
        if count >= held:
            yield Candidate(
                title=f"Run at most {count:,} request{'s' * (count > 1)} in one step",
                changes={"max_num_seqs": count},
                cost=f"Request number {count + 1:,} waits until another one ends.",
                burden=Burden.NOTHING if count >= _HARDLY_MISSED else Burden.SPEED,
            )


def fewer_tokens(situation: Situation) -> Iterator[Candidate]:
    """Process fewer tokens in one step: peak activation grows with them."""
    resolved = situation.plan.resolved
    if resolved is None:
        return
    least = _FEW_TOKENS if situation.is_served else _LEAST_TOKENS
    for count in halves(resolved.max_num_batched_tokens, least):
        yield Candidate(
            title=f"Work on at most {count:,} tokens in one step",
            changes={"max_num_batched_tokens": count},
            cost="Long prompts are read in more and smaller steps, so first tokens "
            "come later.",
            burden=Burden.SPEED if count >= _FEW_TOKENS else Burden.ABILITY,
        )


def fewer_graphs(situation: Situation) -> Iterator[Candidate]:
    """Capture CUDA graphs for small batches only."""
    resolved = situation.plan.resolved
    if resolved is None or not resolved.cudagraph_capture_sizes:
        return
    now = resolved.max_cudagraph_capture_size
    held = situation.requests(situation.plan)
    for size in halves(now, power_of_two_from(max(held, _wanted(situation)))):
        yield Candidate(
            title=f"Capture CUDA graphs up to {size} token{'s' * (size > 1)} a step, "
            f"not {now}",
            changes={"max_cudagraph_capture_size": size},
            cost="Larger steps run without a graph, and slower.",
        )


def fewer_sizes(situation: Situation) -> Iterator[Candidate]:
    """Drop the largest of the given capture sizes."""
    settings = situation.plan.settings
    config: Any = settings.compilation_config
    table = config if isinstance(config, Mapping) else {}
    own = settings.cudagraph_capture_sizes
    given = _sizes(table.get(_SIZES) if own is None else own)
    for most in halves(max(given, default=0)):
        kept = [size for size in given if size <= most]
        if kept:
            inside = {"compilation_config": {**table, _SIZES: kept}}
            yield Candidate(
                argument=_SIZES,
                title=f"Capture CUDA graphs for {len(kept)} of the {len(given)} sizes "
                f"given, up to {max(kept)} token{'s' * (max(kept) > 1)}",
                changes=inside if own is None else {_SIZES: tuple(kept)},
                cost="Larger steps run without a graph, and slower.",
            )


def eager(situation: Situation) -> Iterator[Candidate]:
    """Capture no CUDA graphs at all."""
    resolved = situation.plan.resolved
    if resolved is None or resolved.enforce_eager or situation.plan.gpu.is_cpu:
        return
    yield Candidate(
        title="Run without CUDA graphs (enforce_eager)",
        changes={"enforce_eager": True},
        cost="Every step is launched operation by operation, which slows small "
        "batches most; vLLM compiles nothing either, so it starts sooner.",
        burden=Burden.ABILITY,
    )


def shorter(situation: Situation) -> Iterator[Candidate]:
    """Limit requests to what the KV cache holds, or to the load's length."""
    plan, load = situation.plan, situation.load
    if plan.resolved is None:
        return
    now = plan.resolved.max_model_len
    if load is not None and load.request_tokens != now:
        yield _of_the_load(load.request_tokens, now)
    longest = longest_that_starts(situation)
    if longest is not None:
        yield Candidate(
            title=f"Allow requests of {counted(longest, 'tokens')} at most",
            changes={"max_model_len": longest},
            cost=f"Requests of more than {longest:,} tokens, prompt and answer "
            "together, are refused.",
            burden=Burden.ABILITY if longest >= _FEWEST_OF_USE else Burden.NEARLY_ALL,
        )


def longest_that_starts(situation: Situation) -> int | None:
    """Return the largest max_model_len that starts, to the token; None without any.

    A plan reports the longest request that its KV cache holds. With that length the
    cache may differ slightly, so lengths are planned until the limit is found.
    """
    plan = situation.plan
    if (
        plan.error is None
        or plan.error.kind not in _LENGTH_ERRORS
        or plan.resolved is None
    ):
        return None
    too_long = max(plan.resolved.max_model_len, (plan.max_model_len_that_fits or 0) + 1)
    first = plan.max_model_len_that_fits
    if first is None or not _starts(situation, first):
        first = next(
            (n for n in halves(too_long, _LEAST_LENGTH) if _starts(situation, n)), None
        )
    if first is None:
        return None
    changed = situation.again(max_model_len=first)
    guess = None if changed is None else changed.max_model_len_that_fits
    if guess is not None and first < guess < too_long and _starts(situation, guess):
        first = guess
    return _bisected(situation, first, too_long)


def halves(below: int, least: int = 1) -> Iterator[int]:
    """Yield the powers of two below a number, largest first, down to `least`.

    >>> list(halves(24, 4))
    [16, 8, 4]
    """
    value = 1 << max(below - 1, 0).bit_length()
    while value > least:
        value //= 2
        if least <= value < below:
            yield value


def power_of_two_from(count: int) -> int:
    """Return the smallest power of two that is at least `count`.

    >>> [power_of_two_from(count) for count in (0, 1, 3, 8)]
    [1, 1, 4, 8]
    """
    return 1 << max(count - 1, 0).bit_length()


def _wanted(situation: Situation) -> int:
    load, plan = situation.load, situation.plan
    return 1 if load is None else load.share(plan.engines)


def _sizes(given: object) -> list[int]:
    """Return the sizes of a list of whole numbers; none for any other value."""
    if not isinstance(given, list | tuple):
        return []
    return [size for size in given if type(size) is int]


def _of_the_load(length: int, now: int) -> Candidate:
    is_longer = length > now
    return Candidate(
        title=f"Allow requests of {counted(length, 'tokens')}, as long as the load's",
        changes={"max_model_len": length},
        cost="vLLM must keep room for one request of that length."
        if is_longer
        else "Requests that are longer than the load says are refused.",
        burden=Burden.NOTHING,
    )


def _bisected(situation: Situation, starts: int, fails: int) -> int:
    """Return the largest length that starts, trying the next one first."""
    middle = starts + 1
    while fails - starts > 1:
        if _starts(situation, middle):
            starts = middle
        else:
            fails = middle
        middle = (starts + fails) // 2
    return starts


def _starts(situation: Situation, length: int) -> bool:
    plan = situation.again(max_model_len=length)
    return plan is not None and plan.fits
