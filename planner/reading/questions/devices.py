"""The machines that a question names: which GPU, how many of it, on how many nodes.

And GPUs by their memory: of a log that names none, of "a 24 GB card".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.engine.generations import AMPERE
from planner.engine.gpu import GPU, catalogue
from planner.reading.questions.gpu_words import (
    gpus_written_in,
    is_of_size,
    with_memory,
)
from planner.reading.questions.quantities import (
    REACH,
    Quantity,
    numbers_before,
)
from planner.reading.questions.question_words import Term, blanked, words_of
from planner.reading.starts.around import machines_in, not_planned_in, why_unknown
from planner.reading.starts.images import gpu_named_in
from planner.solve.price_list import list_prices
from planner.units import GIB, format_gib
from planner.values import frozen

if TYPE_CHECKING:
    from planner.reading.reading import Reading

_SLICE = re.compile(r"(?:MIG[\s-]?)?\b(\dg\.\d{1,3}gb)\b", re.IGNORECASE)
"""A part of a GPU, by its profile."""
_BESIDE_MEMORY = ("link", "sign", "loose")


@frozen
class Place:
    """A GPU that a question names, and how many."""

    gpu: str | GPU | None = None
    count: int | None = None
    nodes: int = 1
    note: str = ""
    terms: tuple[Term, ...] = ()
    """The name, the size and the numbers in the text."""

    def __str__(self) -> str:
        name = self.gpu.name if isinstance(self.gpu, GPU) else str(self.gpu)
        return f"{self.total} x {name}" if self.total else name

    @property
    def total(self) -> int | None:
        """GPUs of all nodes; None where the text does not say."""
        return None if self.count is None else self.count * self.nodes

    @property
    def card(self) -> GPU:
        """The GPU itself, where the text names one."""
        return self.gpu if isinstance(self.gpu, GPU) else GPU.named(str(self.gpu))


def device_terms(text: str) -> list[Term]:
    """Return the GPUs and machines of a text, and the devices that no plan is for.

    The value of the latter is why.
    """
    found = [
        _term("machine", text, *span, value=machine)
        for machine, span in machines_in(text)
    ]
    text = blanked(text, ((one.start, one.end) for one in found))
    part = _SLICE.search(text)
    for one in gpus_written_in(text):
        gpu = one.gpu
        part_of = gpu_named_in(f"{one.name}-MIG-{part[1].lower()}") if part else None
        if part_of is not None and part is not None:
            found.append(_term("named", text, *part.span(), value=part_of))
            gpu = part_of
        if gpu is not None:
            found.append(_term("gpu", text, *one.span, value=gpu))
        elif one.is_bare:
            found.append(_term("device", text, *one.span, value=why_unknown(one.name)))
    text = blanked(text, ((one.start, one.end) for one in found))
    for name, span in not_planned_in(text):
        found.append(_term("device", text, *span, value=why_unknown(name)))
    return found


def _term(kind: str, text: str, start: int, end: int, value: object) -> Term:
    return Term(kind=kind, start=start, end=end, written=text[start:end], value=value)


def listed_place(page: Reading, quantities: Sequence[Quantity]) -> Place:
    """Return the GPUs that `nvidia-smi` lists: all, or those that a text numbers."""
    place = _with_loose_counts(
        Place(gpu=page.gpu, note=" ".join(page.notes)), quantities
    )
    return replace(place, count=place.count or page.gpus)


def places_in(
    terms: Sequence[Term], quantities: Sequence[Quantity]
) -> tuple[Place, ...]:
    """Return each GPU once, with its size and numbers; else one of the named memory."""
    found: dict[str, Place] = {}
    roles = {one.at: one.role for one in quantities}
    for at, term in enumerate(terms):
        if term.kind == "machine":
            machine = term.value
            place = Place(gpu=machine.gpu, count=machine.gpus, terms=(term,))
            found.setdefault(machine.gpu, _of_machines(place, terms, at))
        elif term.kind == "gpu":
            place = Place(gpu=term.value, terms=(term,))
            place = _sized(_counted(place, terms, at, roles), terms, at)
            for one in _fewer(place, terms):
                found.setdefault(str(one), one)
            found.setdefault(str(replace(place, count=None)), place)
    found = {
        name: one for name, one in found.items() if not _is_named_again(one, found)
    }
    if len(found) == 1:
        (place,) = found.values()
        return (_with_loose_counts(place, quantities, terms),)
    return tuple(found.values()) or _of_memory(terms, quantities)


def _is_named_again(place: Place, others: Mapping[str, Place]) -> bool:
    """Return whether a GPU is named with nothing else, and so is another with more."""
    name = place.terms[0].written.lower()
    return len(place.terms) == 1 and any(
        one.terms[0].written.lower() == name and len(one.terms) > 1
        for one in others.values()
    )


def _fewer(place: Place, terms: Sequence[Term]) -> Iterator[Place]:
    """Yield a GPU with the smaller number that a text gives it: "1 or 2 L40S"."""
    count = next((one for one in place.terms[1:] if one.value is place.count), None)
    if count is None or not place.count:
        return
    at = terms.index(count)
    is_joined = at > 1 and words_of("or").fullmatch(terms[at - 1].written) is not None
    is_number = is_joined and terms[at - 2].kind == "number" and not terms[at - 2].unit
    low = terms[at - 2].value if is_number else count.low
    if 0 < low < place.count:
        used = (*place.terms, terms[at - 2]) if is_number else place.terms
        yield replace(place, count=low, terms=used)


def mixed(places: Sequence[Place]) -> Place:
    """Return GPUs of several kinds as so many of the smallest, which vLLM fits all to.

    Source: vLLM 0.33.0 v1/core/kv_cache_utils.py `get_kv_cache_configs`: the ranks have
    the number of blocks of the one that has fewest.
    """
    least = min((one.card for one in places), key=lambda one: one.total_memory_bytes)
    names = " and ".join(map(str, places))
    count = sum(one.total or 1 for one in places)
    told = f"ranks hold the same, so it is planned on {count} x {least.name}."
    return Place(
        gpu=least,
        count=count,
        note=f"{names}: {told}",
        terms=tuple(term for one in places for term in one.terms),
    )


def _of_machines(place: Place, terms: Sequence[Term], at: int) -> Place:
    """Return a machine of a cloud with the number before it as nodes."""
    number = next(numbers_before(terms, at), None)
    if number is None:
        return place
    term = terms[number]
    return replace(place, nodes=term.value, terms=(*place.terms, term))


def _sized(place: Place, terms: Sequence[Term], at: int) -> Place:
    """Return a GPU with the size of its memory: "A100 with 40 GB", "40GB A100".

    A size that no such GPU is sold with is its own, as of a "2080 Ti 22G", unless it is
    that of all of them together.
    """
    size = _size_beside(terms, at)
    if size is None:
        return place
    gpu, note = with_memory(terms[at].written, terms[at].value, size.value)
    whole = place.total or 1
    if note and is_of_size(terms[at].value, size.value / whole):
        gpu, note = terms[at].value, ""
    if gpu is None:
        return place
    return replace(place, gpu=gpu, note=note, terms=(*place.terms, size))


def _size_beside(terms: Sequence[Term], at: int) -> Term | None:
    for step in (1, -1):
        place = at + step
        near = range(max(at - REACH, 0), min(at + REACH, len(terms)))
        while place in near and terms[place].kind in _BESIDE_MEMORY:
            place += step
        if place in near and terms[place].unit == "memory":
            behind = terms[place + 1].kind if place + 1 < len(terms) else ""
            if behind != "ram":
                return terms[place]
    return None


def _counted(
    place: Place, terms: Sequence[Term], at: int, roles: dict[int, str]
) -> Place:
    """Return a GPU with the numbers before it, else the one behind it."""
    before = [one for one in numbers_before(terms, at) if _is_number(terms[one])]
    is_of_nodes = at + 1 < len(terms) and terms[at + 1].kind == "node"
    if before and _is_article(terms[before[0]]):  # "an A100 x 2"
        behind = _count_behind(terms, at, roles)
        before = [behind] if behind is not None else before
    count = before[0] if before else _count_behind(terms, at, roles)
    if count is None:
        return place
    nodes = before[1] if len(before) > 1 and is_of_nodes else None
    taken = [terms[one] for one in (count, nodes) if one is not None]
    return replace(
        place,
        count=terms[count].value,
        nodes=1 if nodes is None else terms[nodes].value,
        terms=(*place.terms, *taken),
    )


def _is_article(term: Term) -> bool:
    return term.value == 1 and not term.is_digits


def _is_number(term: Term) -> bool:
    return isinstance(term.value, int) and not term.letter and term.value > 0


def _count_behind(terms: Sequence[Term], at: int, roles: dict[int, str]) -> int | None:
    """Return the number behind a GPU: "H100 x 4", "H100 を 2 枚", "4090 两张"."""
    is_times = False
    for place in range(at + 1, min(at + REACH, len(terms))):
        term = terms[place]
        if term.kind == "number" and not term.unit:
            is_count = is_times or roles.get(place) in ("card", "unit")
            return place if is_count and _is_number(term) else None
        if (term.unit or term.kind) not in ("times", "memory", *_BESIDE_MEMORY):
            return None
        is_times = is_times or term.kind == "times"
    return None


def _is_spread(terms: Sequence[Term], node: Quantity) -> bool:
    """Return whether the GPUs are counted over all nodes: "16 across 2 nodes"."""
    before = terms[max(node.at - 2, 0) : node.at]
    return any(words_of("across").fullmatch(one.written) for one in before)


def _with_loose_counts(
    place: Place, quantities: Sequence[Quantity], terms: Sequence[Term] = ()
) -> Place:
    """Return the only GPU of a text with the GPUs and nodes counted elsewhere in it."""
    rest = [one for one in quantities if one.term not in place.terms]
    cards = [one for one in rest if one.role == "card"]
    nodes = [one for one in rest if one.role in ("node", "unit")]
    article = place.count == 1 and not any(one.is_digits for one in place.terms)
    if cards and (place.count is None or article):
        card = cards[0].term
        place = replace(place, count=card.value, terms=(*place.terms, card))
    indices = [one for one in rest if one.role == "index"]
    if indices and place.count is None:
        numbers = tuple(one.term for one in indices)
        count = len({one.value for one in numbers})
        return replace(place, count=count, terms=(*place.terms, *numbers))
    if nodes and place.count is None and nodes[0].role == "unit":
        unit = nodes[0].term
        return replace(place, count=unit.value, terms=(*place.terms, unit))
    if nodes and place.count is not None and place.nodes == 1:
        node = nodes[0]
        count = place.count
        if _is_spread(terms, node) and place.count % node.term.value == 0:
            count //= node.term.value
        place = replace(
            place,
            count=count,
            nodes=node.term.value,
            terms=(*place.terms, node.term),
        )
    return place


def _of_memory(
    terms: Sequence[Term], quantities: Sequence[Quantity]
) -> tuple[Place, ...]:
    """Return the GPU that is planned for "24 GB of VRAM"."""
    sized = {one.role: one for one in reversed(quantities)}
    found = next(cards_by_memory(terms, quantities), None)
    found = found or sized.get("vram") or sized.get("memory")
    if any(one.kind == "total" for one in terms):  # of several GPUs together
        return ()
    alike = gpus_of_gib(int(found.term.value)) if found else []
    if found is None or not alike:
        return ()
    first, *others = alike
    also = f"; so have {', '.join(others)}" if others else ""
    number = next(numbers_before(terms, found.at), None)
    counted = [terms[number]] if number is not None else []
    place = Place(
        gpu=first,
        count=counted[0].value if counted else None,
        note=f"{_with_noun(terms, found)}: planned on {first}{also}.",
        terms=(found.term, *counted),
    )
    return (_with_loose_counts(place, quantities),)


def cards_by_memory(
    terms: Sequence[Term], quantities: Sequence[Quantity]
) -> Iterator[Quantity]:
    """Yield the sizes that are a card's name: "my 24 GB card"."""
    for one in quantities:
        behind = [each.kind for each in terms[one.at + 1 : one.at + 2]]
        if one.role == "vram" and behind == ["card"]:
            yield one


