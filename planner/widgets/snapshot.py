"""The explorer as plain HTML: what a page shows until its controls are alive.

The app's page draws the figure inside at once (`chart.js` takes that chart over), and
a viewer without widgets shows the rest.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from planner.charts.memory_bars import figure_spec
from planner.presentation import tables
from planner.presentation.page import style
from planner.widgets.chart import STATIC

if TYPE_CHECKING:
    from planner.result import Plan


def snapshot_html(plan: Plan) -> str:
    """Show a plan in the explorer's own layout, without controls."""
    figure = json.dumps(figure_spec(plan)).replace("<", "\\u003c")
    layout_style = (STATIC / "explorer.css").read_text(encoding="utf-8")
    parts = {
        "verdict": tables.verdict_html(plan),
        "error": tables.error_html(plan),
        "bars": "<div class='planner-first-chart'></div>"
        f"<script type='application/json'>{figure}</script>",
        "figures": tables.figures_html(plan),
        "command": tables.command_html(plan),
        "tables": tables.tables_html(plan),
    }
    results = "".join(
        f"<div class='planner-{name} pl-plan'>{part}</div>"
        for name, part in parts.items()
        if part
    )
    return (
        f"<div class='planner-snapshot planner-explorer'><style>{style()}{layout_style}"
        "</style><div class='planner-body'><div class='planner-form'></div>"
        f"<div class='planner-results'>{results}</div></div></div>"
    )
