"""A question taken apart: its names, formats and releases, and what is between."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from planner.reading.logs.pages import gpu_at, gpus_beside
from planner.reading.questions.devices import (
    Place,
    cards_by_memory,
    device_terms,
    listed_place,
    mixed,
    places_in,
)
from planner.reading.questions.named import NamedModel, is_part_of
from planner.reading.questions.naming import (
    foreign_words,
    formats_in,
    models_named_in,
    plain_text,
    quoted_in,
    releases_in,
)
from planner.reading.questions.noted import changed_in, given_in, meanings_in
from planner.reading.questions.options import (
    Option,
    Variant,
    compares,
    is_joined_by_and,
    is_joined_by_or,
    variants,
)
from planner.reading.questions.quantities import Quantity, quantities_in
from planner.reading.questions.question_words import (
    Term,
    asking_in,
    asks_to_hold,
    blanked,
    half_width,
    intents_in,
    is_denied,
    is_of_planning,
    terms_of,
    words_of,
)
from planner.reading.sign_table import signs
from planner.reading.starts.around import why_not_planned

_LONGEST = re.compile(
    r"context|ctx|max|long|tokens?|kontext|contexte|contexto|contesto|上下文|长度|コンテ|контекст"
    r"|컨텍스트|문맥",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"\b(?!I\b|GPUs?\b|LLMs?\b|KV\b|VRAM\b)[A-Z][\w.-]*(?: [A-Z+])", re.ASCII
)
_DRAFT = re.compile(r"\b(?:draft(?:er|ing)?|speculat\w+)[\w -]*\Z", re.IGNORECASE)
_FOR = re.compile(r"\b(?:for|of|to|with) \Z")
_AS_DRAFT = re.compile(r" (?:as|como|comme) (?:\w+ )?(?:draft|Draft)")
_RANKS = re.compile(r"tensor[ -]?parallel\w*|\bTP\b(?! ?[=\d])|张量并行", re.IGNORECASE)
_LISTED_GPUS = re.compile(r"^[\w .()-]*?(?:\b(?:and|und|et|y|e)\b|[+&和与とy])[\w .]*$")
"""What stands between GPUs that are counted together."""
_BESIDE = 24
_BEGINS = re.compile(
    r"\s*(?:is|are|can|could|does|do|will|would|should|kann|passt|reicht|puedo|puede)\s",
    re.IGNORECASE,
)
"""What begins a question that has no mark."""
_ALONE = 160
"""Letters of a complaint that is no part of a longer text."""
CHOSEN = ("length", "user", "concurrency")
"""Numbers of which a question may name several, to be told for each."""
BITS = {4: "GPTQ-Int4", 8: "GPTQ-Int8"}


class Question:
    """A text taken apart: names first, then the words and numbers between them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.page, self.lines = gpus_beside(text)
        plain = plain_text(half_width(blanked(text, self.lines)))
        self.quoted = quoted_in(plain)
        self.plain = blanked(plain, self.quoted)
        self.denied: list[tuple[int, int]] = []
        mentions = list(models_named_in(self.plain))
        rest = blanked(self.plain, ((one.start, one.end) for one in mentions))
        devices = device_terms(rest)
        planned = [(o.start, o.end) for o in devices if o.kind != "device"]
        other = next((str(o.value) for o in devices if o.kind == "device"), "")
        self.refused = why_not_planned(blanked(rest, planned)) or other
        rest = blanked(rest, ((one.start, one.end) for one in devices))
        changed = list(changed_in(rest))
        rest = blanked(rest, (span for *_, span in changed))
        given = list(given_in(rest))
        rest = blanked(rest, (span for *_, span in given))
        flags = [*changed, *given]
        self.releases = list(releases_in(rest))
        rest = blanked(rest, (one.span for one in self.releases))
        formats = list(formats_in(rest))
        self.rest = blanked(rest, (span for *_, span in formats))
        meant = [one for one in mentions if self._is_meant_at(one.start, one.end)]
        meant = meant or mentions  # of another program, and of vLLM then
        whole = [one for one in meant if one.name]
        meant = [o for o in meant if not any(is_part_of(o, each) for each in whole)]
        drafts = [one for one in meant if self._is_draft(one)]
        self.drafts = drafts if len(drafts) < len(meant) else drafts[1:]
        self.mentions = [one for one in meant if one not in self.drafts]
        self.devices = [o for o in devices if self._is_meant_at(o.start, o.end)]
        # "0.95 instead of 0.9" asks for both.
        self.flags = [o for o in flags if o in changed or self._is_meant_at(*o[2])]
        self.formats = [one for one in formats if self._is_meant_at(*one[2])]

    def _is_meant_at(self, start: int, end: int) -> bool:
        """Whether a name is not denied; where it is, it is kept in mind."""
        if not is_denied(self.plain, start, end):
            return True
        self.denied.append((start, end))
        return False

    def _is_draft(self, one: NamedModel) -> bool:
        """Whether a model drafts for the one named before it."""
        before = self.plain[max(one.start - _BESIDE, 0) : one.start]
        is_before = _DRAFT.search(before) is not None and not _FOR.search(before)
        return is_before or _AS_DRAFT.match(self.plain, one.end) is not None

    @property
    def is_without_ranks(self) -> bool:
        """Whether it says that it wants no tensor parallelism."""
        found = _RANKS.finditer(self.plain)
        return any(is_denied(self.plain, *match.span()) for match in found)

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
        found = quantities_in(self.terms, is_listed=self.page is not None)
        indices = [one for one in found if one.role == "index"]
        for first, one in pairwise(indices):
            between = self.plain[first.term.end : one.term.start]
            if words_of("elsewhere").search(between):
                found[found.index(one)] = replace(one, role="elsewhere")
        return found

    def asked_first(self, quantities: Sequence[Quantity]) -> list[Quantity]:
        """Return numbers with the lengths of the sentence that asks before others."""
        asking = list(asking_in(self.plain))
        return sorted(
            quantities,
            key=lambda one: (
                one.role == "length"
                and not any(start <= one.term.start < end for start, end in asking)
            ),
        )

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Its GPUs."""
        if self.page is not None and self.page.gpu is not None:
            place = listed_place(self.page, self.quantities)
            numbers = [o.term.value for o in self.quantities if o.role == "index"]
            own = gpu_at(self.text, numbers)
            return (replace(place, gpu=own, note="") if own else place,)
        found = places_in(self.terms, self.quantities)
        if self._is_mixed(found):
            found = (mixed(found),)
        is_named = any(one.kind in ("gpu", "machine") for one in self.devices)
        is_card = any(cards_by_memory(self.terms, self.quantities))
        is_used = "why" in self.intents and not is_card  # memory in use is no GPU
        return found if is_named or not (self.refused or is_used) else ()

    def _is_mixed(self, places: Sequence[Place]) -> bool:
        """Whether GPUs of several kinds are to run one model together."""
        between = [
            self.plain[max(x.end for x in one.terms) : min(x.start for x in two.terms)]
            for one, two in pairwise(places)
            if one.terms and two.terms
        ]
        is_listed = all(_LISTED_GPUS.search(one) for one in between)
        is_sum = is_listed and all(one.strip() == "+" for one in between)
        wanted = words_of("mixed").search(self.plain) or any(
            name == "tensor_parallel_size" for name, *_ in self.flags
        )
        is_all = len(between) > 0 and (is_sum or all(one.count for one in places))
        return is_all and is_listed and (is_sum or bool(wanted))

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """The arguments and formats of each start that it asks for, at least one."""
        named = [
            Option(name=name, value=value, span=span)
            for name, value, span in (*self.flags, *self.formats)
        ]
        bits = [
            Option(
                name="model",
                value=BITS[one.term.value],
                span=(one.term.start, one.term.end),
            )
            for one in self.quantities
            if one.role == "bits" and one.term.value in BITS
        ]
        is_told = any(one.name == "model" for one in named)
        options = named if is_told else [*named, *bits]
        if not self.models:
            return (tuple({one.name: one for one in reversed(options)}.values()),)
        return variants(
            self.plain,
            [*options, *self._numbers_to_choose],
            compares_releases="upgrade" in self.intents or len(self.releases) > 1,
        )

    @property
    def lengths(self) -> list[Option]:
        """The length behind each model of a list; none where they have no own."""
        terms = [one.term for one in self.quantities if one.role == "length"]
        found = [
            Option(name="length", value=one.written, span=(one.start, one.end))
            for one in terms
        ]
        both = [(one.start, 0) for one in self.models] + [(x.start, 1) for x in terms]
        order = [kind for _, kind in sorted(both)]
        is_each = len(terms) > 1 and order == [0, 1] * len(terms)
        return found if is_each else []

    @property
    def _numbers_to_choose(self) -> Iterator[Option]:
        """Lengths and users of which a text names several, joined by "or"."""
        for role in CHOSEN:
            terms = [one.term for one in self.quantities if one.role == role]
            joined = [
                {first, second}
                for first, second in pairwise(terms)
                if first.value != second.value
                and is_joined_by_or(self.plain[first.end : second.start])
            ]
            for term in terms:
                if any(term in pair for pair in joined):
                    yield Option(
                        name=role, value=term.written, span=(term.start, term.end)
                    )

    @cached_property
    def is_together(self) -> bool:
        """Whether its models are to share the GPUs, not to be chosen from."""
        known = [one for one in self.mentions if one.name]
        if len({one.name for one in known}) < 2:  # noqa: PLR2004 - one shares nothing
            return False
        between = [self.plain[one.end : two.start] for one, two in pairwise(known)]
        if any(map(is_joined_by_or, between)) or compares(self.plain):
            return False
        is_one = len(self.places) == 1 and self.places[0].count == 1
        is_listed = any(is_joined_by_and(one) for one in between)
        return (is_one and is_listed) or bool(words_of("together").search(self.plain))

    @cached_property
    def topics(self) -> tuple[tuple[str, tuple[int, int]], ...]:
        """What it asks that no plan answers: why not, and where it stands."""
        drafts = any(name == "speculative_config" for name, *_ in self.formats)
        is_known = bool(self.drafts) or drafts
        plain = words_of("speculation").sub("", self.plain) if is_known else self.plain
        return (*self.foreign, *topics_in(plain))

    @cached_property
    def foreign(self) -> tuple[tuple[str, tuple[int, int]], ...]:
        """The words of a language that is not read, where it is in one."""
        return tuple(foreign_words(self.rest))

    @cached_property
    def intents(self) -> dict[str, bool]:
        """What it may ask, and whether a sentence asks it."""
        return {"other": True} if self.foreign else intents_in(self.rest)

    @property
    def intent(self) -> str:
        """What it asks."""
        if len({one.version for one in self.releases}) > 1:
            return "upgrade"
        meant = [*filter(self._is_meant, self.intents)]
        told = (one for one in meant if one == "why" or self.intents[one])
        kind = next(told, "".join(meant[:1]))
        if kind == "why" and "speed" in self.intents:
            return "speed"  # "12 tokens a second: is that normal?"
        if kind in ("fits", "") and self.has_users and asks_to_hold(self.plain):
            return "users"
        usual = "fits" if self.models else "other"
        if kind == "other" and self.has_users and "fits" in self.intents:
            return usual if not _LONGEST.search(self.plain) else kind
        if kind == "which_gpu" and self.models and self.places:
            return usual  # of those that it names
        return {"which_gpu": "cheapest"}.get(kind, kind) or usual

    def _is_meant(self, kind: str) -> bool:
        """Whether a word for what may be asked is one here."""
        if kind == "which_models":
            return not any(one.name for one in self.models)
        return kind != "speed" or self._is_speed

    @property
    def has_words(self) -> bool:
        """Whether it asks something in words, beside what it names."""
        return "?" in self.plain and re.search(r"[^\W\d_]{3}", self.rest) is not None

    @property
    def has_unknown_name(self) -> bool:
        """Whether something may be a model's name that is none here: "Command R+"."""
        first = re.match(r"\W*\w+(?=\W+(?:[a-z]|\Z))", self.rest)
        rest = blanked(self.rest, [first.span()] if first else [])
        return _NAME.search(rest) is not None

    @property
    def has_users(self) -> bool:
        """Whether it says how many are served at once."""
        return any(one.role in ("user", "concurrency") for one in self.quantities)

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
        asks = asks or _BEGINS.match(self.plain) is not None
        if self.models:
            is_all = not self.rest.strip(" \n.:;,!")
            return asks or is_all or has_device or self.has_load
        if has_device:
            return asks or self.plain.strip()[-1:] not in ".!"
        if any(one.role == "size" for one in self.quantities):
            return asks or is_of_planning(self.plain)
        is_clear = any(asks for kind, asks in self.intents.items() if kind != "fits")
        # "It takes all my memory", alone, wants to know why.
        is_clear = is_clear or ("why" in self.intents and len(self.plain) <= _ALONE)
        is_named = asks and next(meanings_in(self.plain), None) is not None
        return is_named or (is_clear and is_of_planning(self.plain))

    @property
    def has_load(self) -> bool:
        """Whether it says what is served, in any number."""
        known = ("user", "concurrency", "prompt", "answer", "length", "rate")
        return any(one.role in known for one in self.quantities)


def topics_in(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield what a text asks that no plan answers: why not, and where it stands.

    >>> [why.partition(":")[0] for why, _ in topics_in("Can I fine-tune it?")]
    ['training is not planned']
    """
    for kind, why in signs("not answered").items():
        match = words_of(kind).search(text)
        if match is not None:
            yield why, match.span()


def releases_asked(text: str) -> tuple[str | None, str | None]:
    """Return the releases between which a question goes; None where it tells none."""
    found = Question(text).releases
    first = next((one.version for one in found if not one.is_target), None)
    last = next((one.version for one in reversed(found) if one.version != first), None)
    return first, last
