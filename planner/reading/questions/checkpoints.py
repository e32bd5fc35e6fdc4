"""What a question leaves to choose: the checkpoint, its split, its part of a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import floor
from typing import Any

from planner.engine.gpu import GPU
from planner.engine.releases import NEWEST_RELEASE
from planner.errors import PlannerError
from planner.models.catalogue import find
from planner.models.lengths import derived_max_model_len
from planner.planning.defaults import gpu_memory_utilization
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.reading.questions.devices import Place
from planner.reading.questions.named import NamedModel
from planner.reading.questions.options import Option
from planner.reading.questions.question import BITS, Question
from planner.reading.questions.question_words import Term, words_of
from planner.solve.advice.makers.checkpoints import format_of, siblings
from planner.units import GIB

_PUBLISHED = {"GPTQ-Int4": "INT4", "GPTQ-Int8": "INT8"}
"""What names of published checkpoints call a format."""
_ONLINE = "FP8"
_ONE_COPY = "One copy of the model over all of the GPUs is meant."
_STEPS = 100
"""A share of a GPU is told in hundredths."""


def checkpoint_of(
    model: str, options: Sequence[Option]
) -> tuple[str, dict[str, Any], str]:
    """Return the checkpoint of a model in a format, its arguments, and what is said.

    A published one; FP8 else while vLLM loads the 16-bit one; another is estimated.
    """
    form = next((str(one.value) for one in options if one.name == "model"), "")
    is_own = form in BITS.values() and format_of(model) != ""  # "AWQ, 4 bits"
    if not model or not form or is_own:
        return model, {}, ""
    named = f"{model}-{form}"
    wanted = _PUBLISHED.get(form, form)
    alike = [other for other in siblings(model) if format_of(other) == wanted]
    published = named if find(named) is not None else next(iter(alike), "")
    if published:
        return published, {}, f"In {form}: {published}."
    estimated = f"{model}~{form}"
    try:
        is_estimated = find(estimated) is not None
    except PlannerError:  # it is quantised already
        return model, {}, f"{model} is quantised as it is: {form} is left out."
    if not is_estimated:
        return model, {}, f"{form} is left out: name a checkpoint that has it."
    if form == _ONLINE:
        return (
            model,
            {"quantization": "fp8_per_tensor"},
            "No checkpoint in FP8 is known: vLLM quantises the 16-bit one as it loads.",
        )
    return (
        estimated,
        {},
        f"No checkpoint in {form} is known: {estimated} is estimated, and stands for "
        "one that you find on the Hub.",
    )


@lru_cache(maxsize=64)
def longest_of(model: str) -> float | None:
    """Return the tokens of the longest request that a model takes; None: not known."""
    found = _planned(model)
    if found is None or found.model is None:
        return None
    return derived_max_model_len(found.model, NEWEST_RELEASE)


def of_length(model: NamedModel, tokens: int | None) -> NamedModel:
    """Return the model that a name stands for which takes requests of a length.

    The plainest of those with the words of the name, unless only another does.
    """
    if tokens is None or not model.others or _takes(model.name, tokens):
        return model
    for other in model.others:
        if _takes(other, tokens):
            note = f'"{model.written}" is taken for {other}: {model.name} takes less '
            return replace(model, name=other, note=f"{note}than {tokens:,} tokens.")
    return model


def _takes(model: str, tokens: int) -> bool:
    longest = longest_of(model)
    return longest is None or tokens <= longest


def laid_out(
    model: str, place: Place, given: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """Return arguments with the split of one copy over all GPUs, and what is said.

    Tensor parallel within a node; where vLLM refuses that, of fewer ranks in more
    pipeline stages. What is given stays.
    """
    stages = given.get("pipeline_parallel_size", place.nodes)
    copies = given.get("data_parallel_size", 1)
    within = (place.total or 1) // max(stages * copies, 1)
    note = _ONE_COPY if within > 1 or stages > 1 else ""
    is_free = not {"tensor_parallel_size", "pipeline_parallel_size"} & {*given}
    if is_free and within > 1 and place.gpu is not None and copies == 1:
        for ranks in (n for n in range(within, 0, -1) if within % n == 0):
            split = _split(ranks, stages * within // ranks)
            if not _is_refused(model, place.gpu, tuple(split.items())):
                refused = (
                    f" vLLM refuses tensor parallel {within}: planned with {ranks}."
                )
                told = note if ranks == within else note + refused
                return {**split, **given}, told
    return {**_split(within, stages), **given}, note


def _split(ranks: int, stages: int) -> dict[str, int]:
    sizes = {"tensor_parallel_size": ranks, "pipeline_parallel_size": stages}
    return {name: size for name, size in sizes.items() if size > 1}


@lru_cache(maxsize=256)
def _is_refused(model: str, gpu: str | GPU, split: tuple[tuple[str, int], ...]) -> bool:
    """Return whether vLLM refuses a split, however much memory there is."""
    if not model:
        return False
    try:
        sizes: dict[str, Any] = dict(split)
        error = plan(model, gpu, **sizes).error
    except PlannerError:
        return False
    return error is not None and error.kind == "refused"


def share_of(term: Term | None) -> dict[str, Any]:
    """Return the share of a GPU that a text gives vLLM: "0.85" or "85 %" of it."""
    value = 0 if term is None else term.value
    share = value / _STEPS if term and term.unit == "percent" else value
    return {"gpu_memory_utilization": share} if 0 < share <= 1 else {}


def budget_of(place: Place, term: Term | None) -> dict[str, Any]:
    """Return the share of a GPU that "at most 10 GB" are, rounded down."""
    if place.gpu is None or term is None:
        return {}
    share = floor(100 * term.value * GIB / place.card.total_memory_bytes) / 100
    return {"gpu_memory_utilization": share} if 0 < share <= 1 else {}


def with_taken(place: Place, taken: Term | None) -> Place:
    """Return a GPU with what other programs hold of it, by a number of GB."""
    if place.gpu is None or taken is None:
        return place
    gpu = place.card
    free = gpu.total_memory_bytes - round(taken.value * GIB)
    if not 0 < free < gpu.total_memory_bytes:
        return place
    said = f"{taken.written} of the GPU are taken by other programs."
    return replace(
        place,
        gpu=replace(gpu, free_memory_bytes=free),
        note=f"{place.note} {said}".strip(),
    )


def one_copy(
    place: Place, term: Term | None, text: str
) -> tuple[Place, dict[str, Any], str]:
    """Return where one of several copies runs, with its share, and what is said."""
    total, copies = place.total or 1, 1 if term is None else term.value
    if copies <= 1 or total == copies == 1:
        return place, {}, ""
    said = f"One of {copies} copies is planned"
    if words_of("apart").search(text):
        return place, {}, f"{said}, on its own GPUs."
    if total % copies == 0:
        count = total // copies
        return replace(place, count=count, nodes=1), {}, f"{said}, on {count} of them."
    if copies % total:
        return place, {}, ""
    whole = gpu_memory_utilization(NEWEST_RELEASE) * total / copies
    share = int(whole * _STEPS) / _STEPS
    said = f"{said}, which has {share:.2f} of a GPU; start one after the other."
    return replace(place, count=1), {"gpu_memory_utilization": share}, said


def shares_of(asked: Question, place: Place) -> dict[str, float]:
    """Return the share of a GPU for each of the models that are to run on it.

    What it takes beside KV cache, and an equal part of what all of them leave.
    """
    names = [one.name for one in asked.models if one.name]
    plans = [_planned(name, place) for name in names]
    ranks = [None if one is None else one.limiting_rank for one in plans]
    totals = [1 if one is None else one.gpu.total_memory_bytes for one in plans]
    whole = gpu_memory_utilization(NEWEST_RELEASE)
    taken = [
        0.0
        if rank is None
        else (rank.requested_memory_bytes - rank.available_kv_cache_bytes) / total
        for rank, total in zip(ranks, totals, strict=True)
    ]
    left = max(whole - sum(taken), 0.0) / max(len(names), 1)
    return {
        name: int(min(own + left, whole) * _STEPS) / _STEPS
        for name, own in zip(names, taken, strict=True)
    }


def _planned(model: str, place: Place | None = None) -> Plan | None:
    if not model:
        return None
    gpu = "H100" if place is None or place.gpu is None else place.gpu
    count = 1 if place is None else place.total or 1
    try:
        return plan(model, gpu, tensor_parallel_size=count)
    except PlannerError:
        return None
