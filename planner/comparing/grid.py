"""A sweep's plans as a grid: what was swept over, and the figures of every plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from planner.comparing.cells import Cell, check_value
from planner.errors import PlannerError
from planner.gpu import GPU
from planner.inputs import Inputs
from planner.model import ModelArchitecture
from planner.result import Plan

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from planner.comparing.lines import Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One argument that was swept over."""

    name: str
    values: tuple[Any, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The values as text."""
        return tuple(label_of(value) for value in self.values)


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
    """Return a value of an argument as JSON and a frame can hold it."""
    if isinstance(value, GPU | ModelArchitecture):
        return value.name
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The plans of a sweep over one argument, or over two.

    Each cell holds the figures of its plan; `plan` makes the plan itself again.
    """

    inputs: Inputs
    """What all plans share."""
    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]
    """The last axis changes fastest."""

    def cell(self, **values: object) -> Cell:
        """Return the cell of these values, one per axis.

        Raises:
            PlannerError: for other arguments, or values that were not swept over.
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

    def to_frame(self) -> DataFrame:
        """Return a pandas frame, one row per plan.

        Raises:
            PlannerError: when pandas is not installed.
        """
        from planner.presentation.grid import frame  # noqa: PLC0415

        return frame(self)

    def heat_map(self, value: str = "max_concurrency") -> Figure:
        """Return a figure's values as a plotly heat map.

        Raises:
            PlannerError: for an unknown figure, too many cells to draw, or no plotly.
        """
        from planner.charts.heat_map import figure  # noqa: PLC0415

        check_value(value)
        return figure(self, value)

    def curve(
        self,
        value: str = "max_concurrency",
        x: str | None = None,
        color: str | None = None,
    ) -> Figure:
        """Return a figure's values as lines in plotly, one line per value of `color`.

        Args:
            value: what goes up.
            x: an axis, or a figure, that goes to the right; by default the first axis.
            color: the axis that has a line for each value; by default the other one.

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
        """Return what `curve` draws.

        Raises:
            PlannerError: for unknown names or more than eight lines.
        """
        from planner.comparing.lines import lines_of  # noqa: PLC0415 - it knows Grid

        return lines_of(self, value, x, color)

    def __str__(self) -> str:
        """Return the grid as text for a terminal."""
        from planner.presentation.grid import grid_text  # noqa: PLC0415

        return grid_text(self)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        from planner.presentation.grid import mimebundle  # noqa: PLC0415

        return mimebundle(self)
