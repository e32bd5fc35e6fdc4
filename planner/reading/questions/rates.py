"""Rates that a question asks for: requests or tokens a second, beside the forecast.

A rate is no number of requests at once: how many run follows from the speed. So its
answer is the bound of the GPUs and the forecast, with a range.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from planner.errors import PlannerError
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import serving
from planner.reading.questions.question import Question
from planner.reading.questions.searching import usual_load
from planner.reading.reading import Reading
from planner.show.speed import rate_text
from planner.solve.speed.forecast import speed_forecast
from planner.values import frozen

_SECONDS = (
    (31_557_600, r"year|jahr|\bans?\b|a\u00f1o|\bano|anno|\u5e74|\u0433\u043e\u0434"),
    (
        2_629_800,
        r"month|monat|mois|\bm[e\u00ea]s|mese|[\u6708\uc6d4]|\u043c\u0435\u0441\u044f\u0446",
    ),
    (
        604_800,
        r"week|woche|semain|semana|settimana|[\u5468\u9031\uc8fc]|\u043d\u0435\u0434\u0435\u043b",
    ),
    (
        86_400,
        r"day|daily|tag|jour|d[i\u00ed]a|giorno|[\u5929\u65e5\uc77c]|[rqt]pd|\u0434\u0435\u043d\u044c|\u0441\u0443\u0442\u043a",
    ),
    (3600, r"/ ?h|hour|stunde|heure|hora|\u65f6|\u5c0f\u65f6|\u6642\u9593"),
    (60, r"/ ?min|minute|minuto|[rqt]pm|\u5206"),
)
_THOUSAND = 1000
_OF_ALL = re.compile(r"\b(?:total|overall|aggregate|combined|gesamt|insgesamt)\b|总")
_OF_TOKENS = re.compile(r"tok|jeton|t/s|tps|\u8bcd|\u30c8\u30fc", re.IGNORECASE)


@frozen
class Rate:
    """How many a second a question asks for, or has measured."""

    per_second: float
    is_tokens: bool
    """Of tokens; else of requests."""
    is_total: bool
    """Of all requests together; else of each."""


def rate_in(asked: Question) -> Rate | None:
    """Return the first rate of a question.

    >>> rate_in(Question("Qwen3-8B on an L4, 120 requests per minute?")).per_second
    2.0
    """
    for one in asked.quantities:
        if one.role == "rate" and one.noun is not None and one.term.value > 0:
            noun = asked.terms[one.noun].written
            seconds = next(
                (many for many, word in _SECONDS if re.search(word, noun, re.I)), 1
            )
            is_tokens = _OF_TOKENS.search(noun) is not None
            is_all = seconds > 1 or _OF_ALL.search(asked.plain) is not None
            return Rate(
                per_second=one.term.value / seconds,
                is_tokens=is_tokens,
                is_total=is_all or not is_tokens,
            )
    return None


def is_rate_asked(asked: Question) -> bool:
    """Return whether a question is about requests a second, and not so many at once."""
    rate = rate_in(asked)
    at_once = any(one.role in ("user", "concurrency") for one in asked.quantities)
    return rate is not None and rate.is_total and not at_once


def is_rate_answered(asked: Question) -> bool:
    """Return whether the first rate of a question has a part in its answer."""
    rate = rate_in(asked)
    return rate is not None and (not rate.is_total or is_rate_asked(asked))


def rate_answer(asked: Question, reading: Reading, plan: Plan) -> Iterator[str]:
    """Answer whether a plan serves so many requests a second."""
    rate = rate_in(asked)
    load, given = usual_load(reading), reading.engine_args
    if not plan.fits and reading.load is None and "max_model_len" not in given:
        plan = plan.changed(max_model_len=load.request_tokens)
    if rate is None or not plan.fits or not load.output_tokens:
        return
    needed = rate.per_second * (1 if rate.is_tokens else load.output_tokens)
    free = plan.changed(load=None, max_num_seqs=None)
    held = max(serving(free, load).requests_held or 1, 1)
    most = replace(load, requests=min(held, _most_seqs(asked, free) or held))
    noun = "request" if rate.per_second == 1 else "requests"
    who = (
        f"{rate_text(needed)} tokens per second of all requests"
        if rate.is_tokens
        else f"{_rounded(rate.per_second)} {noun} per second with answers of "
        f"{load.output_tokens:,} tokens are {needed:,.0f} tokens per second"
    )
    try:
        forecast = speed_forecast(free, most)
    except PlannerError as error:
        yield f"Open: {who}; {error}"
        return
    bound = forecast.bound.total_at_most_tokens_per_second
    at_once = f"with {most.requests:,} at once, as many as run"
    total = forecast.total_tokens_per_second
    if needed > bound:
        copies = ceil(needed / bound)
        yield (
            f"No: {who}; {at_once}, the GPUs' bound is {rate_text(bound)}. By it at "
            f"least {copies:,} such copies have to share them."
        )
    elif total is None:
        yield f"Open: {who}; {at_once}, at most {rate_text(bound)}, by the bound alone."
    else:
        is_much, is_little = needed > total.high, needed <= total.low
        word = "No" if is_much else "Likely" if is_little else "Open"
        yield (
            f"{word}: {who}; {at_once}, the forecast is {rate_text(total.value)} "
            f"({rate_text(total.low)} to {rate_text(total.high)})."
        )


def _rounded(rate: float) -> str:
    """Write a rate with three digits, of a thousand and more all: 0.35, 1,000."""
    return f"{rate:,.3g}" if rate < _THOUSAND else f"{rate:,.0f}"


def _most_seqs(asked: Question, plan: Plan) -> int | None:
    """Return how many requests may run at once: as given, else by default."""
    given = {name: value for name, value, _ in asked.flags}.get("max_num_seqs")
    usual = None if plan.resolved is None else plan.resolved.max_num_seqs
    return given if isinstance(given, int) else usual


def speed_wanted(asked: Question, reading: Reading, plan: Plan) -> Iterator[str]:
    """Answer first whether requests come as fast as a question wants each to be."""
    rate, load = rate_in(asked), usual_load(reading)
    if rate is None or rate.is_total or not plan.fits or not load.output_tokens:
        return
    try:
        forecast = speed_forecast(plan, load)
    except PlannerError:
        return
    bound = forecast.bound.per_request_at_most_tokens_per_second
    each = forecast.per_request_tokens_per_second
    at_once = (
        f"{_rounded(rate.per_second)} tokens per second for each of {load.requests:,}"
    )
    if rate.per_second > bound:
        yield f"No: {at_once} are beyond the GPUs' bound of {rate_text(bound)}."
    elif each is None:
        yield f"Open: {at_once}; at most {rate_text(bound)} by the bound alone."
    else:
        is_much, is_little = rate.per_second > each.high, rate.per_second <= each.low
        word = "No" if is_much else "Likely" if is_little else "Open"
        yield (
            f"{word}: {at_once}; the forecast is {rate_text(each.value)} "
            f"({rate_text(each.low)} to {rate_text(each.high)})."
        )


def wanted_line(asked: Question, low: float, high: float) -> str:
    """Say where a rate of tokens that a question names lies beside a forecast."""
    rate = rate_in(asked)
    if rate is None or rate.is_total:
        return ""
    where = (
        "below that range: something slows it"
        if rate.per_second < low
        else "above that range"
        if rate.per_second > high
        else "in that range"
    )
    return f"{_rounded(rate.per_second)} tokens per second of a request are {where}."


__all__ = ["Load", "Rate", "is_rate_asked", "rate_answer", "rate_in", "wanted_line"]
