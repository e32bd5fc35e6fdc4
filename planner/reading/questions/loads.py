"""What a question asks to serve: its numbers as a load, and what a request holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil

from planner.engine.human_numbers import human_int
from planner.errors import PlannerError
from planner.planning.load import Load
from planner.planning.planning import plan
from planner.reading.questions.quantities import Quantity
from planner.reading.questions.question_words import Term
from planner.units import counted
from planner.values import frozen

_ANSWER_SHARE = 4
"""Of a request's whole length, a quarter is taken for the answer."""
_USUAL_TOKENS = 4096
_ITEMS = ("image", "video", "audio")
_WHOLE = 100
_OF_ITEMS = "A length is that of text and {} together, as vLLM counts it."


@frozen
class Loaded:
    """What a question asks to serve."""

    load: Load | None = None
    max_model_len: int | None = None
    """Where it is not the length of the load's requests."""
    note: str = ""
    terms: tuple[Term, ...] = ()
    """The numbers that were used."""

    @property
    def tokens(self) -> int | None:
        """The longest request; None: no length is told or assumed."""
        told = None if self.load is None else self.load.request_tokens
        return self.max_model_len or told


def loaded(
    quantities: Sequence[Quantity],
    taken: Sequence[Term],
    longest: float | None = None,
    given: object = None,
) -> Loaded:
    """Return the load of a question, from its numbers but for those that are taken.

    Args:
        quantities: its numbers.
        taken: those that are used for something else.
        longest: the tokens that the model takes; "200k" are 200,000 where 204,800 are
            too many.
        given: the `max_model_len` that a flag has, if any: no request is longer.
    """
    first: dict[str, Term] = {}
    at_once = ("concurrency", "user")  # of 250 people who are there 30 ask at once
    for one in sorted(quantities, key=lambda one: one.role != at_once[0]):
        role = "user" if one.role in at_once else one.role
        is_whole = isinstance(one.term.value, int) or one.role == "part"
        is_whole = is_whole and one.term.value > 0
        if one.term not in taken and is_whole:
            first.setdefault(role, one.term)
    known: dict[str, Term] = {
        role: first[role]
        for role in ("user", "prompt", "answer", "length")
        if role in first
    }
    counts: dict[str, int] = {
        str(role): _count(term, longest) for role, term in known.items()
    }
    if isinstance(given, int) and "user" in counts:
        counts.setdefault("length", given)
    part = first.get("part")
    if part is not None and "user" in counts and part.value <= _WHOLE:
        counts["user"] = ceil(counts["user"] * part.value / _WHOLE)
        known["part"] = part
    own = first.get("own")
    if own is not None and "prompt" not in first:
        shared = _count(first["shared"], longest) if "shared" in first else 0
        known["prompt"], counts["prompt"] = own, _count(own, longest) + shared
    load, note = _load(counts, longest)
    if load is not None:
        load, known = _sharing(load, quantities, known)
    length = counts.get("length")
    if load is not None and length == load.request_tokens:
        length = None
    letters = " ".join(filter(None, (_letter(one, longest) for one in known.values())))
    ranges = "".join(
        f" Of {one.low} to {one.written.strip()} the most is planned for."
        for one in known.values()
        if one.low
    )
    return Loaded(
        load=load,
        max_model_len=length,
        note=f"{note} {letters}{ranges}".strip(),
        terms=tuple(known.values()),
    )


def of_one_copy(found: Loaded, term: Term | None) -> Loaded:
    """Return what one of several copies has to serve of a load."""
    load = found.load
    if term is None or load is None or term.value <= 1 or load.requests <= 1:
        return found
    requests = ceil(load.requests / term.value)
    note = f"{found.note} {requests:,} requests at once for each copy.".strip()
    return replace(found, load=replace(load, requests=requests), note=note)


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


def _load(counts: dict[str, int], longest: float | None) -> tuple[Load | None, str]:
    """Return the load, and what was assumed for it."""
    users = counts.get("user")
    prompt, answer = counts.get("prompt"), counts.get("answer")
    if users is None and prompt is None and answer is None:
        return None, ""
    length = counts.get("length")
    usual = _USUAL_TOKENS if longest is None else int(min(_USUAL_TOKENS, longest))
    whole, note = length or usual, ""
    if prompt is None and answer is None:
        answer = whole // _ANSWER_SHARE
        prompt = max(whole - answer, 1)
        assumed = "" if length else f" of {whole:,} tokens, which is assumed"
        who = counted(users or 1, "requests")
        note = f"{who} at once{assumed}, a quarter of each for the answer."
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


def _count(term: Term, longest: float | None) -> int:
    """Return a number of tokens; its letter is a power of 1,000 where 1,024 is much."""
    by_thousands = term.value * 1000 // 1024
    is_much = term.letter == "k" and longest is not None and term.value > longest
    return int(by_thousands if is_much and by_thousands <= longest else term.value)


def _letter(term: Term, longest: float | None) -> str:
    """Say how a letter after a number is read where a flag of vLLM has another rule."""
    written, count = term.written.strip(), _count(term, longest)
    if not term.letter or human_int(written) == count:
        return ""
    number = human_int(written)
    flags = "refuse it" if number is None else f"read {number:,}"
    return f"{written} is read as {count:,} tokens; vLLM's flags {flags}."


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
        return items, _OF_ITEMS.format(", ".join(items))
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
