"""Whole numbers rounded up."""

from __future__ import annotations


def ceil_div(value: int, by: int) -> int:
    """Return how many pieces of `by` hold `value`."""
    return -(-value // by)


def round_up(value: int, to: int) -> int:
    """Return the next multiple of `to`."""
    return ceil_div(value, to) * to
