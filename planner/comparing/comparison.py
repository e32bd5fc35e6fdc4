"""Plans side by side: what differs in the question, and what in the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from planner.comparing.commands import CommandDiff, command_diff
from planner.comparing.differing import Difference, differences, short_names
from planner.comparing.figures import Row, rows
from planner.errors import PlannerError
from planner.result import Plan

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

MOST_PLANS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Plans side by side; differences are to the first.

    Raises:
        PlannerError: for no plan, more than eight, or names that do not fit.
    """

    plans: tuple[Plan, ...]
    names: tuple[str, ...]
    """One per plan, all different."""

    def __post_init__(self) -> None:
        _check(self.plans, self.names)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The inputs that are not the same in all plans."""
        return differences(self.plans)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The figures of all plans, then the memory lines."""
        return rows(self.plans)

    def command_diff(self) -> tuple[CommandDiff, ...]:
        """Return what changes in the `vllm serve` line from the first to each other."""
        first, *others = zip(self.names, self.plans, strict=True)
        before = (first[0], first[1].command())
        return tuple(
            command_diff(before, (name, plan.command())) for name, plan in others
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; sizes in whole bytes, plans as the contract has them."""
        return {
            "names": list(self.names),
            "differences": {
                found.name: list(found.values) for found in self.differences
            },
            "rows": [
                asdict(row) | {"differences": list(row.differences)}
                for row in self.rows
            ],
            "commands": [plan.command() for plan in self.plans],
            "command_diffs": [str(found) for found in self.command_diff()],
            "plans": [plan.to_dict() for plan in self.plans],
        }

    def to_frame(self) -> DataFrame:
        """Return a pandas frame: figures down, plans across, then the differences."""
        from planner.presentation.comparison import frame  # noqa: PLC0415

        return frame(self)

    def figure(self) -> Figure:
        """Return the memory of all plans as bars on one axis."""
        from planner.charts.compared_bars import figure  # noqa: PLC0415

        return figure(self)

    def __str__(self) -> str:
        """Return the table as text for a terminal."""
        from planner.presentation.comparison import comparison_text  # noqa: PLC0415

        return comparison_text(self)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        from planner.presentation.comparison import mimebundle  # noqa: PLC0415

        return mimebundle(self)


def compare(*plans: Plan, names: Sequence[str] | None = None) -> Comparison:
    """Put plans side by side.

    Args:
        plans: one to eight of them; differences are to the first.
        names: one per plan; by default what differs, or letters.

    Raises:
        PlannerError: for no plan, more than eight, or names that do not fit.
    """
    _check(plans, tuple(names) if names is not None else None)
    return Comparison(
        plans=plans, names=short_names(plans) if names is None else tuple(names)
    )


def _check(plans: Sequence[Plan], names: Sequence[str] | None) -> None:
    for plan in plans:
        given: object = plan
        if not isinstance(given, Plan):
            raise PlannerError(
                f"compare() takes plans, not {type(given).__name__}: make one with "
                "planner.plan(model, gpu=...)."
            )
    if not 1 <= len(plans) <= MOST_PLANS:
        raise PlannerError(
            f"compare() takes 1 to {MOST_PLANS} plans; {len(plans)} were given. "
            "planner.sweep() shows many at once."
        )
    if names is None:
        return
    if len(names) != len(plans) or len(set(names)) != len(names):
        raise PlannerError(
            f"names={list(names)!r}: {len(plans)} different names are needed, one per "
            "plan."
        )
