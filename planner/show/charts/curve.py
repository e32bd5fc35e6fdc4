"""Lines of a sweep: one figure against an argument, with the estimate's range."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

from planner.show.charts.frame import AXIS, base_layout, note_above, titled
from planner.show.grid import hover_text, unit_of
from planner.units import GIB

if TYPE_CHECKING:
    from planner.solve.comparing.cells import Cell
    from planner.solve.comparing.grid import Curve

COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#8C6D1F", "#767676"),
)
"""Okabe and Ito's hues without yellow and black, invisible on a light or dark page."""
_SYMBOLS = (
    *("circle", "square", "diamond", "triangle-up"),
    *("triangle-down", "star", "hexagon", "pentagon"),
)
_DASHES = ("solid", "dash", "dot", "dashdot")
_HEIGHT = 380
_LOG_FROM = 12
"""An axis is logarithmic from this ratio of its largest to its smallest figure."""
_MOST_TICKS = 6
_FEW_DECADES = 3
"""Up to so many, an axis has room for ticks at 1, 2 and 5 of each."""


def figure_spec(curve: Curve) -> dict[str, Any]:
    """Describe the figure in plotly's JSON, without importing plotly."""
    bands = [
        _band(curve, part, number)
        for number, (_, cells) in enumerate(curve.lines)
        for part in _parts(curve, cells)
        if curve.value == "max_concurrency"
    ]
    lines = [
        _line(curve, label, cells, number)
        for number, (label, cells) in enumerate(curve.lines)
    ]
    return {"data": [*bands, *lines], "layout": _layout(curve)}


def _drawn(cell: Cell, value: str) -> float | None:
    """Return a figure as it is drawn: bytes as GiB."""
    figure = cell.figure(value)
    if figure is None or unit_of(value) != "bytes":
        return figure
    return round(figure / GIB, 3)


def _at(curve: Curve, cell: Cell) -> Any:  # noqa: ANN401 - of any argument's type
    """Return the place of a cell: a number, or a label where not all are numbers."""
    if _is_numeric(curve):
        return curve.x_of(cell)
    names = [axis.name for axis in curve.grid.axes]
    axis = curve.grid.axes[names.index(curve.x)]
    return axis.labels[axis.values.index(curve.x_of(cell))]


def _is_numeric(curve: Curve) -> bool:
    names = [axis.name for axis in curve.grid.axes]
    return curve.x not in names or all(
        isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        for value in curve.grid.axes[names.index(curve.x)].values
    )


