"""The map of loads drawn: a box per load, its requests written in it.

Like the heat map of a sweep, its boxes are bars, which can be hatched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.show.charts.heat_map import boxes, boxes_layout
from planner.show.load_map import cell_text, hover_text
from planner.solve.comparing.grid import Axis
from planner.solve.load_map import NOT, SERVED, STARTS

if TYPE_CHECKING:
    from planner.solve.load_map import LoadMap

_FILLS = {SERVED: "#009E73", STARTS: "#F0E442", NOT: None}
"""Of Okabe and Ito; each cell has its sign, too."""
_HATCHES = {SERVED: "", STARTS: "", NOT: "/"}


def figure_spec(found: LoadMap) -> dict[str, Any]:
    """Describe the map in plotly's JSON, without importing plotly."""
    axes = (
        Axis(name="prompt tokens", values=found.prompts),
        Axis(name="requests at once", values=found.requests),
    )
    drawn = boxes(
        "requests",
        rows=len(found.requests),
        texts=[cell_text(cell) for cell in found.cells],
        hovers=[hover_text(cell) for cell in found.cells],
        fills=[_FILLS[cell.state] for cell in found.cells],
        hatches=[_HATCHES[cell.state] for cell in found.cells],
    )
    plan = found.plan
    title = (
        f"<b>Requests at once that {plan.gpus_total} x {plan.gpu.name} serves</b>"
        "<br>✔ all of them; ! some; ✘ vLLM does not start"
    )
    return {"data": [drawn], "layout": boxes_layout(axes, title)}
