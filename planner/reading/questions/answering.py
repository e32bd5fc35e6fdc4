"""The answer to a question: that question first, with the figures of the one who asks.

At most eight lines; the plan, the changes and the figures behind them follow. Where
model or GPU are not known, what is open comes first and there is no verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from planner.engine.releases import NEWEST, OLDEST, resolve_version
from planner.planning.defaults import gpu_memory_utilization
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import serving
from planner.planning.words import load_flags
from planner.reading.logs.fixing import Fix
from planner.reading.questions.asking import BY_DESIGN
from planner.reading.questions.fits import (
    Asked,
    each_of,
    fits,
    of_each,
    why_not,
    would_do,
)
from planner.reading.questions.noted import meanings_in
from planner.reading.questions.options import compares
from planner.reading.questions.question import Question, releases_asked
from planner.reading.questions.question_words import words_of
from planner.reading.questions.rates import (
    is_rate_asked,
    rate_answer,
    speed_wanted,
    wanted_line,
)
from planner.reading.questions.searching import (
    USUAL,
    cheapest,
    copies,
    fewest,
    of_parameters,
    price_of,
    sizes,
    which_models,
)
from planner.reading.reading import NOT_NAMED, Reading
from planner.show import speed_forecast as speed_words
from planner.show import upgrade as upgrade_words
from planner.show.speed import rate_text
from planner.solve import longest_context, most_requests
from planner.solve.price_list import list_prices
from planner.solve.speed.forecast import speed_forecast
from planner.solve.upgrading import upgrade
from planner.units import counted, format_gib

MOST_LINES = 8
_MOST_CAUSES = 4
_LESS = "More KV cache is more requests at once; --gpu-memory-utilization takes less."


_SENTENCES = re.compile(r"(?<=[.!?])\s+")
_MEMORY = re.compile(
    r"m[eé]mo(?:ry|ria|ire)|memória|VRAM|Speicher|памят|メモリ|메모리|[显内]存|\d ?G",
    re.IGNORECASE,
)
_WITHOUT = re.compile(r"\b(?:without|avoid\w*|no|not) (?:\w+ )?\w+", re.IGNORECASE)
_YES_OR_NO = re.compile(
    r"(?:\A|[.!?;:,\n]|\band|\bbut)\s*(?:is|are|does|do|will|would|can|could|should)\b",
    re.IGNORECASE,
)
"""How a question begins in English that is answered by yes or no."""


def answer(reading: Reading, plan: Plan | None, fixes: Sequence[Fix]) -> list[str]:
    """Return the lines that answer a question, the answer itself first."""
    if plan is None:
        found = [*_without_plan(reading)]
        missing = [f"Open: {one}" for one in reading.open]
        if reading.model is None:
            found = [*found, *_by_size(reading)]
        is_general = reading.intent in ("why", "cheapest", "which_models", "other")
        is_general = is_general or bool(found and reading.model is None)
        lines = [*found, *missing] if found and is_general else [*missing, *found]
    else:
        asked = Asked(reading=reading, plan=plan, fixes=tuple(fixes))
        lines = [*_ANSWERS.get(reading.intent, fits)(asked)]
    question = Question(reading.given)
    if reading.num_starts > 1 and reading.number == 1:
        lines = [*of_each(reading, question, _first_line)] or lines
    elif plan and reading.gpus and words_of("copies").search(question.rest):
        nodes = max((place.nodes for place in question.places), default=1)
        lines = [copies(reading, plan, nodes)]
    elif plan is not None and is_rate_asked(question):
        rated = [*rate_answer(question, reading, plan)]
        lines = [*rated, *lines[1:]] if rated else lines
    elif plan is not None and (reading.intent != "speed" or question.has_users):
        lines = [*speed_wanted(question, reading, plan), *lines]
    if words_of("effect").search(question.plain) and len(question.variants) == 1:
        lines = [*list(meanings_in(question.plain))[:1], *lines]
    return [*filter(None, _beside(question, reading, lines))][:MOST_LINES]


def _beside(
    question: Question, reading: Reading, lines: Sequence[str]
) -> Iterator[str]:
    """Yield an answer, and before it that something else was asked as well.

    "Yes" and "No" would otherwise answer that.
    """
    first, *more = lines or [""]
    asking = [one for one in _SENTENCES.split(question.rest) if _YES_OR_NO.search(one)]
    fails, starts = words_of("fails"), words_of("starts")
    is_of_start = any(starts.search(x) or re.search(r"\d", x) for x in asking)
    is_other = bool(asking) and not is_of_start
    is_other |= words_of("advice").search(question.plain) is not None
    is_other |= any(fails.search(_WITHOUT.sub("", one)) for one in asking)
    if first and question.topics:
        yield from (f"Not answered: {why}." for why in dict(question.topics))
        yield f"Serving it: {first}"
    elif first and is_other and reading.intent in ("fits", ""):
        yield f"Whether it starts: {first}"
    else:
        yield first
    yield from more


def _first_line(asked: Asked) -> str:
    reading = asked.reading
    is_other = reading.intent == "other" and compares(reading.given)
    return next(_ANSWERS.get("" if is_other else reading.intent, fits)(asked))


def not_planned(reading: Reading, why: str) -> list[str]:
    """Return the lines for a question whose start cannot be planned as it is asked."""
    if reading.intent != "upgrade":
        return []
    _, last = releases_asked(reading.given)
    return [
        why,
        f"From the oldest that is modelled: planner upgrade {reading.model} --from "
        f"{OLDEST} --to {last or NEWEST}",
    ]


def _without_plan(reading: Reading) -> Iterator[str]:
    yield from meanings_in(reading.given if reading.model is None else "")
    if reading.intent == "cheapest" and reading.gpu is not None:
        yield from price_of(reading)
    is_failing = words_of("fails").search(reading.given) is not None
    is_of_memory = _MEMORY.search(reading.given) is not None
    if reading.intent == "why" and is_of_memory and not is_failing:
        yield BY_DESIGN.format(share=_usual_share(reading.vllm_version))
        yield _LESS
    elif reading.intent == "which_models" and reading.gpu is not None:
        yield from which_models(reading)
    elif reading.model is not None and not reading.refused_gpu:
        if reading.intent != "cheapest":
            yield from sizes(reading)
        yield from cheapest(reading)


def _by_size(reading: Reading) -> Iterator[str]:
    """Answer what a model takes that a text names by its size, as "a 70B model"."""
    sizes = [o for o in Question(reading.given).quantities if o.role == "size"]
    if sizes and any(NOT_NAMED["model"] == one for one in reading.open):
        yield of_parameters(sizes[0].term.value, reading)


def _usual_share(version: str | None) -> float:
    """Return the share of the GPU that a release takes by default."""
    return gpu_memory_utilization(resolve_version(version or NEWEST)[0])


def _users(asked: Asked) -> Iterator[str]:
    """Answer how many run at once: of the length that is told, else of a usual one."""
    reading, plan = asked.reading, asked.plan
    if reading.load is not None and reading.load.requests > 1:
        yield from fits(asked)
        return
    given = reading.engine_args.get("max_model_len")
    load = reading.load or USUAL
    if reading.load is None and isinstance(given, int) and given > 1:
        load = Load(prompt_tokens=given - given // 4, output_tokens=given // 4)
    free = plan.changed(max_num_seqs=None, max_model_len=None, load=None)
    found = most_requests(free, load=load)
    assumed = "" if reading.load or given else ", which is assumed"
    length = f"{load.request_tokens:,} tokens{assumed}"
    if found.value is None:
        yield f"None: not one request of {length} is served. {found.why}"
        yield from would_do(asked.fixes)
        return
    held = int(found.value)
    yield f"{counted(held, 'users')} of {length}, at once."
    if found.plan is not None:
        yield f"The start for it: {found.plan.command()}"
    yield "More may be connected: whoever has no room in the KV cache waits."


def _speed(asked: Asked) -> Iterator[str]:
    reading = asked.reading
    load = reading.load or USUAL
    assumed = "" if reading.load else " (assumed)"
    plan = _of_usual_length(asked, load)
    forecast = speed_forecast(plan, load)
    yield (
        f"{speed_words.headline(forecast)}, prompts of {load.prompt_tokens:,} and "
        f"answers of {load.output_tokens:,} tokens{assumed}."
    )
    each = forecast.per_request_tokens_per_second
    question = Question(reading.given)
    if each is not None and not question.has_users:
        yield wanted_line(question, each.low, each.high)
    yield forecast.near.words
    limit = rate_text(forecast.bound.total_at_most_tokens_per_second)
    yield (
        f"The bound is {limit}: no start is faster, by memory bandwidth and peak "
        "arithmetic; most are slower."
    )
    yield (
        f"Its figures: planner speed {plan.name} --gpu {plan.gpu.name} "
        f"{load_flags(load)}"
    )
    if not plan.fits:
        yield from fits(asked)


def _of_usual_length(asked: Asked, load: Load) -> Plan:
    """Return the plan of a question without a length, for a length that is usual."""
    plan = asked.plan
    if asked.is_length_told or plan.resolved is None or plan.fits:
        return plan
    return plan.changed(max_model_len=load.request_tokens)


def _why(asked: Asked) -> Iterator[str]:
    plan = asked.plan
    rank = plan.limiting_rank
    if not plan.fits or (plan.serving is not None and not plan.serving.is_served):
        yield from fits(asked)
    if rank is None or plan.resolved is None:
        return
    share = plan.resolved.gpu_memory_utilization
    cache = max(rank.available_kv_cache_bytes, 0)
    lines = ", ".join(
        f"{line.name} {format_gib(line.size_bytes)}"
        for line in rank.lines
        if line.size_bytes > 0 and "KV cache" not in line.name
    )
    yield (
        f"By design: vLLM takes {share:g} of {each_of(plan)}, "
        f"{format_gib(rank.requested_memory_bytes)} of "
        f"{format_gib(plan.gpu.total_memory_bytes)}: {lines}; what is left of it, "
        f"{format_gib(cache)}, becomes KV cache."
    )
    one = serving(plan)
    if plan.fits and one.requests_held is not None:
        yield (
            f"It holds {counted(one.requests_held, 'requests')} of "
            f"{one.load.request_tokens:,} tokens; with more at once vLLM preempts the "
            "newest and computes them again later."
        )
    yield _LESS


def _cheapest(asked: Asked) -> Iterator[str]:
    """Answer what the named GPUs cost and whether they do, then what is cheapest."""
    price = list_prices().prices.get(asked.plan.gpu.name)
    if price is not None:
        per_hour = price.per_hour * asked.plan.gpus_total
        yield (
            f"{asked.plan.gpus_total} x {asked.plan.gpu.name}: {per_hour:.2f} "
            f"{list_prices().currency} per hour. {next(fits(asked))}"
        )
    yield from cheapest(asked.reading)


def _upgrade(asked: Asked) -> Iterator[str]:
    reading, plan = asked.reading, asked.plan
    first, last = releases_asked(reading.given)
    last = last or NEWEST
    if first is None:
        yield (
            "Open: from which release. Then: planner upgrade "
            f"{plan.name} --gpu {plan.gpu.name} --from RELEASE --to {last}"
        )
        yield from fits(asked)
        return
    found = upgrade(plan, to=last)
    yield upgrade_words.headline(found)
    for release, cause in found.causes[:_MOST_CAUSES]:
        yield f"{release}: {upgrade_words.effects(cause)}. {upgrade_words.why(cause)}"
    if len(found.causes) > _MOST_CAUSES:
        yield f"{len(found.causes) - _MOST_CAUSES} more:"
    yield (
        f"All of it: planner upgrade {plan.name} --gpu {plan.gpu.name} --from "
        f"{found.steps[0].release} --to {last}"
    )


def _other(asked: Asked) -> Iterator[str]:
    """Answer what has no place of its own: the longest context, the sizes, the fit."""
    reading, plan = asked.reading, asked.plan
    requests = None if reading.load is None else reading.load.requests
    free = plan.changed(max_model_len=None, max_num_seqs=None, load=None)
    longest = longest_context(free, requests=requests)
    at_once = f" for {counted(requests, 'requests')} at once" if requests else ""
    name = f"{plan.gpus_total} x {plan.gpu.name}"
    is_count = words_of("count").search(Question(reading.given).rest) is not None
    if reading.gpus is None and (longest.value is None or is_count):
        yield fewest(reading, plan)
        if longest.value is None:
            yield f"On one: {why_not(plan)}"
        return
    if longest.value is None:
        yield f"No context fits{at_once} on {name}. {longest.why}"
    else:
        length = f"{int(longest.value):,} tokens"
        yield f"The longest context{at_once} on {name} is {length}."
    rank = plan.limiting_rank
    if rank is not None:
        weights = next(line for line in rank.lines if "weights" in line.name)
        yield (
            f"Weights take {format_gib(weights.size_bytes)} of {each_of(plan)}; "
            f"KV cache {format_gib(max(rank.available_kv_cache_bytes, 0))} is there, "
            f"{max(plan.kv_cache_size_tokens, 0):,} tokens."
        )
    if asked.is_length_told or longest.value is None:
        yield from fits(asked)


_ANSWERS: Mapping[str, Callable[[Asked], Iterator[str]]] = {
    "fits": fits,
    "users": _users,
    "cheapest": _cheapest,
    "which_models": lambda asked: which_models(asked.reading),
    "speed": _speed,
    "why": _why,
    "upgrade": _upgrade,
    "other": _other,
}
