"""Questions in words, as "will Llama 3.3 70B run on two RTX 3090s, for 20 users?".

A question names its model by the words of the name, and GPUs, context and users in
words too, in ten languages. What was taken for what is said in notes, and so is what
the planner cannot use: a question is no command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from planner.engine.releases import NEWEST_RELEASE
from planner.planning.defaults import gpu_memory_utilization
from planner.planning.load import Load
from planner.reading.account import Piece, Use
from planner.reading.logs.pages import gpus_beside
from planner.reading.questions.checkpoints import (
    budget_of,
    checkpoint_of,
    laid_out,
    longest_of,
    of_length,
    one_copy,
    share_of,
    shares_of,
    with_taken,
)
from planner.reading.questions.devices import Place
from planner.reading.questions.gpu_words import is_of_size
from planner.reading.questions.loads import Loaded, items_of, loaded, of_one_copy
from planner.reading.questions.named import NamedModel
from planner.reading.questions.noted import given_in, is_other
from planner.reading.questions.options import Variant
from planner.reading.questions.quantities import Quantity
from planner.reading.questions.question import BITS, CHOSEN, Question
from planner.reading.questions.question_words import Term, blanked, words_of
from planner.reading.questions.rates import is_rate_answered
from planner.reading.reading import NOT_NAMED, Kind, Reading, without_gpu
from planner.reading.sign_table import signs

_NOT_THE_COPIES = (
    "The plan is of one copy over all of the GPUs; the answer counts smaller ones."
)
_LONGEST = 2_000
"""Characters; a longer text is no question."""
_MOST_LINES = 12
_MODEL = re.compile(r"mod[eè]l|模型|モデル|\bLLM", re.IGNORECASE)
"""Some model is meant, though none is named."""
_COMMAND = re.compile(
    r"\s*(?:[$%>#] )?(?:[a-z][\w./-]* ){1,4}--?[a-z][\w-]*[ =]\S", re.A
)
"""A program, its words and a flag: of another program than vLLM's server."""
_NOT_PLANNED = "Asked beside it, and not planned: {:,} tokens."
BY_DESIGN = (
    "By design: at its start vLLM takes a share of the GPU's memory "
    "(gpu_memory_utilization, {share} by default), and what weights and activations "
    "leave of it becomes KV cache, however small the model is."
)
_ASKED_LINE = re.compile(r"\w[?\uff1f](?:\s|\Z)")
_FLAGS = re.compile(r"\A.*\s--?[a-zA-Z][\w-]*(?:[ =]\S+)?(?=\s|\Z)")
"""The flags before a question in the line of a command."""
_TABLE = re.compile(r"--[a-z][\w-]*[= ]+['\"]?\{[^{}\n]*\}['\"]?")
"""A flag with a table, which a question may have."""
_CODE = re.compile(
    r"^[ \t]*(?:import \w|(?:export )?[A-Z]\w*=\S|from [\w.]+ import|def \w|class \w"
    r"|[\w-]+:\s*$|#!)"
    r"|[{}]|<[/!]?[a-zA-Z][^<>]*>|\w\([^)]*[\"']|=\s*[\"']",
    re.MULTILINE,
)
"""Signs of code, of a configuration or of markup: no question."""
_PRINTED = re.compile(
    r"^(?:\|(?:[^|\n]*\|){2}[^|\n]*\||\|[^|\n]*$|[=-]{6,})", re.MULTILINE
)
"""A table of more than two columns, or what a program printed."""
_ALTERNATIVE = "another number for what one is planned for: ask for each"
_UNKNOWN = "a number that belongs to nothing that is asked"
_OTHER_START = "of another start in the text"
_DRAFT = {"method": "draft_model", "num_speculative_tokens": 3}
_NO_MODEL = NamedModel(name="", written="")
_Start = tuple[NamedModel, Place, Variant]


def questions_in(text: str) -> tuple[Reading, ...]:
    """Return a reading for each model, GPU and option that a question names.

    >>> [one.shown for one in questions_in("Does Qwen3 8B fit on a T4 or two L4?")]
    ['Qwen/Qwen3-8B on 1 x T4', 'Qwen/Qwen3-8B on 2 x L4']
    """
    _, printed = gpus_beside(text)
    if not _is_prose(blanked(text, printed).strip()):
        return ()
    asked = Question(text)
    if not asked.is_asked:
        return ()
    places, models = asked.places or (Place(),), asked.models or (_NO_MODEL,)
    shares = shares_of(asked, places[0]) if asked.is_together else {}
    found = _starts(asked, models, places)
    return tuple(
        replace(
            without_gpu(_reading(asked, found, at, shares), asked.refused),
            num_starts=len(found),
            number=at + 1,
        )
        for at in range(len(found))
    )


