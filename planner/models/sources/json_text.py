"""JSON that others wrote: read where it has no more values than published files have.

A value takes many times as much memory as its text: a list, written in 3 bytes, takes
64. So they are counted before any is made.
"""

from __future__ import annotations

from planner.errors import PlannerError

MOST_VALUES = 250_000
"""Of a config; the largest published ones list 100,000 modules."""
_MARKS = (",", "[", "{")


def check_values(text: str | bytes, where: str, most_values: int = MOST_VALUES) -> None:
    """Refuse a JSON text with too many values, before any is made.

    Args:
        text: the JSON.
        where: the file, for the sentence.
        most_values: counted by commas and brackets, those within texts too.

    Raises:
        PlannerError: naming the file.
    """
    if _num_marks(text) > most_values:
        raise PlannerError(
            f"{where} has more than {most_values:,} values, the most that is read: no "
            "published model's has as many. Download the file again."
        )


def _num_marks(text: str | bytes) -> int:
    if isinstance(text, str):
        return sum(map(text.count, _MARKS))
    return sum(text.count(mark.encode()) for mark in _MARKS)
