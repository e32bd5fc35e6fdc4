"""The explorer as plain HTML: what a page shows until its controls are alive.

The app's page draws the figure inside at once (`answer.js` takes that chart over), and
a viewer without widgets shows the rest.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from planner.charts.memory_bars import page_spec
from planner.presentation import tables
from planner.presentation.page import style
from planner.presentation.panels import OPEN_AT_FIRST, panels_html
from planner.widgets.static_files import sheet

if TYPE_CHECKING:
    from planner.result import Plan


def snapshot_html(plan: Plan) -> str:
    """Show a plan in the explorer's own layout, without controls."""
    figure = json.dumps(page_spec(plan)).replace("<", "\\u003c")
    answer = {
        "verdict": tables.verdict_html(plan),
        "bars": "<div class='planner-first-chart'></div>"
        f"<script type='application/json'>{figure}</script>",
        "figures": tables.figures_html(plan) or tables.no_figures_html(plan.gpu.kind),
        "error": tables.error_html(plan),
    }
    first = (
        f"<div class='planner-answer'>{_parts(answer)}</div>"
        "<div class='planner-advice'></div><div class='planner-parts'>"
        f"{_parts({'command': tables.command_html(plan)})}</div>"
    )
    panels = _parts(panels_html(plan, OPEN_AT_FIRST))
    return (
        "<div class='planner-snapshot planner-explorer'>"
        f"<style>{style()}{sheet('chart.css', 'explorer.css')}</style>"
        "<div class='planner-body'><div class='planner-controls'></div>"
        f"<div class='planner-results'><div class='planner-first'>{first}</div>"
        f"<div class='planner-more'><div class='planner-parts'>{panels}</div></div>"
        "</div></div></div>"
    )


def _parts(parts: dict[str, str]) -> str:
    return "".join(
        f"<div class='planner-{name} pl-plan'>{part}</div>"
        for name, part in parts.items()
        if part
    )
