"""Questions in words, as "will Llama 3.3 70B run on two RTX 3090s, for 20 users?".

A question names its model by the words of the name, and GPUs, context and users in
words too, in six languages. What was taken for what is said in notes, and so is what
the planner cannot use: a question is no command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from planner.errors import PlannerError
from planner.models.catalogue import find
from planner.reading.account import Piece, Use
from planner.reading.questions.devices import Place, is_of_size
from planner.reading.questions.loads import Loaded, items_of, loaded
from planner.reading.questions.named import NamedModel
from planner.reading.questions.noted import is_other
from planner.reading.questions.question import Question
from planner.reading.questions.question_words import (
    Term,
)
from planner.reading.reading import NOT_NAMED, Kind, Reading, without_gpu

_LONGEST = 2_000
"""Characters; a longer text is no question."""
_MOST_LINES = 12
_COMMAND = re.compile(
    r"\s*(?:[$%>#] )?(?:[a-z][\w./-]* ){1,4}--?[a-z][\w-]*[ =]\S", re.A
)
"""A program, its words and a flag: of another program than vLLM's server."""
_CODE = re.compile(
    r"^[ \t]*(?:import \w|(?:export )?[A-Z]\w*=\S|from [\w.]+ import|def \w|class \w"
    r"|[\w-]+:\s*$|#!)"
    r"|[{}]|<[/!]?[a-zA-Z][^<>]*>|\w\([^)]*[\"']|=\s*[\"']",
    re.MULTILINE,
)
"""Signs of code, of a configuration or of markup: no question."""
_BITS = {4: "GPTQ-Int4", 8: "GPTQ-Int8"}
_LEFT = {
    "rate": "a rate: how many run at once follows from it and the speed. Give the "
    "requests at once",
    "share": "a share that prompts have alike, of prompts whose length is not said",
    "shared": "tokens that requests share, and more than their prompts have",
    "ram": "memory of the processor, which is not planned by a question",
    "time": "a time, and no plan is made for one",
    "money": "a price, and the search has prices of its own",
    "size": "the size of a model that is not named",
    "memory": "memory that is not that of one GPU named here",
    "vram": "memory that is not that of one GPU named here",
    "percent": "a share that belongs to nothing named here",
}
_ALTERNATIVE = "another number for what one is planned for: ask for each"
_UNKNOWN = "a number that belongs to nothing that is asked"
_OTHER_START = "of another start in the text"
_INPUTS = {
    "user": "requests",
    "concurrency": "requests",
    "prompt": "prompt_tokens",
    "answer": "output_tokens",
    **dict.fromkeys(("share", "shared"), "shared_prefix_tokens"),
    "length": "max_model_len",
    "image": "limit_mm_per_prompt",
    "utilization": "gpu_memory_utilization",
    "bits": "model",
    **dict.fromkeys(("card", "unit", "node", "gpu"), "gpus"),
    **dict.fromkeys(("memory", "vram"), "gpu"),
}
"""What a number is used for."""
_NO_MODEL = NamedModel(name="", written="")


def questions_in(text: str) -> tuple[Reading, ...]:
    """Return a reading for each model and each GPU that a question names.

    >>> [one.shown for one in questions_in("Does Qwen3 8B fit on a T4 or two L4?")]
    ['Qwen/Qwen3-8B on 1 x T4', 'Qwen/Qwen3-8B on 2 x L4']
    """
    if not _is_prose(text):
        return ()
    asked = Question(text)
    if not asked.is_asked:
        return ()
    found = list(product(asked.models or (_NO_MODEL,), asked.places or (Place(),)))
    return tuple(
        replace(
            without_gpu(_reading(asked, model, place), asked.refused),
            num_starts=len(found),
        )
        for model, place in found
    )


def _is_prose(text: str) -> bool:
    is_short = len(text) <= _LONGEST and text.strip().count("\n") < _MOST_LINES
    is_typed_in = _COMMAND.match(text) and "?" not in text
    return is_short and not (is_typed_in or is_other(text) or _CODE.search(text))


def _reading(asked: Question, model: NamedModel, place: Place) -> Reading:
    load = loaded(asked.quantities, place.terms)
    arguments: dict[str, Any] = {
        name: value for name, value, _ in asked.formats if name != "model"
    }
    for flag, value, _ in asked.flags:
        arguments.setdefault(flag, value)
    arguments = _layout(place, arguments) | arguments
    if load.max_model_len is not None:
        arguments.setdefault("max_model_len", load.max_model_len)
    name, format_note = _checkpoint(asked, model)
    items, item_note = items_of(asked.quantities, name)
    if items:
        arguments.setdefault("limit_mm_per_prompt", items)
    left = list(_left(asked, load))
    ordered = sorted(asked.releases, key=lambda one: one.is_target)
    versions = tuple(dict.fromkeys(one.version for one in ordered))
    whole = bool(_layout(place, {}))
    notes = (
        model.note if model.name else "",
        place.note,
        "One copy of the model over all of the GPUs is meant." if whole else "",
        format_note,
        load.note,
        item_note,
        f"From vLLM {versions[0]} to {versions[1]}." if versions[1:] else "",
        *(f'"{one.written.strip()}" is left aside: {why}.' for one, why in left),
        *_other_devices(asked),
    )
    has_more = bool(
        place.gpu or asked.refused or arguments or load.load or versions or format_note
    )
    return Reading(
        kind=Kind.QUESTION if has_more or asked.intents else Kind.MODEL,
        intent=asked.intent if has_more or asked.intents else "",
        given=asked.text,
        model=name or None,
        gpu=place.gpu,
        vllm_version=versions[0] if versions else None,
        engine_args=arguments,
        load=load.load,
        open=(
            *(() if name else (model.note or NOT_NAMED["model"],)),
            *(() if place.gpu else (NOT_NAMED["gpu"],)),
        ),
        notes=tuple(filter(None, notes)),
        gpus=place.total,
        shown=f"{name or 'a model'} on {place}" if place.gpu else name or "",
        places=tuple(_account(asked, model, place, left)),
    )


