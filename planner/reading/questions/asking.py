"""Questions in words, as "will Llama 3.3 70B run on two RTX 3090s, for 20 users?".

A question names its model by the words of the name, and GPUs, context and users in
words too, in six languages. What was taken for what is said in notes, and so is what
the planner cannot use: a question is no command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from planner.engine.human_numbers import human_int
from planner.errors import PlannerError
from planner.models.catalogue import find
from planner.planning.load import Load
from planner.planning.planning import plan
from planner.reading.account import Piece, Use
from planner.reading.logs.pages import gpus_beside
from planner.reading.questions.devices import Place
from planner.reading.questions.gpu_words import is_of_size
from planner.reading.questions.named import NamedModel
from planner.reading.questions.noted import is_other
from planner.reading.questions.quantities import Quantity
from planner.reading.questions.question import Question
from planner.reading.questions.question_words import Term, blanked
from planner.reading.reading import NOT_NAMED, Kind, Reading, without_gpu
from planner.reading.sign_table import signs
from planner.values import frozen

_LONGEST = 2_000
"""Characters; a longer text is no question."""
_MOST_LINES = 12
_MODEL = re.compile(r"mod[eè]l|模型|モデル|\bLLM", re.IGNORECASE)
"""Some model is meant, though none is named."""
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
_ALTERNATIVE = "another number for what one is planned for: ask for each"
_UNKNOWN = "a number that belongs to nothing that is asked"
_OTHER_START = "of another start in the text"
_NO_MODEL = NamedModel(name="", written="")


def questions_in(text: str) -> tuple[Reading, ...]:
    """Return a reading for each model and each GPU that a question names.

    >>> [one.shown for one in questions_in("Does Qwen3 8B fit on a T4 or two L4?")]
    ['Qwen/Qwen3-8B on 1 x T4', 'Qwen/Qwen3-8B on 2 x L4']
    """
    _, printed = gpus_beside(text)
    if not _is_prose(blanked(text, printed).strip()):
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
    intent = asked.intent if has_more or asked.intents else ""
    is_alone = not (name or model.note or _MODEL.search(asked.text))
    if intent == "other" and place.gpu and is_alone:
        intent = "which_models"
    is_open = not name and intent != "which_models"
    return Reading(
        kind=Kind.QUESTION if has_more or asked.intents else Kind.MODEL,
        intent=intent,
        given=asked.text,
        model=name or None,
        gpu=place.gpu,
        vllm_version=versions[0] if versions else None,
        engine_args=arguments,
        load=load.load,
        open=(
            *((model.note or NOT_NAMED["model"],) if is_open else ()),
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
        # `items_of` says it; what is numbered is not counted.
        is_item = one.role in ("image", "video", "audio", "index")
        is_format = one.role == "bits" and one.term.value in _BITS
        is_size = one.term.unit == "memory" and any(
            is_of_size(place.gpu, one.term.value) for place in asked.places
        )
        if not one.term.is_digits or is_item or is_format or is_size or what in said:
            continue
        said.add(what)
        is_other = one.term.unit == "memory" and bool(asked.places)
        role = "vram" if is_other and one.role == "memory" else one.role
        why = signs("left aside").get(role, _ALTERNATIVE if role in roles else _UNKNOWN)
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
    for span in asked.lines:
        yield _piece(span, Use.USED, "gpu")
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
            what = signs("used for").get(one.role, one.role)
            yield _piece((start, max(end, noun)), Use.USED, what)


def _piece(span: tuple[int, int], use: Use, what: str) -> Piece:
    return Piece(start=span[0], end=span[1], use=use, what=what)


_ANSWER_SHARE = 4
"""Of a request's whole length, a quarter is taken for the answer."""
_USUAL_TOKENS = 4096
_ITEMS = ("image", "video", "audio")
_WHOLE = 100


@frozen
class Loaded:
    """What a question asks to serve."""

    load: Load | None = None
    max_model_len: int | None = None
    """Where it is not the length of the load's requests."""
    note: str = ""
    terms: tuple[Term, ...] = ()
    """The numbers that were used."""


