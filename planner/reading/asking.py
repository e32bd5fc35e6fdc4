"""Questions in words, as "will Llama 3.3 70B run on two RTX 3090s, for 20 users?".

A question names its model by the words of the name, and GPUs, context and users in
words too, in six languages. What was taken for what is said in notes, and so is what
the planner cannot use: a question is no command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any

from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.models.catalogue import find
from planner.reading.account import Piece, Use
from planner.reading.around import why_not_planned
from planner.reading.devices import Place, device_terms, places_in
from planner.reading.loads import Loaded, items_of, loaded
from planner.reading.named import NamedModel, mentions_in
from planner.reading.noted import given_in, is_other
from planner.reading.quantities import Quantity, quantities_in
from planner.reading.question_words import (
    Term,
    asks_to_hold,
    blanked,
    half_width,
    intents_in,
    is_of_planning,
    terms_of,
)
from planner.reading.reading import NOT_NAMED, Kind, Reading, without_gpu
from planner.values import frozen

_LONGEST = 2_000
"""Characters; a longer text is no question."""
_MOST_LINES = 12
_CODE = re.compile(
    r"^[ \t]*(?:import \w|from [\w.]+ import|def \w|class \w|[\w-]+:\s*$|#!)"
    r"|[{}]|<[/!]?[a-zA-Z][^<>]*>|\w\([^)]*[\"']|=\s*[\"']",
    re.MULTILINE,
)
"""Signs of code, of a configuration or of markup: no question."""
_RELEASE = re.compile(
    r"(?P<lead>\bv?llm(?:==|[ -]?v?)|\bversion |\brelease |[\s(]v|\bv)?"
    r"(?<![A-Za-z0-9.,])(?P<release>0\.\d{1,2}(?P<patch>\.\d{1,2})?(?:\.?(?:post|rc)\d{1,2})?)"
    r"(?!\.?\d|[A-Za-z])",
    re.IGNORECASE,
)
_FORMATS = (
    ("kv_cache_dtype", "fp8_e5m2", r"fp8_?e5m2[\s_-]*kv\w*|kv[\s_-]*cache\s*fp8_?e5m2"),
    (
        "kv_cache_dtype",
        "fp8",
        r"fp8[\s_-]*(?:e4m3\s*|的\s*)?(?:kv(?:[\s_-]*cache)?|cache kv)"
        r"|(?:kv[\s_-]*(?:cache|缓存|キャッシュ)?|cache kv)[\w\s-]{0,12}?fp8",
    ),
    ("model", "NVFP4", r"\bnvfp4\b"),
    ("model", "AWQ", r"\bawq\b"),
    ("model", "GPTQ-Int4", r"\bgptq\b|\bint4\b|\bw4a16\b|\bq4(?:_k(?:_[sml])?)?\b"),
    ("model", "FP8", r"\bfp8\b"),
    ("model", "GPTQ-Int8", r"\bint8\b|\bw8a8\b|\bq8(?:_0)?\b"),
    ("dtype", "bfloat16", r"\bbf(?:loat)?16\b"),
    (
        "dtype",
        "float16",
        r"\b(?:fp|float)16\b|\bhalf precision\b",
    ),
)
"""Words for a format, and the argument that has it."""
_BITS = {4: "GPTQ-Int4", 8: "GPTQ-Int8"}
_LEFT = {
    "rate": "a rate: how many run at once follows from it and the speed. Give the "
    "requests at once",
    "share": "a share that prompts have alike: requests are counted at full length",
    "shared": "tokens that requests share: requests are counted at full length",
    "ram": "memory of the processor, which is not planned by a question",
    "time": "a time, and no plan is made for one",
    "money": "a price, and the search has prices of its own",
    "size": "the size of a model that is not named",
    "memory": "memory that belongs to nothing named here",
    "percent": "a share that belongs to nothing named here",
}
_ALTERNATIVE = "another number for what one is planned for: ask for each"
_UNKNOWN = "a number that belongs to nothing that is asked"
_NO_MODEL = NamedModel(name="", written="")


@frozen
class _Release:
    version: str
    span: tuple[int, int]


class _Question:
    """A text taken apart: names first, then the words and numbers between them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.plain = half_width(text)
        self.mentions = mentions_in(self.plain)
        rest = blanked(self.plain, ((one.start, one.end) for one in self.mentions))
        self.devices = device_terms(rest)
        self.refused = why_not_planned(rest)
        rest = blanked(rest, ((one.start, one.end) for one in self.devices))
        self.flags = list(given_in(rest))
        rest = blanked(rest, (span for *_, span in self.flags))
        self.releases = list(_releases(rest))
        rest = blanked(rest, (one.span for one in self.releases))
        self.formats = list(_formats(rest))
        self.rest = blanked(rest, (span for *_, span in self.formats))

    @cached_property
    def models(self) -> tuple[NamedModel, ...]:
        """The models, each once."""
        first = {one.name or one.written: one for one in reversed(self.mentions)}
        return tuple(sorted(first.values(), key=lambda one: one.start))

    @cached_property
    def terms(self) -> list[Term]:
        """Everything in the text, with what is named in its place."""
        names = [Term(kind="named", start=s, end=e, written="") for s, e in self._named]
        return terms_of(self.rest, [*self.devices, *names])

    @property
    def _named(self) -> Iterator[tuple[int, int]]:
        yield from ((one.start, one.end) for one in self.mentions)
        yield from (span for *_, span in (*self.flags, *self.formats))
        yield from (one.span for one in self.releases)

    @cached_property
    def quantities(self) -> list[Quantity]:
        """Its numbers and what they count."""
        return quantities_in(self.terms)

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Its GPUs."""
        found = places_in(self.terms, self.quantities)
        is_described = any(one.kind in ("gpu", "machine") for one in self.devices)
        return found if is_described or not self.refused else ()

    @cached_property
    def intents(self) -> dict[str, bool]:
        """What it may ask, and whether a sentence asks it."""
        return intents_in(self.rest)

    @property
    def intent(self) -> str:
        """What it asks."""
        if len({one.version for one in self.releases}) > 1:
            return "upgrade"
        has_users = any(one.role in ("user", "concurrency") for one in self.quantities)
        for kind in self.intents:
            if kind == "which_models" and any(one.name for one in self.models):
                continue
            if kind == "which_gpu":
                return "cheapest"
            if kind == "speed" and not self._is_speed:
                continue
            if kind == "fits" and has_users and asks_to_hold(self.plain):
                return "users"
            return kind
        if has_users and asks_to_hold(self.plain):
            return "users"
        return "fits" if self.models else "other"

    @property
    def _is_speed(self) -> bool:
        """Whether it asks for a speed, and does not name a rate that is wanted."""
        return self.intents["speed"] or not any(
            one.role == "rate" for one in self.quantities
        )

    @property
    def is_asked(self) -> bool:
        """Whether the text asks something of the planner, and not something else."""
        has_device = bool(self.places or self.refused)
        asks = any(self.intents.values()) or "?" in self.plain
        if self.models:
            is_all = not self.rest.strip(" \n.:;,!")
            return asks or is_all or has_device or bool(self._load_words)
        if has_device:
            return asks or self.plain.strip()[-1:] not in ".!"
        is_clear = any(asks for kind, asks in self.intents.items() if kind != "fits")
        return is_clear and is_of_planning(self.plain)

    @property
    def _load_words(self) -> list[Quantity]:
        known = ("user", "concurrency", "prompt", "answer", "length")
        return [one for one in self.quantities if one.role in known]


def questions_in(text: str) -> tuple[Reading, ...]:
    """Return a reading for each model and each GPU that a question names.

    >>> [one.shown for one in questions_in("Does Qwen3 8B fit on a T4 or two L4?")]
    ['Qwen/Qwen3-8B on 1 x T4', 'Qwen/Qwen3-8B on 2 x L4']
    """
    if not _is_prose(text):
        return ()
    asked = _Question(text)
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


def releases_asked(text: str) -> tuple[str, ...]:
    """Return the releases of vLLM that a question names, in its order."""
    found = _Question(text).releases
    return tuple(dict.fromkeys(one.version for one in found))


def _is_prose(text: str) -> bool:
    is_short = len(text) <= _LONGEST and text.strip().count("\n") < _MOST_LINES
    return is_short and not is_other(text) and not _CODE.search(text)


def _releases(text: str) -> Iterator[_Release]:
    """Yield releases: 0.11.0 always, 0.11 beside vLLM's name or another release."""
    found = list(_RELEASE.finditer(text))
    is_sure = any(match["patch"] or match["lead"] for match in found)
    for match in found if is_sure else ():
        yield _Release(version=match["release"], span=match.span())


