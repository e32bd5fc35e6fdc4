"""How many requests each kind of GPU holds at once, as bars, best first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.show.charts.frame import (
    AXIS,
    INK,
    LABEL,
    base_layout,
    note_above,
    titled,
)
from planner.show.compared_gpus import price_text
from planner.show.palette import EDGE, FAINT, MISSING, swatch

if TYPE_CHECKING:
    from planner.solve.comparing.gpus import GPUChoice, GPUComparison

MOST_DRAWN = 30
_ROW_PIXELS = 34
_TOP_PIXELS = 30
_BAR_SHARE = 0.72


def figure_spec(found: GPUComparison) -> dict[str, Any]:
    """Describe the figure in plotly's JSON, without importing plotly."""
    choices = found.choices[:MOST_DRAWN]
    colours = swatch("KV cache")
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "name": "requests at once",
                "y": [_label(choice) for choice in choices],
                "x": [_length(choice) for choice in choices],
                "width": _BAR_SHARE,
                "text": [_text(choice, found) for choice in choices],
                "textposition": "auto",
                "insidetextanchor": "start",
                "textangle": 0,
                "textfont": {"size": 12},
                "insidetextfont": {"color": colours.label},
                "outsidetextfont": {"color": INK},
                "cliponaxis": False,
                "hovertemplate": "%{y}: %{text}<extra></extra>",
                "marker": {
                    "color": [colours.fill if c.serves else FAINT for c in choices],
                    "line": {
                        "color": [EDGE if c.serves else MISSING for c in choices],
                        "width": 1,
                    },
                    "pattern": {
                        "shape": ["" if c.serves else "/" for c in choices],
                        "fgcolor": "rgba(128, 128, 128, 0.33)",
                        "fillmode": "overlay",
                        "size": 8,
                        "solidity": 0.2,
                    },
                },
            }
        ],
        "layout": _layout(found, choices),
    }


def _label(choice: GPUChoice) -> str:
    count = choice.gpus_total or 1
    name = choice.gpu.name.replace("<", "&lt;")
    return f"{count} x {name}" if count > 1 else name


def _length(choice: GPUChoice) -> float:
    return round(max(choice.requests or 0.0, 0.0), 3)


def _text(choice: GPUChoice, found: GPUComparison) -> str:
    if not choice.serves:
        return ""
    price = price_text(choice.price_per_hour, found.currency)
    return f"{_length(choice):,.1f}" + (f" · {price} per hour" if price else "")


def _not_serving(choice: GPUChoice) -> dict[str, Any]:
    """Label a GPU that does not serve, whose bar may have no length."""
    return {
        **LABEL,
        "x": _length(choice),
        "y": _label(choice),
        "xanchor": "left",
        "xshift": 4,
        "text": "✘ does not serve",
    }


def _layout(found: GPUComparison, choices: tuple[GPUChoice, ...]) -> dict[str, Any]:
    height = _TOP_PIXELS + 52 + len(choices) * _ROW_PIXELS
    left = len(found.choices) - len(choices)
    more = f"; {left} more in the table" if left else ""
    return {
        **base_layout(height, _TOP_PIXELS, 52),
        "xaxis": {
            **AXIS,
            **titled("requests of max_model_len held at once"),
            "rangemode": "tozero",
            "nticks": 6,
            "automargin": True,
        },
        "yaxis": {
            "autorange": "reversed",
            "automargin": True,
            "fixedrange": True,
            "ticks": "",
            "ticklabelstandoff": 6,
        },
        "annotations": [
            *(_not_serving(choice) for choice in choices if not choice.serves),
            note_above(f"the best on top{more}"),
        ],
    }
