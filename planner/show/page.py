"""A plan as one self-contained piece of HTML, and the panels of the explorer's page.

A closed panel has only its title, which names the figure that it explains: its content
is written and sent when the reader opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from planner.planning.machines import commands_text
from planner.show.boxes import drawing, plan_bar, plan_legend
from planner.show.certainty import certainty_body, certainty_html
from planner.show.charts.frame import bars, end_bytes
from planner.show.charts.parts import spoken
from planner.show.document import whole
from planner.show.host import host_html, host_tables, host_title
from planner.show.html import Html, element, tag
from planner.show.kv_cache import kv_cache_html, kv_cache_title
from planner.show.pieces import NOTHING, command_line
from planner.show.tables import (
    error_html,
    figures_html,
    notes_html,
    outside_html,
    outside_table,
    outside_title,
    tables_html,
    verdict_html,
)
from planner.show.verdict import budget, cache_name, noted
from planner.units import format_gib
from planner.values import frozen

if TYPE_CHECKING:
    from planner.planning.result import Plan

NOTES = "notes"
"""The panel that every reader should see, whichever tab is open."""
OPEN_AT_FIRST = frozenset({"memory", NOTES})
"""The chart as a table, and the notes, which every reader should see."""
_summary = element("summary")
_title = element("h2", class_="pl-panel-title")
_figure = element("span", class_="pl-panel-figure")
_inside = element("div", class_="pl-panel-inside")


def plan_html(plan: Plan) -> Html:
    """Show verdict, bars, figures, table, notes and command; needs no script."""
    return whole(
        verdict_html(plan),
        error_html(plan),
        bars_html(plan),
        figures_html(plan),
        tables_html(plan, is_folded=True),
        outside_html(plan),
        host_html(plan),
        certainty_html(plan),
        notes_html(plan),
        command_line(commands_text(plan)),
    )


def bars_html(plan: Plan) -> Html:
    """Draw one bar for all GPUs that are alike as plain boxes, and a legend."""
    drawn = bars(plan)
    if not drawn:
        return NOTHING
    full_bytes = max(end_bytes(plan, bar.rank) for bar in drawn)
    boxes = (plan_bar(plan, bar, full_bytes) for bar in drawn)
    return drawing(spoken(plan), boxes, plan_legend(plan, drawn))


@frozen(kw_only=False)
class Panel:
    """A title with its figure, and the content that it opens."""

    title: str
    figure: Callable[[Plan], str]
    inside: Callable[[Plan], Html]


def panels_html(
    plan: Plan, opened: Collection[str], seen: Collection[str] | None = None
) -> dict[str, Html]:
    """Return each panel's HTML by name; only opened ones have their content.

    `seen` names the panels that are on the page; None: all of them.
    """
    return {
        f"panel-{key}": _panel(key, panel, plan, is_open=key in opened)
        for key, panel in PANELS.items()
        if seen is None or key in seen
    }


def _panel(key: str, panel: Panel, plan: Plan, *, is_open: bool) -> Html:
    figure = panel.figure(plan)
    if not figure:
        return NOTHING
    summary = _summary(_title(panel.title), " ", _figure(figure))
    inside = panel.inside(plan) if is_open else None
    return tag(
        "details",
        summary,
        _inside(inside),
        class_="pl-panel",
        data_key=key,
        data_panel=key,
        data_known=str(is_open).lower(),
        open=is_open,
    )


def _budget(plan: Plan) -> str:
    rank = plan.limiting_rank
    return budget(plan, rank) if rank else ""


def _kv_cache(plan: Plan) -> str:
    return kv_cache_title(plan) if plan.limiting_rank else ""


def _outside(plan: Plan) -> str:
    rank = plan.limiting_rank
    return outside_title(plan) if rank and rank.outside else ""


def _range(plan: Plan) -> str:
    rank = plan.limiting_rank
    if rank is None:
        return ""
    low, high = rank.available_kv_cache_low_bytes, rank.available_kv_cache_high_bytes
    if low == high:
        return "the KV cache is fixed"
    return f"{cache_name(rank)} {format_gib(low)} to {format_gib(high)}"


def _count(plan: Plan) -> str:
    found = noted(plan, with_sources=False)
    return f"{len(found)}" if found else ""


PANELS = {
    "notes": Panel("Notes", _count, notes_html),
    "memory": Panel("Where the memory goes", _budget, tables_html),
    "kv-cache": Panel("KV cache", _kv_cache, kv_cache_html),
    "outside": Panel("Outside vLLM's budget", _outside, outside_table),
    "host": Panel("CPU memory and disk", host_title, host_tables),
    "certainty": Panel("How sure is this?", _range, certainty_body),
}
"""In the order of the page."""
