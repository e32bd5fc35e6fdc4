"""Bytes together with the arithmetic that gives them."""

from __future__ import annotations

from dataclasses import dataclass

from planner.result import Basis, Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """A size, and how it comes about."""

    size_bytes: int
    why: str = ""
    """Empty where nothing is held."""


NOTHING = Sized(size_bytes=0)


def larger(sizes: list[Sized]) -> Sized:
    """Return the largest of some sizes, nothing where there are none."""
    return max(sizes, key=lambda sized: sized.size_bytes, default=NOTHING)


def ranged_line(name: str, sizes: tuple[int, int, int], basis: Basis, why: str) -> Line:
    """Return a line of the account; `sizes` are its low end, its middle, its high."""
    low, middle, high = sizes
    return Line(
        name=name,
        size_bytes=middle,
        low_bytes=low,
        high_bytes=high,
        basis=basis,
        why=why,
    )
