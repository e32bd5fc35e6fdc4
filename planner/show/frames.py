"""Tables: plans and confirmations as pandas frames, and rows as columns of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from planner.errors import PlannerError
from planner.surroundings import is_in_browser
from planner.units import GIB

if TYPE_CHECKING:
    import pandas as pd

    from planner.confirming.confirmation import Confirmation
    from planner.planning.result import Plan

COLUMNS = (
    "pp_rank",
    "line",
    "size_bytes",
    "low_bytes",
    "high_bytes",
    "gib",
    "basis",
    "why",
)
COMPARISON_COLUMNS = (
    "figure",
    "unit",
    "estimated",
    "low",
    "high",
    "measured",
    "difference",
    "is_inside",
    "basis",
)


def plan_frame(plan: Plan) -> pd.DataFrame:
    """Return one row per memory line and pipeline stage.

    Raises:
        PlannerError: when pandas is not installed.
    """
    return make_frame(_rows(plan), COLUMNS)


def confirmation_frame(confirmation: Confirmation) -> pd.DataFrame:
    """Return one row per figure that was estimated or measured."""
    names = COMPARISON_COLUMNS[1:]
    rows = [
        (row.name, *(getattr(row, name) for name in names)) for row in confirmation.rows
    ]
    return make_frame(rows, COMPARISON_COLUMNS)


def frame_of(
    rows: Sequence[Mapping[str, object]], names: Sequence[str] = ()
) -> pd.DataFrame:
    """Return a frame of rows by name, with these columns, else those of the first row.

    Raises:
        PlannerError: when pandas is not installed.
    """
    columns = names or list(rows[0])
    return make_frame([[row[name] for name in columns] for row in rows], columns)


def make_frame(
    rows: Sequence[Sequence[object]], columns: Sequence[str]
) -> pd.DataFrame:
    """Return a pandas frame whose column index has a name.

    Without the name the top left cell of the table is empty, and a screen reader
    announces nothing there.

    Raises:
        PlannerError: when pandas is not installed.
    """
    if is_in_browser():
        raise PlannerError(
            "to_frame() needs pandas, which the browser edition does not have."
        )
    try:
        import pandas as pd  # noqa: PLC0415 - optional
    except ImportError as error:
        raise PlannerError(
            "to_frame() needs pandas. Run: pip install 'vllm-memory-planner[notebook]'"
        ) from error
    return pd.DataFrame(rows, columns=pd.Index(columns, name="column"))


def columns(rows: Iterable[Sequence[str]], sides: str = "<>") -> list[str]:
    """Write a table's rows, each column as wide as its widest cell.

    `sides` has a sign for each column: "<" aligns it left, ">" right. The last sign
    applies to all columns that follow.

    >>> columns([("", "tokens"), ("A", "8")])
    ['   tokens', 'A       8']
    >>> columns([("", "state"), ("A", "fits")], "<")
    ['   state', 'A  fits']
    """
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    signs = sides.ljust(len(widths), sides[-1])
    formats = [f"{sign}{width}" for sign, width in zip(signs, widths, strict=False)]
    return ["  ".join(map(format, row, formats)).rstrip() for row in cells]


def _rows(plan: Plan) -> list[tuple[object, ...]]:
    return [
        (
            rank.pp_rank,
            line.name,
            line.size_bytes,
            line.low_bytes,
            line.high_bytes,
            line.size_bytes / GIB,
            str(line.basis),
            line.why,
        )
        for rank in plan.ranks
        for line in rank.lines
    ]
