"""A grid as lines: one figure against an argument, or against another figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.comparing.cells import VALUES, Cell, check_value
from planner.comparing.grid import Grid
from planner.errors import PlannerError

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

MOST_LINES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A grid as lines: what goes to the right, what goes up, one line per value."""

    grid: Grid
    x: str
    """An axis or a figure."""
    value: str
    """A figure."""
    lines: tuple[tuple[str, tuple[Cell, ...]], ...]
    """A label and its cells, in their order to the right; empty: the only line."""

    def x_of(self, cell: Cell) -> Any:  # noqa: ANN401 - of any argument's type
        """Return where a cell stands to the right."""
        names = [axis.name for axis in self.grid.axes]
        if self.x in names:
            return cell.values[names.index(self.x)]
        return cell.figure(self.x)

    @property
    def title(self) -> str:
        """What goes to the right, as a reader calls it."""
        is_axis = self.x in [axis.name for axis in self.grid.axes]
        return self.x if is_axis else VALUES[self.x].label

    def to_frame(self) -> DataFrame:
        """Return the grid as a pandas frame, one row per plan.

        Raises:
            PlannerError: when pandas is not installed.
        """
        return self.grid.to_frame()

    def figure(self) -> Figure:
        """Return the lines as a plotly figure.

        Raises:
            PlannerError: when plotly is not installed.
        """
        from planner.charts.curve import figure  # noqa: PLC0415

        return figure(self)

    def __str__(self) -> str:
        """Return the grid as text for a terminal."""
        return str(self.grid)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        return self.grid._repr_mimebundle_()


def lines_of(grid: Grid, value: str, x: str | None, color: str | None) -> Curve:
    """Cut a grid into lines.

    Raises:
        PlannerError: for unknown names or more than eight lines.
    """
    check_value(value)
    names = [axis.name for axis in grid.axes]
    if x is None:
        x = next((name for name in names if name != color), names[0])
    elif x not in names:
        check_value(x)
    if color is None:
        color = next((name for name in reversed(names) if name != x), None)
        color = color if len(names) > 1 else None
    elif color not in names:
        raise PlannerError(
            f"color={color!r}: this sweep is over {' and '.join(names)}."
        )
    _check_count(grid, color)
    return Curve(grid=grid, x=x, value=value, lines=_cut(grid, color))


def _check_count(grid: Grid, color: str | None) -> None:
    count = next((len(a.values) for a in grid.axes if a.name == color), 1)
    if count > MOST_LINES:
        raise PlannerError(
            f"A curve shows at most {MOST_LINES} lines, and {color} has {count} "
            "values: draw the other argument's lines with color=..., or heat_map()."
        )


def _cut(grid: Grid, color: str | None) -> tuple[tuple[str, tuple[Cell, ...]], ...]:
    if color is None:
        return (("", grid.cells),)
    at = [axis.name for axis in grid.axes].index(color)
    axis = grid.axes[at]
    size = len(axis.values)
    step = 1 if at == len(grid.axes) - 1 else len(grid.axes[1].values)
    return tuple(
        (
            label,
            tuple(
                cell
                for position, cell in enumerate(grid.cells)
                if position // step % size == number
            ),
        )
        for number, label in enumerate(axis.labels)
    )