def _formats(text: str) -> Iterator[tuple[str, str, tuple[int, int]]]:
    for name, value, sign in _FORMATS:
        match = re.search(sign, text, re.IGNORECASE | re.ASCII)
        if match is not None:
            text = blanked(text, [match.span()])
            yield name, value, match.span()


def _reading(asked: _Question, model: NamedModel, place: Place) -> Reading:
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
    versions = tuple(dict.fromkeys(one.version for one in asked.releases))
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
        places=tuple(_account(asked, model, place, [one for one, _ in left])),
    )


def _layout(place: Place, given: dict[str, Any]) -> dict[str, Any]:
    """Return how one copy of a model is split over GPUs; what is given stays."""
    stages = given.get("pipeline_parallel_size", place.nodes)
    copies = given.get("data_parallel_size", 1)
    within = (place.total or 1) // max(stages * copies, 1)
    sizes = {"tensor_parallel_size": within, "pipeline_parallel_size": stages}
    return {name: size for name, size in sizes.items() if size > 1}


def _checkpoint(asked: _Question, model: NamedModel) -> tuple[str, str]:
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


def _left(asked: _Question, load: Loaded) -> Iterator[tuple[Term, str]]:
    """Yield the numbers that were not used, with why."""
    places = [term for one in asked.places for term in one.terms]
    used = (*load.terms, *places)
    for one in asked.quantities:
        is_item = one.role in ("image", "video", "audio")  # `items_of` says it
        is_format = one.role == "bits" and one.term.value in _BITS
        if not one.term.is_digits or is_item or is_format or one.term in used:
            continue
        alike = {each.role for each in asked.quantities if each.term in load.terms}
        why = _LEFT.get(one.role, _ALTERNATIVE if one.role in alike else _UNKNOWN)
        yield one.term, why


