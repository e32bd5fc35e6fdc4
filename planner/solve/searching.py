"""The edge between what serves and what does not, found by trying.

Bisection alone relies on one edge. Blocks round, capture sizes come and go, defaults
switch: so beyond the edge the numbers 2, 3, 5, 9, ... further are tried as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache


def largest(
    serves: Callable[[int], bool], least: int, most: int, guess: int | None = None
) -> int:
    """Return a number that serves while the next larger one does not.

    `least` - 1 when `least` does not serve; `most` when all do. No number that lies 2,
    3, 5, 9, ... beyond the answer serves either.

    >>> largest(lambda number: number * number <= 2000, 1, 1000)
    44
    """
    known = cache(serves)
    edge = _edge(known, least, most, least if guess is None else guess)
    while edge >= least:
        beyond = _serving_beyond(known, edge, most)
        if beyond is None:
            break
        edge = _edge(known, least, most, beyond)
    return edge


def smallest(
    serves: Callable[[int], bool], least: int, most: int, guess: int | None = None
) -> int:
    """Return a number that serves while the next smaller one does not.

    `most` + 1 when `most` does not serve; `least` when all do.

    >>> smallest(lambda number: number * number > 2000, 1, 1000)
    45
    """
    mirrored = None if guess is None else -guess
    return -largest(lambda number: serves(-number), -most, -least, mirrored)


def _edge(serves: Callable[[int], bool], least: int, most: int, guess: int) -> int:
    """Walk from the guess in doubling steps to both sides of an edge, then halve."""
    low = high = min(max(guess, least), most)
    step = 1
    if serves(low):
        while serves(high):
            if high == most:
                return most
            low, high = high, min(high + step, most)
            step *= 2
    else:
        while not serves(low):
            if low == least:
                return least - 1
            low, high = max(low - step, least), low
            step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if serves(middle) else (low, middle)
    return low


def _serving_beyond(serves: Callable[[int], bool], edge: int, most: int) -> int | None:
    step = 1
    while edge + 1 + step <= most:
        if serves(edge + 1 + step):
            return edge + 1 + step
        step *= 2
    return None