def asked_beside(
    text: str, length: object = None
) -> tuple[Load | None, tuple[str, ...]]:
    """Return the load that a question beside a command names, and what to say of it.

    No request is longer than the command allows.

    >>> asked_beside("Enough for 20 users at 4k?")[0].requests
    20
    """
    lines = (line for line in text.splitlines() if _ASKED_LINE.search(line))
    words = " ".join(_FLAGS.sub("", line) for line in lines).strip()
    if not words or len(words) > _LONGEST:
        return None, ()
    asked = Question(words)
    taken = [x for one in asked.places for x in one.terms]
    longest = length if isinstance(length, int) and length > 0 else None
    found = loaded(asked.quantities, taken, longest)
    if asked.has_users and found.load is not None:
        return found.load, (f"Asked for beside it: {found.note}",)
    said = tuple(_said_beside(asked))
    length = found.max_model_len
    return None, (*said, _NOT_PLANNED.format(length)) if length else said


def _said_beside(asked: Question) -> Iterator[str]:
    """Yield what is said of what is asked beside a command and not planned."""
    if "why" in asked.intents and not words_of("fails").search(asked.plain):
        share = f"{gpu_memory_utilization(NEWEST_RELEASE):g}"
        yield f"Asked beside it: {BY_DESIGN.format(share=share)}"
    others = signs("asked beside")
    wanted = [
        others[one]
        for one, is_asked in asked.intents.items()
        if is_asked and one in others
    ]
    for why in dict.fromkeys([*dict(asked.topics), *wanted]):
        yield f"Asked beside it, and not answered: {why}."


def _starts(
    asked: Question, models: Sequence[NamedModel], places: Sequence[Place]
) -> list[_Start]:
    """Return what is asked for: each model on its GPU where a text names them so."""
    if len(models) == len(places) > 1:
        named = [(one.start, 0) for one in models]
        named += [(min(x.start for x in one.terms), 1) for one in places if one.terms]
        kinds = [kind for _, kind in sorted(named)]
        if kinds == kinds[:2] * len(models) and kinds[0] != kinds[1]:
            pairs = zip(models, places, strict=True)
            return [(*pair, variant) for pair in pairs for variant in asked.variants]
    if asked.lengths and len(places) == 1:
        own = zip(models, asked.lengths, strict=True)
        return [(one, places[0], (length,)) for one, length in own]
    return list(product(models, places, asked.variants))


def _is_prose(text: str) -> bool:
    is_short = len(text) <= _LONGEST and text.strip().count("\n") < _MOST_LINES
    is_typed_in = _COMMAND.match(text) and "?" not in text
    is_typed_in = is_typed_in or (bool(_PRINTED.search(text)) and "?" not in text)
    rest = _TABLE.sub("", blanked(text, (span for *_, span in given_in(text))))
    return is_short and not (is_typed_in or is_other(text) or _CODE.search(rest))


def _reading(
    asked: Question, found: Sequence[_Start], at: int, shares: Mapping[str, float]
) -> Reading:
    """Return one of the starts that a question asks for."""
    model, place, variant = found[at]
    quantities = asked.asked_first(_of_variant(asked, variant))
    load = loaded(quantities, place.terms)
    beside = {one.role: one.term for one in reversed(quantities)}
    place = with_taken(place, beside.get("taken"))
    place, copy_form, copy_note = one_copy(place, beside.get("copy"), asked.plain)
    arguments = copy_form | _given(asked, variant, place, beside.get("utilization"))
    arguments |= budget_of(place, beside.get("budget"))
    model = of_length(model, load.tokens)
    name, form, format_note = checkpoint_of(model.name, variant)
    arguments |= form
    arguments, layout_note = laid_out(name, place, arguments)
    if layout_note and words_of("copies").search(asked.rest):
        layout_note = _NOT_THE_COPIES
    load = loaded(
        quantities, place.terms, longest_of(name), arguments.get("max_model_len")
    )
    if not words_of("apart").search(asked.plain):
        load = of_one_copy(load, beside.get("copy"))
    if load.max_model_len is not None:
        arguments.setdefault("max_model_len", load.max_model_len)
    share = shares.get(model.name)
    if share is not None:
        arguments.setdefault("gpu_memory_utilization", share)
    items, item_note = items_of(quantities, name)
    if items:
        arguments.setdefault("limit_mm_per_prompt", items)
    left = list(_left(asked, quantities, load))
    ordered = sorted(asked.releases, key=lambda one: one.is_target)
    versions = tuple(dict.fromkeys(one.version for one in ordered))
    notes = (
        model.note if model.name else "",
        place.note,
        f"It shares the GPU: {share:.2f} of it are its own." if share else "",
        copy_note,
        layout_note,
        format_note,
        load.note,
        item_note,
        f"From vLLM {versions[0]} to {versions[1]}." if versions[1:] else "",
        *(f'"{one.written.strip()}" is left aside: {why}.' for one, why in left),
        *_other_devices(asked),
        *(f"{one.name} drafts 3 tokens: assumed." for one in asked.drafts[:1]),
        *(f"Not answered: {why}." for why in dict(asked.topics)),
    )
    has_more = bool(
        place.gpu or asked.refused or arguments or load.load or versions or format_note
    ) or (bool(name) and asked.has_words)
    intent = asked.intent if has_more or asked.intents else ""
    is_alone = not (name or model.note or _MODEL.search(asked.text))
    is_alone = is_alone and not asked.has_unknown_name
    if intent == "other" and place.gpu and is_alone:
        intent = "which_models"
    is_open = not name and not (intent == "which_models" and place.gpu)
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
        shown=_shown(name, place, variant if len(asked.variants) > 1 else ()),
        places=tuple(_account(asked, model, place, left)),
    )