def _with_noun(terms: Sequence[Term], found: Quantity) -> str:
    behind = terms[found.at + 1 : found.at + 2]
    nouns = (one.written for one in behind if one.kind in ("vram", "card"))
    return " ".join((found.term.written, *nouns))


_SAME_SIZE = 0.2 * GIB, 0.005
"""How far totals of one kind of GPU are apart, in bytes or as a share: drivers differ.

Source: published logs with 23.65 and 23.52 GiB of an RTX 4090, and with 179.06 and
178.35 GiB of a B200.
"""


def gpus_of_gib(size: int) -> list[str]:
    """Return the GPUs that are sold with so many GB, and report a little less."""
    return of_size(round(0.96 * size * GIB), within=round(0.06 * size * GIB))


def of_size(
    total: int, *, within: int | None = None, is_bfloat16: bool = True
) -> list[str]:
    """Return the GPUs of a size: what one can rent first, then the newest."""
    rented = list_prices().prices
    least, share = _SAME_SIZE
    apart = max(least, share * total) if within is None else within
    found = [
        gpu
        for gpu in catalogue()
        if not gpu.mig_profile
        and abs(gpu.total_memory_bytes - total) <= apart
        and (gpu.compute_capability >= AMPERE or not is_bfloat16)
    ]
    found.sort(
        key=lambda gpu: (
            gpu.name not in rented,
            -gpu.compute_capability[0],
            -gpu.compute_capability[1],
        )
    )
    return [gpu.name for gpu in found]


def same_size_words(names: Sequence[str], total: int) -> str:
    """Say which of several GPUs with the same memory was taken."""
    first, *others = names
    also = f", and so have {', '.join(others)}" if others else ""
    return (
        f"The text names no GPU. {first} has the {format_gib(total)} that it reports"
        f"{also}: planned on {first} unless another is named."
    )
