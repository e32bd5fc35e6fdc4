"""What each number of a question counts, by the words beside it.

A number belongs to the noun behind it, else to the one before it that no other number
has. One that belongs to nothing is said to be not understood.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest

from planner.reading.questions.question_words import Term, words_of
from planner.values import frozen

_LENGTHS = ("pool", "shared", "own", "prompt", "answer", "context")
_ITEMS = ("image", "video", "audio")
_MACHINE = ("card", "node", "unit", "gpu")
_NOUNS = (
    *("rate", *_LENGTHS, "token", "user", "concurrency", *_ITEMS, "ram", "vram"),
    *("utilization", "taken", "budget", "job", "copy", "frame", "part", *_MACHINE),
)
_COUNTS = ("user", "concurrency", "copy", *_ITEMS, *_MACHINE)
"""Nouns before which no letter stands: nobody has 8k GPUs."""
_IS = frozenset(
    ("is", "are", "=", ":", "today", "currently", "now", "ist", "est", "es")
)
"""What may stand between a noun and the number that it has."""
_BESIDE = ("loose", "times", "memory")
"""What may stand between a number and its noun."""
_UNITS = {
    "bytes": "bytes",
    "pixels": "pixels",
    "money": "money",
    "time": "time",
    "bits": "bits",
    "size": "size",
}
REACH = 8
"""Terms as far as a noun can stand from its number."""
_LEAST_TOKENS = 1000
"""With a letter behind it, such a number alone is a length: "at 32k"."""


@frozen
class Quantity:
    """A number of a text and what it counts."""

    term: Term
    role: str
    """A kind of noun, `length`, a unit, or `unknown`."""
    at: int
    """Its place among the terms."""
    noun: int | None = None
    """The noun's place among the terms."""


def quantities_in(terms: Sequence[Term], *, is_listed: bool = False) -> list[Quantity]:
    """Return what the numbers among terms count; of those in letters, the known ones.

    Where the GPUs are listed beside the text, "GPU 1" is one of them.

    >>> from planner.reading.questions.question_words import terms_of
    >>> found = quantities_in(terms_of("100k prompt tokens, 500 answer tokens"))
    >>> [(one.role, one.term.value) for one in found]
    [('prompt', 102400), ('answer', 500)]
    """
    taken: set[int] = set()
    found = []
    numbered = _numbered(terms, is_listed=is_listed)
    for at, term in enumerate(terms):
        if at in numbered:
            found.append(Quantity(term=term, role="index", at=at))
        elif term.kind == "number":
            one = _quantity(terms, at, taken)
            taken |= {one.noun} if one.noun is not None else set()
            if term.is_digits or one.role != "unknown":
                found.append(one)
    found = [_like_next(terms, *each) for each in zip_longest(found, found[1:])]
    found = [*found[:1], *(_restated(terms, *each) for each in pairwise(found))]
    return [_multiplied(terms, one) for one in found]


def _multiplied(terms: Sequence[Term], one: Quantity) -> Quantity:
    """Return a number that multiplies a length as requests: "4 x 32k", "32k x 4"."""
    behind_it = [x.kind for x in terms[one.at + 1 : one.at + 3]]
    if one.role == "concurrency" and behind_it == ["times", "concurrency"]:
        return replace(one, role="unknown")  # what vLLM logs: "5.6x concurrency"
    if one.role != "unknown" or one.term.letter or one.term.unit:
        return one
    is_product = [x.kind for x in terms[one.at + 3 : one.at + 4]] == ["times"]
    is_before = behind_it == ["times", "number"] and not is_product
    behind = terms[max(one.at - 3, 0) : one.at]
    if is_before and terms[one.at + 2].value >= _LEAST_TOKENS:
        return replace(one, role="user")
    is_length = any(x.kind == "number" and x.letter == "k" for x in behind)
    is_behind = behind[-1:] != [] and behind[-1].kind == "times" and is_length
    return replace(one, role="user") if is_behind else one


