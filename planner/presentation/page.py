"""A plan as one self-contained piece of HTML, as a notebook shows it."""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from planner.presentation.certainty import certainty_html
from planner.presentation.host import host_html
from planner.presentation.palette import MISSING, css_background
from planner.presentation.tables import (
    error_html,
    figures_html,
    notes_html,
    outside_html,
    tables_html,
    verdict_html,
)
from planner.presentation.text import spoken
from planner.presentation.verdict import missing_bytes
from planner.presentation.weight_lines import drawn_lines

if TYPE_CHECKING:
    from planner.result import Line, Plan, RankMemory


@cache
def tokens() -> str:
    """Return the design's colours, type and spacing as a style sheet."""
    return _sheet("tokens.css")


@cache
def style() -> str:
    """Return the style sheet shared by this page and the explorer."""
    return f"{tokens()}\n{_sheet('plan.css')}"


def _sheet(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def plan_html(plan: Plan) -> str:
    """Show verdict, bars, figures, table, notes and command; needs no script."""
    return (
        f"<style>{style()}</style><div class='pl-plan pl-whole'>{verdict_html(plan)}"
        f"{error_html(plan)}{bars_html(plan)}{figures_html(plan)}{tables_html(plan)}"
        f"{outside_html(plan)}{host_html(plan)}{certainty_html(plan)}{notes_html(plan)}"
        f"<pre class='pl-plain-command'><code>{escape(plan.command())}</code></pre>"
        "</div>"
    )


def bars_html(plan: Plan) -> str:
    """Draw one bar per pipeline stage out of plain boxes."""
    if not plan.ranks:
        return ""
    full_bytes = max(_drawn_bytes(plan, rank) for rank in plan.ranks)
    bars = "".join(_bar(plan, rank, full_bytes) for rank in plan.ranks)
    return f"<div role='img' aria-label='{escape(spoken(plan))}'>{bars}</div>"


def _drawn_bytes(plan: Plan, rank: RankMemory) -> int:
    needed = rank.requested_memory_bytes + missing_bytes(plan, rank)
    return max(plan.gpu.total_memory_bytes, needed)


def _bar(plan: Plan, rank: RankMemory, full_bytes: int) -> str:
    boxes = "".join(
        _box(line, full_bytes) for line in drawn_lines(rank) if line.size_bytes > 0
    )
    missing = missing_bytes(plan, rank)
    if missing:
        width = 100 * missing / full_bytes
        boxes += (
            f"<span style='width:{width:.3f}%;outline:2px dashed {MISSING}'></span>"
        )
    edge = 100 * rank.requested_memory_bytes / full_bytes
    total = 100 * plan.gpu.total_memory_bytes / full_bytes
    return (
        f"<div class='pl-bar'>{boxes}<i class='pl-requested' style='left:{edge:.3f}%'>"
        f"</i><i class='pl-total' style='left:{total:.3f}%'></i></div>"
    )


def _box(line: Line, full_bytes: int) -> str:
    width = 100 * line.size_bytes / full_bytes
    background = css_background(line.name, line.basis)
    return (
        f"<span style='width:{width:.3f}%;background:{background}' "
        f"title='{escape(line.name)}'></span>"
    )
