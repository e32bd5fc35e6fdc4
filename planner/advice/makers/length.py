"""How long a request may be: the longest that fits, to the token."""

from __future__ import annotations

from collections.abc import Iterator

from planner.advice.candidate import Burden, Candidate
from planner.advice.makers.ladders import halves
from planner.advice.situation import Situation

_LEAST_TOKENS = 128
_OF_LENGTH = ("max_model_len", "no_kv", "too_close", "refused")
"""Errors that a shorter request may remove."""


def shorter(situation: Situation) -> Iterator[Candidate]:
    """Allow requests no longer than the KV cache holds, or than the load has."""
    plan, load = situation.plan, situation.load
    if plan.resolved is None:
        return
    now = plan.resolved.max_model_len
    if load is not None and load.request_tokens != now:
        yield _of_the_load(load.request_tokens, now)
    longest = longest_that_starts(situation)
    if longest is not None:
        yield Candidate(
            kind="max_model_len",
            title=f"Allow requests of {longest:,} tokens at most",
            changes={"max_model_len": longest},
            cost=f"Requests of more than {longest:,} tokens, prompt and answer "
            "together, are refused.",
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

    A plan says how long a request its KV cache holds; with that length the cache may
    differ a little, so lengths are planned until one starts and the next does not.
    """
    plan = situation.plan
    if plan.error is None or plan.error.kind not in _OF_LENGTH or plan.resolved is None:
        return None
    too_long = max(plan.resolved.max_model_len, (plan.max_model_len_that_fits or 0) + 1)
    first = plan.max_model_len_that_fits
    if first is None or not _starts(situation, first):
        first = next(
            (n for n in halves(too_long, _LEAST_TOKENS) if _starts(situation, n)), None
        )
    if first is None:
        return None
    changed = situation.again(max_model_len=first)
    guess = None if changed is None else changed.max_model_len_that_fits
    if guess is not None and first < guess < too_long and _starts(situation, guess):
        first = guess
    return _bisected(situation, first, too_long)


def _bisected(situation: Situation, starts: int, fails: int) -> int:
    """Return the last length that starts, looking at the next one first."""
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
