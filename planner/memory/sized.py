"""A number of bytes together with the arithmetic behind it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.memory.account import Basis, Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """A size and its arithmetic."""

    size_bytes: int
    why: str = ""
    """Empty where the size is 0."""


NOTHING = Sized(size_bytes=0)


def larger(sizes: list[Sized]) -> Sized:
    """Return the largest of the sizes; NOTHING for an empty list."""
    return max(sizes, key=lambda sized: sized.size_bytes, default=NOTHING)


def ranged_line(name: str, sizes: tuple[int, int, int], basis: Basis, why: str) -> Line:
    """Return a line of the account; `sizes` are its low end, middle and high end."""
    low, middle, high = sizes
    return Line(
        name=name,
        size_bytes=middle,
        low_bytes=low,
        high_bytes=high,
        basis=basis,
        why=why,
    )