def _layout(place: Place, given: dict[str, Any]) -> dict[str, Any]:
    """Return how one copy of a model is split over GPUs; what is given stays."""
    stages = given.get("pipeline_parallel_size", place.nodes)
    copies = given.get("data_parallel_size", 1)
    within = (place.total or 1) // max(stages * copies, 1)
    sizes = {"tensor_parallel_size": within, "pipeline_parallel_size": stages}
    return {name: size for name, size in sizes.items() if size > 1}


def _checkpoint(asked: Question, model: NamedModel) -> tuple[str, str]:
    """Return the checkpoint of a model in the format that a text asks for."""
    forms = [value for name, value, _ in asked.formats if name == "model"]
    forms += [
        _BITS[one.term.value]
        for one in asked.quantities
        if one.role == "bits" and one.term.value in _BITS
    ]
    if not model.name or not forms:
        return model.name, ""
    form = forms[0]
    wanted = f"{model.name}~{form}"
    published = f"{model.name}-{form}"
    if find(published) is not None:
        return published, f"In {form}: {published}."
    try:
        if find(wanted) is not None:
            return wanted, f"No checkpoint in {form} is known: {wanted} is estimated."
    except PlannerError:  # it is quantised already
        return model.name, f"{model.name} is quantised as it is: {form} is left out."
    return model.name, f"{form} is left out: name a checkpoint that has it."


def _left(asked: Question, load: Loaded) -> Iterator[tuple[Term, str]]:
    """Yield the numbers that were not used, with why; what is said twice once."""
    used = (*load.terms, *(term for one in asked.places for term in one.terms))
    said = {(one.role, one.term.value) for one in asked.quantities if one.term in used}
    roles = {role for role, _ in said}
    for one in asked.quantities:
        what = (one.role, one.term.value)
        is_item = one.role in ("image", "video", "audio")  # `items_of` says it
        is_format = one.role == "bits" and one.term.value in _BITS
        is_size = one.term.unit == "memory" and any(
            is_of_size(place.gpu, one.term.value) for place in asked.places
        )
        if not one.term.is_digits or is_item or is_format or is_size or what in said:
            continue
        said.add(what)
        is_other = one.term.unit == "memory" and bool(asked.places)
        role = "vram" if is_other and one.role == "memory" else one.role
        why = _LEFT.get(role, _ALTERNATIVE if role in roles else _UNKNOWN)
        yield one.term, why


def _other_devices(asked: Question) -> Iterator[str]:
    """Yield the devices that are not planned for, beside the first."""
    said = {asked.refused.partition(" ")[2]}
    for one in asked.devices:
        what = str(one.value).rpartition("' is ")[2]
        if one.kind == "device" and not any(what in each for each in said):
            said.add(what)
            yield str(one.value)


def _account(
    asked: Question,
    model: NamedModel,
    place: Place,
    left: Sequence[tuple[Term, str]],
) -> Iterator[Piece]:
    """Yield what became of the names and numbers of a question."""
    for one in asked.mentions:
        is_meant = (one.name or one.written) == (model.name or model.written)
        use = Use.USED if is_meant else Use.KEPT
        use = use if one.name else Use.OPEN
        yield _piece((one.start, one.end), use, "model" if is_meant else _OTHER_START)
    for term in asked.devices:
        is_meant = term in place.terms
        use = Use.USED if is_meant else Use.KEPT
        use = Use.NOT_UNDERSTOOD if term.kind == "device" else use
        what = "gpu" if is_meant else _OTHER_START
        what = "no GPU that a plan is for" if term.kind == "device" else what
        yield _piece((term.start, term.end), use, what)
    for name, _, span in (*asked.flags, *asked.formats):
        yield _piece(span, Use.USED, name)
    for release in asked.releases:
        yield _piece(release.span, Use.USED, "vllm_version")
    yield from _numbers(asked, left)


def _numbers(asked: Question, left: Sequence[tuple[Term, str]]) -> Iterator[Piece]:
    for one in asked.quantities:
        start, end = one.term.start, one.term.end
        noun = end if one.noun is None else asked.terms[one.noun].end
        why = next((why for term, why in left if term is one.term), "")
        if why:
            yield _piece((start, end), Use.NOT_UNDERSTOOD, why)
        else:
            what = _INPUTS.get(one.role, one.role)
            yield _piece((start, max(end, noun)), Use.USED, what)


def _piece(span: tuple[int, int], use: Use, what: str) -> Piece:
    return Piece(start=span[0], end=span[1], use=use, what=what)
