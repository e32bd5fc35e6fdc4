"""The plans of a sweep as a grid of cells, and the grid cut into lines for a chart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.models.architecture import ModelArchitecture
from planner.planning.inputs import Inputs
from planner.planning.result import Plan
from planner.solve.comparing.cells import VALUES, Cell, check_value
from planner.values import frozen
from planner.views import Charted, Framed, charts_of

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

MOST_LINES = 8


@frozen
class Axis:
    """One swept argument and its values."""

    name: str
    values: tuple[Any, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The values as text."""
        return tuple(label_of(value) for value in self.values)


@frozen
class Grid(Framed):
    """The plans of a sweep over one or two arguments.

    Each cell holds the figures of its plan; `plan` makes the plan itself again.
    """

    inputs: Inputs
    """The inputs that all plans share."""
    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]
    """The last axis changes fastest."""

    def cell(self, **values: object) -> Cell:
        """Return the cell of these values, one per axis.

        Raises:
            PlannerError: for other arguments, or values that are not in the sweep.
        """
        number = 0
        self._check_names(values)
        for axis in self.axes:
            if values[axis.name] not in axis.values:
                raise PlannerError(
                    f"{axis.name}={values[axis.name]!r} is not in this sweep, which "
                    f"has {', '.join(axis.labels)}."
                )
            number = number * len(axis.values) + axis.values.index(values[axis.name])
        return self.cells[number]

    def plan(self, **values: Any) -> Plan:  # noqa: ANN401 - vLLM's own types
        """Make the plan of one cell again.

        Raises:
            PlannerError: for other arguments, or input that cannot be planned.
        """
        self._check_names(values)
        return self.inputs.changed(**values).plan()

    def _check_names(self, values: Mapping[str, object]) -> None:
        names = [axis.name for axis in self.axes]
        if set(values) != set(names):
            raise PlannerError(
                f"This sweep is over {' and '.join(names)}: give "
                f"{' and '.join(f'{name}=...' for name in names)}."
            )

    def rows(self) -> list[dict[str, Any]]:
        """Return one mapping per cell: arguments, verdict, error and figures."""
        names = [axis.name for axis in self.axes]
        found = []
        for cell in self.cells:
            facts = asdict(cell)
            del facts["values"]
            arguments = {
                f"{name} (given)" if name in facts else name: plain(value)
                for name, value in zip(names, cell.values, strict=True)
            }
            found.append({**arguments, "fits": cell.fits, **facts})
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; sizes in whole bytes."""
        return {
            "model": label_of(self.inputs.model),
            "gpu": label_of(self.inputs.gpu),
            "vllm_version": self.inputs.vllm_version,
            "engine_args": {
                name: plain(value) for name, value in self.inputs.engine_args.items()
            },
            "over": {
                axis.name: [plain(value) for value in axis.values] for axis in self.axes
            },
            "cells": self.rows(),
        }

    def heat_map(self, value: str = "max_concurrency") -> Figure:
        """Return a figure's values as a plotly heat map.

        Raises:
            PlannerError: for an unknown figure, too many cells to draw, or no plotly.
        """
        check_value(value)
        return charts_of(self).heat_map(self, value)

    def curve(
        self,
        value: str = "max_concurrency",
        x: str | None = None,
        color: str | None = None,
    ) -> Figure:
        """Return a figure's values as lines in plotly, one line per value of `color`.

        Args:
            value: figure on the vertical axis.
            x: axis or figure on the horizontal axis; by default the first axis.
            color: axis with one line per value; by default the other one.

        Raises:
            PlannerError: for unknown names, more than eight lines, or no plotly.
        """
        return self.lines(value, x, color).figure()

    def lines(
        self,
        value: str = "max_concurrency",
        x: str | None = None,
        color: str | None = None,
    ) -> Curve:
        """Return the lines that `curve` draws.

        Raises:
            PlannerError: for unknown names or more than eight lines.
        """
        return lines_of(self, value, x, color)


@frozen
class Curve(Charted):
    """A grid as lines: one figure over an argument or over another figure."""

    grid: Grid
    x: str
    """The axis or figure on the horizontal axis."""
    value: str
    """The figure on the vertical axis."""
    lines: tuple[tuple[str, tuple[Cell, ...]], ...]
    """Label and cells of each line, in order; the label of a single line is empty."""

    def x_of(self, cell: Cell) -> Any:  # noqa: ANN401 - of any argument's type
        """Return a cell's horizontal coordinate."""
        names = [axis.name for axis in self.grid.axes]
        if self.x in names:
            return cell.values[names.index(self.x)]
        return cell.figure(self.x)

    @property
    def title(self) -> str:
        """Title of the horizontal axis."""
        is_axis = self.x in [axis.name for axis in self.grid.axes]
        return self.x if is_axis else VALUES[self.x].label

    def to_frame(self) -> DataFrame:
        """Return the grid as a pandas frame, one row per plan.

        Raises:
            PlannerError: when pandas is not installed.
        """
        return self.grid.to_frame()

    def __str__(self) -> str:
        """Return the grid as text for a terminal."""
        return str(self.grid)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        return self.grid._repr_mimebundle_()


def label_of(value: object) -> str:
    """Write a value of an argument.

    >>> label_of(None), label_of(131072), label_of((1, 2))
    ('default', '131,072', '1 2')
    """
    if value is None:
        return "default"
    if isinstance(value, GPU | ModelArchitecture):
        return value.name
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return str(value)


def plain(value: object) -> object:
    """Return a value of an argument as plain data for JSON and frames."""
    if isinstance(value, GPU | ModelArchitecture):
        return value.name
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def lines_of(grid: Grid, value: str, x: str | None, color: str | None) -> Curve:
    """Split a grid into lines.

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
