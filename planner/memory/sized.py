"""Bytes together with the arithmetic that gives them."""

from __future__ import annotations

from dataclasses import dataclass


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
