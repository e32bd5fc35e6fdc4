"""A plan as a pandas table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import PlannerError
from planner.units import GIB

if TYPE_CHECKING:
    import pandas as pd

    from planner.result import Plan

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


def plan_frame(plan: Plan) -> pd.DataFrame:
    """Return one row per memory line and pipeline stage.

    Raises:
        PlannerError: when pandas is not installed.
    """
    try:
        import pandas as pd  # noqa: PLC0415 - optional
    except ImportError as error:
        raise PlannerError(
            "to_frame() needs pandas. Run: pip install 'vllm-memory-planner[app]'"
        ) from error
    return pd.DataFrame(_rows(plan), columns=list(COLUMNS))


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
