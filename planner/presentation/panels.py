"""The panels under the answer: what a plan's figures are made of, one panel each.

A closed panel is its title alone, which names the figure that it explains: what is not
looked at is neither written nor sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from planner.presentation.certainty import certainty_body
from planner.presentation.host import host_tables, host_title
from planner.presentation.kv_cache_html import kv_cache_html, kv_cache_title
from planner.presentation.tables import (
    notes_html,
    outside_table,
    outside_title,
    tables_html,
)
from planner.presentation.text import budget
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.result import Plan

OPEN_AT_FIRST = frozenset({"memory", "notes"})
"""The twin of the chart, and what nobody may miss."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A title with its figure, and what it opens to."""

    title: str
    figure: Callable[[Plan], str]
    inside: Callable[[Plan], str]


def panels_html(plan: Plan, opened: Collection[str]) -> dict[str, str]:
    """Return each panel's HTML by name; only opened ones have their inside."""
    return {
        f"panel-{key}": _panel(key, panel, plan, is_open=key in opened)
        for key, panel in PANELS.items()
    }


def _panel(key: str, panel: Panel, plan: Plan, *, is_open: bool) -> str:
    figure = panel.figure(plan)
    if not figure:
        return ""
    inside = panel.inside(plan) if is_open else ""
    return (
        f"<details class='pl-panel' data-key='{key}' data-panel='{key}'"
        f" data-known='{str(is_open).lower()}'{' open' if is_open else ''}>"
        "<summary><h2 class='pl-panel-title'>"
        f"{escape(panel.title)}</h2> <span class='pl-panel-figure'>{escape(figure)}"
        f"</span></summary><div class='pl-panel-inside'>{inside}</div></details>"
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
    return f"KV cache {format_gib(low)} to {format_gib(high)}"


def _count(plan: Plan) -> str:
    return f"{len(plan.notes)}" if plan.notes else ""


PANELS = {
    "notes": Panel("Notes", _count, notes_html),
    "memory": Panel("Where the memory goes", _budget, tables_html),
    "kv-cache": Panel("KV cache", _kv_cache, kv_cache_html),
    "outside": Panel("Beside vLLM's budget", _outside, outside_table),
    "host": Panel("CPU memory and disk", host_title, host_tables),
    "certainty": Panel("How sure is this?", _range, certainty_body),
}
"""In the order of the page."""
