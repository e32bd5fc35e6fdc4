"""Short answers without a plan: the cheapest GPUs, the models of a GPU, sizes.

Sizes are what a model takes of any GPU, where a question names none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import isfinite
from typing import Any

from planner.engine.gpu import GPU
from planner.engine.releases import NEWEST_RELEASE
from planner.errors import PlannerError
from planner.models.architecture import ModelArchitecture
from planner.models.catalogue import popular
from planner.models.lengths import derived_max_model_len
from planner.planning.defaults import gpu_memory_utilization
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.words import load_flags
from planner.reading.questions.checkpoints import longest_of
from planner.reading.questions.question_words import words_of
from planner.reading.reading import Reading
from planner.solve import SetUp, set_ups
from planner.solve.price_list import list_prices
from planner.solve.which_models import ModelSearch
from planner.units import counted, format_gib, format_size

_PER_HOUR = re.compile(
    r"(?:[$\u20ac\u00a3]\s?)?(?P<price>\d{1,4}(?:[.,]\d{1,2})?)\s?(?:[$\u20ac\u00a3]|USD|EUR|dollars?"
    r"|euros?)?\s?(?:/|per|an?|pro|par|por|la|l'|each)\s?(?:h\b|hr\b|hour|stunde|heure|hora)",
    re.IGNORECASE,
)
_BYTES = {"16 bits": 2.0, "8 bits": 1.0, "4 bits": 0.5}
"""Of a parameter, without scales."""
USUAL = Load(prompt_tokens=3072, output_tokens=1024)
"""Where a question tells no length."""
_MOST_MODELS, _MOST_TRIED = 4, 24
_LAYOUT = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_OF_A_MODEL = (*_LAYOUT, "max_model_len", "quantization", "dtype")
"""What each model is planned without: its own, or what the search chooses."""


def cheapest(reading: Reading) -> Iterator[str]:
    """Answer which GPUs are cheapest, of those with a list price."""
    load = usual_load(reading)
    start = reading.inputs("H100", **dict.fromkeys((*_LAYOUT, "load")))
    found = set_ups(start.plan(), load, list(list_prices().prices), order="cheapest")
    most = budget_in(reading.given)
    best = [one for one in found.ranked("cheapest") if _costs_at_most(one, most)]
    words = f"{counted(load.requests, 'requests')} of {load.request_tokens:,} tokens"
    assumed = "" if load != USUAL or reading.load else " (assumed)"
    if not best:
        limit = "" if most is None else f" of {most:.2f} or less per hour"
        yield f"Nothing with a list price{limit} serves {words}{assumed} at once."
    else:
        first, *others = [_set_up(one, found.currency) for one in best[:3]]
        yield f"{first}, for {words}{assumed} at once, by list prices."
        if others:
            yield f"Then: {'; '.join(others)}."
    yield (
        f"All of them: planner solve set-ups {reading.model} {load_flags(load)} "
        "--order cheapest"
    )


def price_of(reading: Reading) -> Iterator[str]:
    """Answer what the GPUs that a question names cost by the hour."""
    name = reading.gpu.name if isinstance(reading.gpu, GPU) else str(reading.gpu)
    listed, number = list_prices(), reading.gpus or 1
    price = listed.prices.get(name)
    if price is None:
        yield f"{name} has no list price here."
    else:
        cost = f"{price.per_hour * number:.2f} {listed.currency} per hour"
        yield f"{number} x {name}: {cost}, by list prices."


def budget_in(text: str) -> float | None:
    """Return what a text would pay for an hour, in the price list's currency.

    >>> budget_in("at most $5/hour"), budget_in("2,50 Euro pro Stunde"), budget_in("$5")
    (5.0, 2.5, None)
    """
    match = _PER_HOUR.search(text)
    return None if match is None else float(match["price"].replace(",", "."))


def _costs_at_most(found: SetUp, most: float | None) -> bool:
    price = found.price_per_hour
    return most is None or (price is not None and price <= most)


def _set_up(found: SetUp, currency: str) -> str:
    price = found.price_per_hour
    cost = "" if price is None else f" at {price:.2f} {currency} per hour"
    return f"{found.gpus_total} x {found.gpu.name}{cost}"


def fewest(reading: Reading, plan: Plan) -> str:
    """Say how many GPUs of the planned kind it takes at least."""
    found, words = _fewest(reading, plan)
    if found is None:
        return f"Not even 16 x {plan.gpu.name} hold {words}."
    return f"At least {found.gpus_total} x {plan.gpu.name} for {words} at once."


def copies(reading: Reading, plan: Plan, nodes: int = 1) -> str:
    """Say how many copies of a model the GPUs of a question hold; empty: no GPUs."""
    total = reading.gpus or plan.gpus_total
    found, words = _fewest(reading, plan)
    if found is None:
        return f"None: not even 16 x {plan.gpu.name} hold {words}."
    each, within = found.gpus_total, total // nodes
    count = within // each * nodes if each <= within else total // each
    if not count:
        return (
            f"None: one copy takes {each} x {plan.gpu.name} for {words} at once, and "
            f"there are {total}."
        )
    left = total - count * each
    rest = f"; {left} of {total} GPUs are left" if left else ""
    return (
        f"{counted(count, 'copies')}, each of {each} x {plan.gpu.name}, which is the "
        f"least for {words} at once{rest}."
    )


def _fewest(reading: Reading, plan: Plan) -> tuple[SetUp | None, str]:
    """Return the smallest set-up of the planned GPU, and its load in words."""
    length = reading.engine_args.get("max_model_len", USUAL.request_tokens)
    usual = Load(prompt_tokens=max(length - 1, 1), output_tokens=1)
    load = reading.load or usual
    start = plan.changed(**dict.fromkeys((*_LAYOUT, "load", "max_model_len")))
    words = f"{counted(load.requests, 'requests')} of {load.request_tokens:,} tokens"
    return set_ups(start, load, [plan.gpu], prices={}, nodes=2).fewest, words


def which_models(reading: Reading) -> Iterator[str]:
    """Answer which models a GPU serves: the most used of the catalogue that do."""
    load = usual_load(reading)
    rest = {n: v for n, v in reading.engine_args.items() if n not in _OF_A_MODEL}
    gpus, tried = reading.gpus or 1, popular()[:_MOST_TRIED]
    search = ModelSearch.of(reading.gpu or "H100", gpus, load, entries=tried, **rest)
    for _ in search.steps():
        pass
    found = search.result("downloads")
    names = [group[0].name for group in found.groups()]
    name = search.gpu.name
    where = f"{reading.gpus} x {name}" if reading.gpus else name
    words = f"{counted(load.requests, 'requests')} of {load.request_tokens:,} tokens"
    assumed = "" if reading.load else " (assumed)"
    some = ", ".join(names[:_MOST_MODELS]) or "none of them"
    yield (
        f"{where} can serve {words}{assumed} at once with, of the {len(tried)} most "
        f"used models: {some}."
    )
    share = found.found[0].plan if found.found else None
    rank = None if share is None else share.limiting_rank
    if rank is not None:
        budget = rank.requested_memory_bytes * gpus
        billions = budget / 1e9
        yield (
            f"By size: vLLM takes {format_gib(budget)} there; weights have to leave "
            f"room, so about {0.8 * billions / 2:.0f} billion parameters in BF16, "
            f"{0.8 * billions:.0f} in FP8, {1.6 * billions:.0f} in 4 bits."
        )
    many = f" --gpus {gpus}" if gpus > 1 else ""
    yield f"All: planner solve models --gpu {name}{many} {load_flags(load)}"


def usual_load(reading: Reading) -> Load:
    """Return the load of a question, or one usual request of the length it names."""
    length = reading.engine_args.get("max_model_len")
    longest = longest_of(reading.model or "")
    if length is None and longest is not None and longest < USUAL.request_tokens:
        length = int(longest)
    if reading.load is not None or not isinstance(length, int) or length <= 1:
        return reading.load or USUAL
    answer = min(USUAL.output_tokens, length // 2)
    return Load(prompt_tokens=length - answer, output_tokens=answer)


def searched_from(reading: Reading, name: str, value: object) -> Reading:
    """Return a start from which a list is searched that answers a question.

    Args:
        reading: the question.
        name: model or gpu, which it leaves open.
        value: what stands for it: any does.
    """
    gpus, given = reading.gpus or 1, dict(reading.engine_args)
    if name == "model":
        given = {n: v for n, v in given.items() if n not in _OF_A_MODEL}
        given |= {"tensor_parallel_size": gpus} if gpus > 1 else {}
    open_value: dict[str, Any] = {name: value} if value else {}
    return replace(reading, engine_args=given, load=usual_load(reading), **open_value)


def facts_of(model: ModelArchitecture) -> str:
    """Say what a model's config tells of its shape."""
    longest = derived_max_model_len(model, NEWEST_RELEASE)
    length = f"requests of up to {int(longest):,} tokens" if isfinite(longest) else ""
    experts = f"{model.num_experts} experts" if model.num_experts else ""
    shape = (
        f"{model.num_hidden_layers} layers of {model.hidden_size:,} values, "
        f"{model.num_attention_heads} heads of which {model.num_kv_heads} have KV"
    )
    return f"Its config: {', '.join(filter(None, (length, shape, experts)))}."