def _points(curve: Curve, cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells of a line from left to right."""
    known = [cell for cell in cells if curve.x_of(cell) is not None]
    if not _is_numeric(curve):
        return list(cells)
    return sorted(known, key=curve.x_of)


def _parts(curve: Curve, cells: Sequence[Cell]) -> list[list[Cell]]:
    """Return the parts of a line between cells without a figure."""
    parts: list[list[Cell]] = [[]]
    for cell in _points(curve, cells):
        if cell.figure(curve.value) is None:
            parts.append([])
        else:
            parts[-1].append(cell)
    return [part for part in parts if part]


def _band(curve: Curve, part: list[Cell], number: int) -> dict[str, Any]:
    """Shade the range between the low end and the middle of the estimate."""
    across = [_at(curve, cell) for cell in part]
    middle = [cell.max_concurrency for cell in part]
    low = [cell.max_concurrency_low for cell in part]
    return band(across, middle, low, COLOURS[number % len(COLOURS)])


def band(
    across: Sequence[object],
    upper: Sequence[float | None],
    lower: Sequence[float | None],
    colour: str,
) -> dict[str, Any]:
    """Describe what is between two lines, in a faded colour."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [*across, *reversed(across)],
        "y": [*upper, *reversed(lower)],
        "fill": "toself",
        "fillcolor": f"{colour}33",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _line(
    curve: Curve, label: str, cells: Sequence[Cell], number: int
) -> dict[str, Any]:
    points = _points(curve, cells)
    colour = COLOURS[number % len(COLOURS)]
    symbol = _SYMBOLS[number % len(_SYMBOLS)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label,
        "x": [_at(curve, cell) for cell in points],
        "y": [_drawn(cell, curve.value) for cell in points],
        "customdata": [hover_text(cell, curve.grid, curve.value) for cell in points],
        "hovertemplate": "%{customdata}<extra></extra>",
        "cliponaxis": False,
        "line": {
            "color": colour,
            "width": 2,
            "dash": _DASHES[number % len(_DASHES)],
        },
        "marker": {
            "color": colour,
            "size": [8 if cell.fits else 10 for cell in points],
            "symbol": [symbol if cell.fits else "x-thin-open" for cell in points],
            "line": {"width": [0 if cell.fits else 2 for cell in points]},
        },
    }


def _layout(curve: Curve) -> dict[str, Any]:
    is_many = len(curve.lines) > 1
    by = [axis.name for axis in curve.grid.axes if axis.name != curve.x]
    return {
        **base_layout(_HEIGHT, 64 if is_many else 40, 52),
        "xaxis": _across(curve),
        "yaxis": _up(curve),
        "showlegend": is_many,
        "legend": {
            "orientation": "h",
            "y": 1,
            "yanchor": "bottom",
            "x": 0,
            "title": {"text": by[0] if is_many and by else ""},
        },
        "annotations": [] if is_many else [_note(curve)],
    }


def _note(curve: Curve) -> dict[str, Any]:
    """Explain the band and the crosses."""
    is_short = any(not cell.fits for cell in curve.grid.cells)
    notes = ["band: the estimate's range"] if curve.value == "max_concurrency" else []
    notes += ["cross: does not start"] if is_short else []
    return note_above(", ".join(notes), pixels=6)


def _across(curve: Curve) -> dict[str, Any]:
    axis = {
        **AXIS,
        **titled(curve.title),
        "automargin": True,
    }
    if not _is_numeric(curve):
        return {**axis, "type": "category"}
    values = sorted(
        {curve.x_of(cell) for cell in curve.grid.cells if curve.x_of(cell) is not None}
    )
    ticks = _ticks(values)
    return {
        **axis,
        "type": "log" if _is_wide(values) else "linear",
        "tickvals": ticks,
        "ticktext": [f"{tick:,}" for tick in ticks],
    }


def _is_wide(values: Sequence[float]) -> bool:
    return bool(values) and min(values) > 0 and max(values) >= _LOG_FROM * min(values)


def _ticks(values: Sequence[float]) -> list[float]:
    """Choose ticks: powers of two where there are enough, across the whole axis."""
    powers = [v for v in values if isinstance(v, int) and v > 0 and v & (v - 1) == 0]
    chosen: list[float] = list(values)
    if len(powers) >= _MOST_TICKS // 2:
        chosen = list(powers)
    step = -(-len(chosen) // _MOST_TICKS) if chosen else 1
    return chosen[::-1][::step][::-1]


def _up(curve: Curve) -> dict[str, Any]:
    unit = unit_of(curve.value)
    known = [
        drawn
        for cell in curve.grid.cells
        if (drawn := _drawn(cell, curve.value)) is not None
    ]
    name = {"requests": "requests at once", "bytes": "GiB"}.get(unit, unit)
    return {
        **AXIS,
        "automargin": True,
        "type": "log" if _is_wide(known) else "linear",
        "title": {"text": f"{curve.value}, {name}", "font": {"size": 12}},
        **_height_ticks(known),
    }


def _height_ticks(known: Sequence[float]) -> dict[str, Any]:
    """Write whole figures beside a logarithmic axis, not only their last digits."""
    if not _is_wide(known):
        return {"rangemode": "tozero", "nticks": 6}
    low, high = floor(log10(min(known))), ceil(log10(max(known)))
    steps = (1, 2, 5) if high - low <= _FEW_DECADES else (1,)
    ticks = [step * 10.0**power for power in range(low, high) for step in steps]
    return {"tickvals": ticks, "ticktext": [f"{tick:,.12g}" for tick in ticks]}
