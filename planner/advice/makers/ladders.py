"""Values to try, from the nearest to the farthest."""

from __future__ import annotations

from collections.abc import Iterator


def halves(below: int, least: int = 1) -> Iterator[int]:
    """Yield the powers of two below a number, largest first, down to `least`.

    >>> list(halves(24, 4))
    [16, 8, 4]
    """
    value = 1 << max(below - 1, 0).bit_length()
    while value > least:
        value //= 2
        if least <= value < below:
            yield value


def power_of_two_from(count: int) -> int:
    """Return the smallest power of two that is at least `count`.

    >>> [power_of_two_from(count) for count in (0, 1, 3, 8)]
    [1, 1, 4, 8]
    """
    return 1 << max(count - 1, 0).bit_length()