def sizes(reading: Reading) -> Iterator[str]:
    """Answer what a model takes of any GPU: its weights, and KV cache for a request."""
    length = usual_load(reading).request_tokens
    try:
        plan = reading.inputs("H100", max_model_len=length, load=None).plan()
    except PlannerError as error:
        yield str(error).partition("\n")[0]
        return
    rank = plan.limiting_rank
    if rank is None or plan.resolved is None:
        return
    if words_of("facts").search(reading.given) and plan.model is not None:
        yield facts_of(plan.model)
    total = sum(each.weights_bytes for each in plan.ranks)
    ranks = plan.resolved.tensor_parallel_size
    split = f" on each of {ranks} GPUs" if ranks > 1 else ""
    rest = (
        rank.requested_memory_bytes
        - rank.allocated_weights_bytes
        - rank.available_kv_cache_bytes
    )
    needed = plan.needed_kv_cache_bytes
    requests = 1 if reading.load is None else reading.load.requests
    assumed = "" if _is_length_told(reading) else " (assumed)"
    of_all = f" ({requests:,} of them {format_gib(needed * requests)})"
    yield (
        f"Weights take {format_gib(total)}{split}, and a request of {length:,} "
        f"tokens{assumed} {format_gib(needed)} of KV cache"
        f"{of_all if requests > 1 else ''}: {format_size(round(needed / length))} a "
        f"token, {format_size(rank.bytes_per_block)} for a block of "
        f"{plan.resolved.block_size} tokens. The rest of a start takes "
        f"{format_gib(rest)} on an H100."
    )


def of_parameters(billions: float, reading: Reading) -> str:
    """Say what the weights of a model take that is named by its size alone."""
    sizes = ", ".join(
        f"{format_gib(round(billions * 1e9 * bytes_each))} in {form}"
        for form, bytes_each in _BYTES.items()
    )
    room = ""
    if reading.gpu is not None:
        gpu = reading.gpu
        known = gpu if isinstance(gpu, GPU) else GPU.named(gpu)
        share = reading.engine_args.get("gpu_memory_utilization")
        share = gpu_memory_utilization(NEWEST_RELEASE) if share is None else share
        count = reading.gpus or 1
        budget = round(share * known.total_memory_bytes * count)
        room = f" vLLM takes {format_gib(budget)} of {count} x {known.name}."
    return (
        f"Weights of {billions:g} billion parameters take {sizes}, before any KV cache."
        f"{room}"
    )


def _is_length_told(reading: Reading) -> bool:
    return reading.load is not None or "max_model_len" in reading.engine_args