def _other_devices(asked: _Question) -> Iterator[str]:
    """Yield the devices that are not planned for, beside the first."""
    said = {asked.refused.partition(" ")[2]}
    for one in asked.devices:
        what = str(one.value).rpartition("' is ")[2]
        if one.kind == "device" and not any(what in each for each in said):
            said.add(what)
            yield str(one.value)


def _account(
    asked: _Question, model: NamedModel, place: Place, left: Sequence[Term]
) -> Iterator[Piece]:
    """Yield what became of the names and numbers of a question."""
    for one in asked.mentions:
        is_meant = (one.name or one.written) == (model.name or model.written)
        use = Use.USED if is_meant else Use.KEPT
        use = use if one.name else Use.OPEN
        yield _piece(one.start, one.end, use, "model" if is_meant else _OTHER_START)
    for term in asked.devices:
        is_meant = term in place.terms
        use = Use.USED if is_meant else Use.KEPT
        use = Use.NOT_UNDERSTOOD if term.kind == "device" else use
        yield _piece(term.start, term.end, use, "gpu" if is_meant else _OTHER_START)
    for name, _, span in (*asked.flags, *asked.formats):
        yield _piece(*span, Use.USED, name)
    for release in asked.releases:
        yield _piece(*release.span, Use.USED, "vllm_version")
    yield from _numbers(asked.quantities, asked.terms, left)


_OTHER_START = "of another start in the text"


def _numbers(
    quantities: Iterable[Quantity], terms: Sequence[Term], left: Sequence[Term]
) -> Iterator[Piece]:
    for one in quantities:
        end = (
            one.term.end if one.noun is None else max(terms[one.noun].end, one.term.end)
        )
        use = Use.NOT_UNDERSTOOD if one.term in left else Use.USED
        if one.role == "unknown":
            end = one.term.end
        yield _piece(one.term.start, end, use, one.role)


def _piece(start: int, end: int, use: Use, what: str) -> Piece:
    return Piece(start=start, end=end, use=use, what=what)


def gpu_name(gpu: str | GPU | None) -> str:
    """Return a GPU's name."""
    return gpu.name if isinstance(gpu, GPU) else gpu or ""