def _given(
    asked: Question, variant: Variant, place: Place, share: Term | None
) -> dict[str, Any]:
    """Return the arguments that a question gives a start."""
    arguments = share_of(share) | {
        one.name: one.value for one in variant if one.name not in ("model", *CHOSEN)
    }
    for one in asked.drafts[:1]:
        arguments.setdefault("speculative_config", _DRAFT | {"model": one.name})
    if {"max_loras", "max_lora_rank"} & {*arguments}:
        arguments.setdefault("enable_lora", True)
    if asked.is_without_ranks and (place.total or 1) > 1:
        arguments.setdefault("pipeline_parallel_size", place.total)
    return arguments


def _shown(name: str, place: Place, variant: Variant) -> str:
    """Return what a start is called among the others of a question."""
    with_them = [
        f"{one.value}" if one.name in CHOSEN else f"{one.name}={one.value}"
        for one in variant
        if one.name != "model"
    ]
    whole = f"{name or 'a model'} on {place}" if place.gpu else name
    return ", ".join(filter(None, (whole, *with_them)))


def _of_variant(asked: Question, variant: Variant) -> list[Quantity]:
    """Return the numbers of a question but for those of its other starts."""
    own = {one.span for one in variant}
    all_options = [one for each in asked.variants for one in each]
    if any(one.name == "length" for one in variant):
        all_options += asked.lengths
    others = {one.span for one in all_options} - own
    spans = {(one.term.start, one.term.end): one for one in asked.quantities}
    return [one for span, one in spans.items() if span not in others]


def _left(
    asked: Question, quantities: Sequence[Quantity], load: Loaded
) -> Iterator[tuple[Term, str]]:
    """Yield the numbers that were not used, with why; what is said twice once."""
    used = (*load.terms, *(term for one in asked.places for term in one.terms))
    said = {(one.role, one.term.value) for one in quantities if one.term in used}
    roles = {role for role, _ in said}
    for one in quantities:
        what = (one.role, one.term.value)
        # `items_of` says it; what is numbered is not counted.
        is_item = one.role in ("image", "video", "audio", "index")
        is_item = is_item or (one.role == "rate" and is_rate_answered(asked))
        is_item = is_item or one.role in ("copy", "taken", "budget")
        is_item = is_item or bool(one.role == "utilization" and share_of(one.term))
        is_format = one.role == "bits" and one.term.value in BITS
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
    drafts = [(one.start, one.end) for one in asked.drafts]
    rows = (
        (Use.USED, [(span, "speculative_config") for span in drafts]),
        (Use.KEPT, [(span, "said not to be meant") for span in asked.denied]),
        (Use.KEPT, [(span, "what another asked") for span in asked.quoted]),
        (Use.USED, [(span, "gpu") for span in asked.lines]),
        (Use.USED, [(span, name) for name, _, span in (*asked.flags, *asked.formats)]),
        (Use.NOT_UNDERSTOOD, [(span, why) for why, span in asked.topics]),
        (Use.USED, [(one.span, "vllm_version") for one in asked.releases]),
    )
    for use, spans in rows:
        yield from (_piece(span, use, what) for span, what in spans)
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