def loaded(quantities: Sequence[Quantity], taken: Sequence[Term]) -> Loaded:
    """Return the load of a question, from its numbers but for those that are taken."""
    first: dict[str, Term] = {}
    for one in quantities:
        role = "user" if one.role == "concurrency" else one.role
        is_whole = isinstance(one.term.value, int) and one.term.value > 0
        if one.term not in taken and is_whole:
            first.setdefault(role, one.term)
    known: dict[str, Term] = {
        role: first[role]
        for role in ("user", "prompt", "answer", "length")
        if role in first
    }
    counts: dict[str, int] = {
        str(role): int(term.value) for role, term in known.items()
    }
    load, note = _load(counts)
    if load is not None:
        load, known = _sharing(load, quantities, known)
    length = counts.get("length")
    if load is not None and length == load.request_tokens:
        length = None
    letters = " ".join(filter(None, map(_letter, known.values())))
    return Loaded(
        load=load,
        max_model_len=length,
        note=f"{note} {letters}".strip(),
        terms=tuple(known.values()),
    )


def _sharing(
    load: Load, quantities: Sequence[Quantity], known: Mapping[str, Term]
) -> tuple[Load, dict[str, Term]]:
    """Return the load with what its prompts share: so many tokens, or per cent of them.

    A role that is known is used: the numbers come back with those that were.
    """
    for one in quantities:
        value, tokens = one.term.value, 0.0
        if one.role == "shared":
            tokens = value
        elif one.role == "share" and value <= _WHOLE:
            tokens = load.prompt_tokens * value / _WHOLE
        if 1 <= tokens <= load.prompt_tokens:
            shared = replace(load, shared_prefix_tokens=int(tokens))
            return shared, {**known, one.role: one.term}
    return load, dict(known)


def _load(counts: dict[str, int]) -> tuple[Load | None, str]:
    """Return the load, and what was assumed for it."""
    users = counts.get("user")
    prompt, answer = counts.get("prompt"), counts.get("answer")
    if users is None and prompt is None and answer is None:
        return None, ""
    length = counts.get("length")
    whole, note = length or _USUAL_TOKENS, ""
    if prompt is None and answer is None:
        answer = whole // _ANSWER_SHARE
        prompt = max(whole - answer, 1)
        assumed = "" if length else f" of {whole:,} tokens, which is assumed"
        note = f"{users:,} requests at once{assumed}, a quarter of each for the answer."
    elif answer is None:
        answer = 0
        note = "How long an answer is is not said: none is counted."
    elif prompt is None:
        prompt = max(whole - answer, 1)
        assumed = "" if length else f", of {whole:,} tokens with the answer: assumed"
        note = f"A prompt is {prompt:,} tokens{assumed}."
    load = Load(
        prompt_tokens=prompt or 1, output_tokens=answer or 0, requests=users or 1
    )
    return load, note


def _letter(term: Term) -> str:
    """Say how a letter after a number is read where a flag of vLLM has another rule."""
    written = term.written.strip()
    if not term.letter or human_int(written) == term.value:
        return ""
    number = human_int(written)
    flags = "refuse it" if number is None else f"read {number:,}"
    return f"{written} is read as {term.value:,} tokens; vLLM's flags {flags}."


def items_of(quantities: Iterable[Quantity], model: str) -> tuple[dict[str, int], str]:
    """Return the images, videos and sounds of a request, and those it cannot have."""
    found = {
        one.role: one.term
        for one in quantities
        if one.role in _ITEMS and isinstance(one.term.value, int)
    }
    if not found:
        return {}, ""
    takes = _modalities(model) if model else ()
    refused = [name for name in found if takes is not None and name not in takes]
    items = {name: one.value for name, one in found.items() if name not in refused}
    words = ", ".join(f'"{found[name].written} {name}s"' for name in refused)
    if not refused:
        return items, ""
    return items, f"{words} left aside: {model or 'a model not named'} takes none."


def _modalities(model: str) -> tuple[str, ...] | None:
    """Return what a model takes beside text; None where that is not known."""
    try:
        found = plan(model, "H100").model
    except PlannerError:
        return None
    if found is None:
        return None
    return tuple(name for tower in found.towers for name in tower.modalities)
