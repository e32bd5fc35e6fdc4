"""What a question would choose between: "fp8 or AWQ", "TP 2 vs PP 2", with and without.

Options that a text joins by "or", and values of one argument, exclude each other: each
combination of the rest is a start of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Any

from planner.reading.questions.question_words import words_of
from planner.values import frozen

_MOST = 6
"""Starts that one question is answered for."""
_LONGEST = 36
"""Characters between two options that a text joins."""
_WEIGHTS = ("model", "dtype", "quantization")
"""Of the formats of the weights a start has one."""


@frozen
class Option:
    """A value of an argument, or a format, where a text names it."""

    name: str
    """The argument; `model` for the format of a checkpoint."""
    value: Any
    span: tuple[int, int]


Variant = tuple[Option, ...]
"""Options that one start has together."""


def compares(text: str) -> bool:
    """Return whether a text asks what something changes."""
    return words_of("compares").search(text) is not None


def is_joined_by_or(between: str) -> bool:
    """Return whether what stands between two names says that one of them is meant."""
    return words_of("or").search(between) is not None


def is_joined_by_and(between: str) -> bool:
    """Return whether nothing but a word for "and" stands between two names."""
    return words_of("and").fullmatch(between.strip(" ,&+")) is not None


def variants(
    text: str, options: Sequence[Option], *, compares_releases: bool = False
) -> tuple[Variant, ...]:
    """Return the options of each start that a text asks for; one without any is ().

    Where a text compares, and has one option, the start without it is the other; it may
    compare releases of vLLM instead.

    >>> fp8 = Option(name="kv_cache_dtype", value="fp8", span=(0, 3))
    >>> variants("fp8 on an L4?", [fp8])
    ((Option(name='kv_cache_dtype', value='fp8', span=(0, 3)),),)
    """
    groups = list(_groups(text, sorted(options, key=lambda one: one.span)))
    is_alone = len(groups) == 1 and len(groups[0]) == 1
    if is_alone and compares(text) and not compares_releases:
        return ((), tuple(groups[0]))
    return tuple(product(*groups))[:_MOST]


def _groups(text: str, options: Sequence[Option]) -> Iterator[list[Option]]:
    """Yield the options of which a start has one."""
    left = list(options)
    excluded = {
        second.span
        for first, second in pairwise(options)
        if _exclude(text, first, second)
    }
    while left:
        group = [left.pop(0)]
        for one in list(left):
            is_next = one.span in excluded and _is_behind(options, group[-1], one)
            if is_next or any(one.name == each.name for each in group):
                left.remove(one)
                if all((one.name, one.value) != (x.name, x.value) for x in group):
                    group.append(one)
        yield group


def _is_behind(options: Sequence[Option], first: Option, second: Option) -> bool:
    return (first, second) in pairwise(options)


def _is_change(between: str) -> bool:
    """Return whether one is to take the other's place: "from BF16 to FP8"."""
    return (
        re.fullmatch(r"\W*(?:to|->|→|auf|zu|vers|à|a|到|换成)\W*", between) is not None
    )


def _exclude(text: str, first: Option, second: Option) -> bool:
    """Return whether a text names an option and the next as alternatives."""
    between = text[first.span[1] : second.span[0]]
    if len(between) <= _LONGEST and is_joined_by_or(between):
        return True
    both = {first.name, second.name}
    if both <= {*_WEIGHTS} and _is_change(between):
        return True
    is_listed = is_joined_by_and(between) or not re.search(r"\w", between)
    return is_listed and compares(text) and (len(both) == 1 or both <= {*_WEIGHTS})
