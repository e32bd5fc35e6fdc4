"""How long a request may be: the longest that fits, to the token."""

from __future__ import annotations

from collections.abc import Iterator

from planner.advice.candidate import Burden, Candidate
from planner.advice.makers.ladders import halves
from planner.advice.situation import Situation

_MOST_TRIES = 8
_SHORT_TRIES = 5


def shorter(situation: Situation) -> Iterator[Candidate]:
    """Allow requests no longer than the KV cache holds, or than the load has."""
    plan, load = situation.plan, situation.load
    if plan.resolved is None:
        return
    now = plan.resolved.max_model_len
    if load is not None and load.request_tokens != now:
        yield _of_the_load(load.request_tokens, now)
    if plan.fits:
        return
    longest = longest_that_starts(situation)
    if longest is not None:
        yield _shorter(longest)
        return
    for length in list(halves(now, 256))[:_SHORT_TRIES]:
        yield _shorter(length)


def _shorter(length: int) -> Candidate:
    return Candidate(
        kind="max_model_len",
        title=f"Allow requests of {length:,} tokens at most",
        changes={"max_model_len": length},
        cost=f"Requests of more than {length:,} tokens, prompt and answer together, "
        "are refused.",
        burden=Burden.ABILITY,
    )


def _of_the_load(length: int, now: int) -> Candidate:
    is_longer = length > now
    return Candidate(
        kind="max_model_len",
        title=f"Allow requests of {length:,} tokens, as long as the load's",
        changes={"max_model_len": length},
        cost="vLLM must keep room for one request of that length."
        if is_longer
        else "Requests that are longer than the load says are refused.",
        burden=Burden.NOTHING,
    )


def longest_that_starts(situation: Situation) -> int | None:
    """Return the longest max_model_len that starts, to the token; None without any.

    A plan says how long a request its KV cache holds. With that length as
    max_model_len the cache may differ a little, so the answer is planned until it
    holds itself.
    """
    length, best = situation.plan.max_model_len_that_fits, None
    for _ in range(_MOST_TRIES):
        if length is None or length == best:
            break
        plan = situation.again(max_model_len=length)
        if plan is None:
            break
        if plan.fits:
            best = length
        elif best is not None:
            break
        length = plan.max_model_len_that_fits
        if best is not None and length is not None and length < best:
            break
    return best