def _like_next(
    terms: Sequence[Term], one: Quantity, following: Quantity | None
) -> Quantity:
    """Return a number with what the one behind "or" counts: "10 or 40 users"."""
    if one.role != "unknown" or following is None or following.at != one.at + 2:
        return one
    between = terms[one.at + 1].written
    is_joined = words_of("or").fullmatch(between) is not None
    return replace(one, role=following.role) if is_joined else one


def _restated(terms: Sequence[Term], before: Quantity, one: Quantity) -> Quantity:
    """Return a size with what the one before its bracket is of: "RAM 16 GB (15 GB"."""
    if one.role != "memory" or before.role != "ram":
        return one
    between = [each.written for each in terms[before.at + 1 : one.at]]
    return replace(one, role="ram") if between == ["("] else one


def _numbered(terms: Sequence[Term], *, is_listed: bool) -> set[int]:
    """Return the numbers of single GPUs, "on GPU 0"; "GPU 4" alone counts them."""
    found = {
        at
        for at, term in enumerate(terms)
        if at and term.kind == "number" and terms[at - 1].written.lower() == "gpu"
        if term.start - terms[at - 1].end == 1 and not (term.unit or term.letter)
        if _after(terms, at) is None
    }
    is_sure = is_listed or any(terms[at].value == 0 for at in found)
    return found if is_sure else set()


def _quantity(terms: Sequence[Term], at: int, taken: set[int]) -> Quantity:
    term = terms[at]
    after, before = _after(terms, at), _before(terms, at)
    if term.unit in _UNITS:
        return Quantity(term=term, role=_UNITS[term.unit], at=at)
    if term.unit in ("memory", "percent"):
        return _measured(terms, at, after, before)
    if before in taken or not (term.is_digits or term.value >= _LEAST_TOKENS):
        before = None
    if after is not None and before is not None and _has_own(terms, after, before):
        after = None
    role, noun = _role(terms, at, after, before)
    return Quantity(term=term, role=role, at=at, noun=noun)


def _measured(
    terms: Sequence[Term], at: int, after: int | None, before: int | None
) -> Quantity:
    """Return what a size or a share is of; its noun stays free for another number."""
    wanted = {
        "memory": ("budget", "taken", "ram", "vram", "card"),
        "percent": ("utilization", "shared", "part"),
    }[terms[at].unit]
    for noun in (after, before):
        if noun is not None and terms[noun].kind in wanted:
            role = terms[noun].kind if terms[at].unit == "memory" else ""
            role = role if role in ("ram", "taken", "budget", "") else "vram"
            role = role or terms[noun].kind
            role = "share" if role == "shared" else role
            return Quantity(term=terms[at], role=role, at=at)
    return Quantity(term=terms[at], role=terms[at].unit, at=at)


def _role(
    terms: Sequence[Term], at: int, after: int | None, before: int | None
) -> tuple[str, int | None]:
    term = terms[at]
    kinds = {place: terms[place].kind for place in (after, before) if place is not None}
    if before == at - 1 and kinds[before] == "rate" and not term.letter:
        return "rate", before  # "a day 20,000 requests", as Chinese has it
    if after is not None and before is not None:
        is_weak = kinds[after] in ("card", "unit")
        after = None if is_weak and kinds[before] in _ITEMS else after
    if after is not None and kinds[after] == "token" and term.value > 1:
        return _of_tokens(terms, after, before)
    for noun in (after, before):
        is_counted = noun is not None and kinds[noun] in _COUNTS
        is_article = term.value == 1 and not term.is_digits
        if noun is None or (
            (is_counted or is_article) and not _is_count(term, kinds[noun])
        ):
            continue
        if noun == before and not _is_told(terms, noun, at):
            continue
        whose = terms[noun - 1].kind if noun == before and noun else ""
        if kinds[noun] == "token" and whose in ("prompt", "answer"):
            return whose, noun - 1  # "input tokens: 1000"
        role = "length" if kinds[noun] in ("token", "context") else kinds[noun]
        return role, noun
    is_long = term.letter == "k" and term.value >= _LEAST_TOKENS
    return ("length" if is_long else "unknown"), None


