"""Lists of module names, shortened.

Quantised checkpoints have tens of thousands of names that differ in their numbers only:
braces hold the numbers, as in `layers.{0-59}.mlp.experts.{0-127}.w{1-3}`, and every
combination is meant.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import product
from typing import Any

_NUMBER = re.compile(r"(?<![0-9])(0|[1-9][0-9]*)(?![0-9])")
_BRACES = re.compile(r"\{([0-9,-]+)\}")
_PACKED = "{}"
"""Ends a key of which the value is packed."""

Row = tuple[frozenset[int], ...]


def with_names(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a file's content with the packed lists of modules written out.

    >>> with_names({"ignore{}": ["layers.{0-1}.mlp"]})
    {'ignore': ['layers.0.mlp', 'layers.1.mlp']}
    """
    if not isinstance(value, dict):
        return value
    return dict(_item(key, inner) for key, inner in value.items())


def _item(key: str, value: Any) -> tuple[str, Any]:  # noqa: ANN401 - any JSON
    if not key.endswith(_PACKED):
        return key, with_names(value)
    name = key.removesuffix(_PACKED)
    return name, _layers(value) if name == "quantized_layers" else unpack(value)


def _layers(packed: Iterable[tuple[Any, list[str]]]) -> dict[str, Any]:
    return {name: value for value, patterns in packed for name in unpack(patterns)}


def can_pack(names: Iterable[str]) -> bool:
    """Whether the names contain no braces (as regular expressions do)."""
    return not any("{" in name or "}" in name for name in names)


def pack(names: Iterable[str]) -> list[str]:
    """Return patterns that match exactly these names; the order is not kept."""
    rows: defaultdict[tuple[str, ...], set[tuple[int, ...]]] = defaultdict(set)
    for name in set(names):
        pieces = _NUMBER.split(name)
        rows[tuple(pieces[::2])].add(tuple(int(piece) for piece in pieces[1::2]))
    return sorted(
        _pattern(words, row) for words, found in rows.items() for row in _merge(found)
    )


def unpack(patterns: Iterable[str]) -> list[str]:
    """Return the names that the patterns match.

    >>> unpack(["lm_head", "layers.{0-1,4}.mlp"])
    ['lm_head', 'layers.0.mlp', 'layers.1.mlp', 'layers.4.mlp']
    """
    return [name for pattern in patterns for name in _expand(pattern)]


def _expand(pattern: str) -> Iterable[str]:
    pieces = _BRACES.split(pattern)
    if len(pieces) == 1:
        return (pattern,)
    choices = [
        [str(number) for number in _numbers(piece)] if index % 2 else [piece]
        for index, piece in enumerate(pieces)
    ]
    return map("".join, product(*choices))


def _numbers(ranges: str) -> Iterable[int]:
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _merge(found: set[tuple[int, ...]]) -> list[Row]:
    """Join number tuples that differ in one place only, place by place."""
    rows: list[Row] = [tuple(frozenset((n,)) for n in numbers) for numbers in found]
    for place in reversed(range(len(rows[0]))):
        joined: defaultdict[tuple[Row, Row], set[int]] = defaultdict(set)
        for row in rows:
            joined[row[:place], row[place + 1 :]] |= row[place]
        rows = [
            (*before, frozenset(numbers), *after)
            for (before, after), numbers in joined.items()
        ]
    return rows


def _pattern(words: tuple[str, ...], row: Row) -> str:
    pieces = [words[0]]
    for numbers, word in zip(row, words[1:], strict=True):
        pieces += [_ranges(numbers), word]
    return "".join(pieces)


def _ranges(numbers: frozenset[int]) -> str:
    if len(numbers) == 1:
        return str(*numbers)
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = (str(a) if a == b else f"{a}-{b}" for a, b in ranges)
    return "{" + ",".join(texts) + "}"
