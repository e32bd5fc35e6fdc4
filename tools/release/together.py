"""Bodies that are one reading: who reads one of them reads the others with it.

Bodies with the same edit; a function that came with the only body that calls it, for
its statements were or would be there; the methods of one name of classes of one name,
for vLLM has two model runners and a rule about one asks about the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tools.release.differing import Difference
from tools.release.reach import Mentions

_MOST_TWINS = 3
"""More classes than that share a name by chance, as `Attention.forward` does."""


def together(found: Sequence[Difference], words: Mentions) -> list[list[Difference]]:
    """Return the bodies, those that are read together in one list.

    Args:
        found: bodies that no machine closed.
        words: what each function of the new release mentions.
    """
    of: dict[str, list[Difference]] = {one.key: [one] for one in found}
    for one, other in (*_alike(found), *_helpers(found, words), *_twins(found)):
        kept, more = of[one.key], of[other.key]
        if kept is not more:
            kept += more
            of.update((body.key, kept) for body in more)
    return list({id(bodies): bodies for bodies in of.values()}.values())


def edit_of(one: Difference) -> tuple[tuple[str, ...], ...]:
    """Return the words that went and those that came."""
    return tuple(tuple(each.text for each in part) for part in one.edit)


def is_telling(name: str) -> bool:
    """Whether a function's name is its own: one of two words, not `forward`."""
    return "_" in name.strip("_") and not name.startswith("__")


def defined(words: Mentions) -> Counter[str]:
    """Return how many functions and classes have each name."""
    return Counter(key.rpartition("::")[2].rpartition(".")[2] for key in words)


def _pairs(
    named: Iterable[tuple[object, Difference]], most: int
) -> Iterator[tuple[Difference, Difference]]:
    groups: dict[object, list[Difference]] = {}
    for name, one in named:
        groups.setdefault(name, []).append(one)
    for first, *others in groups.values():
        if len(others) < most:
            yield from ((first, other) for other in others)


def _alike(found: Sequence[Difference]) -> Iterator[tuple[Difference, Difference]]:
    return _pairs(((edit_of(one), one) for one in found), len(found))


def _twins(found: Sequence[Difference]) -> Iterator[tuple[Difference, Difference]]:
    named = ((one.name, one) for one in found if one.name.strip(".").count(".") == 1)
    return _pairs(named, _MOST_TWINS)


def _helpers(
    found: Sequence[Difference], words: Mentions
) -> Iterator[tuple[Difference, Difference]]:
    names = defined(words)
    came = {
        one.last: one
        for one in found
        if one.how == "came" and not one.is_constant and is_telling(one.last)
        if names[one.last] == 1
    }
    callers: dict[str, list[str]] = {}
    for key, mentioned in words.items():
        for name in mentioned & came.keys():
            if key != came[name].key and not key.endswith("::"):
                callers.setdefault(name, []).append(key)
    by_key = {one.key: one for one in found}
    for name, (first, *others) in callers.items():
        if not others and first in by_key:
            yield by_key[first], came[name]