def _of_tokens(
    terms: Sequence[Term], token: int, before: int | None
) -> tuple[str, int | None]:
    """Return whose tokens they are: "500 tokens of prompt", "prompts of 500 tokens"."""
    behind = _after(terms, token, also=("link",))
    number = None if behind is None else _number_behind(terms, behind)
    is_free = number is None or _after(terms, number) is not None
    for noun in (before, behind if is_free else None):
        if noun is not None and terms[noun].kind in _LENGTHS:
            kind = terms[noun].kind
            return ("length" if kind == "context" else kind), noun
    return "length", token


def _is_count(term: Term, kind: str) -> bool:
    """Return whether a number counts things; an article counts machines alone."""
    is_article = term.value == 1 and not term.is_digits
    is_whole = isinstance(term.value, int) and not term.letter
    return is_whole and (not is_article or kind in _MACHINE)


def _is_told(terms: Sequence[Term], noun: int, at: int) -> bool:
    """Return whether a noun tells what the number behind it counts.

    "Users: 20" does, "how many users at 20" does not.
    """
    if terms[noun].kind in _LENGTHS or terms[noun].kind in ("utilization", "token"):
        return True
    between = {one.kind for one in terms[noun + 1 : at]}
    said = _IS | {"of"} if terms[noun].kind == "concurrency" else _IS
    is_said = all(x.written.lower() in said for x in terms[noun + 1 : at])
    is_plain = between <= {"sign"} or is_said or terms[noun].kind in _ITEMS
    return is_plain and terms[noun].kind not in ("gpu", "ram", "vram", "job")


def _has_own(terms: Sequence[Term], after: int, before: int) -> bool:
    """Return whether the noun behind a number has its number behind it: "in 2k out 1k".

    It then belongs to the noun before it.
    """
    kind = terms[before].kind
    is_other = kind in (*_LENGTHS, "user", "concurrency") and kind != terms[after].kind
    number = _number_behind(terms, after) if is_other else None
    return number is not None and _after(terms, number) is None


def _number_behind(terms: Sequence[Term], noun: int) -> int | None:
    for at in range(noun + 1, min(noun + REACH, len(terms))):
        if terms[at].kind == "number":
            return None if terms[at].unit == "pixels" else at
        if terms[at].kind not in ("link", "sign", "token"):
            return None
    return None


def _after(terms: Sequence[Term], at: int, also: tuple[str, ...] = ()) -> int | None:
    """Return the noun behind a number; one word that is not known may stand between."""
    words = 0
    for place in range(at + 1, min(at + REACH, len(terms))):
        term = terms[place]
        kind = term.unit or term.kind
        if term.kind in _NOUNS:
            return place
        words += term.kind == "word"
        is_between = kind in _BESIDE or kind in also
        if not is_between and (term.kind != "word" or words > 1):
            return None
    return None


def _before(terms: Sequence[Term], at: int) -> int | None:
    for place in range(at - 1, max(at - REACH, -1), -1):
        term = terms[place]
        if term.kind in _NOUNS:
            return place
        is_article = term.kind == "number" and not term.is_digits and term.value == 1
        if term.kind not in ("link", "sign", "times", "loose") and not is_article:
            return None
    return None


def numbers_before(terms: Sequence[Term], at: int) -> Iterator[int]:
    """Yield the places of the numbers right before a name, the nearest first."""
    for place in range(at - 1, max(at - REACH, -1), -1):
        term = terms[place]
        if term.kind == "number" and not term.unit:
            yield place
        elif (term.unit or term.kind) not in (*_BESIDE, "card", "unit", "node"):
            return
