"""A comparison as HTML: bars of plain boxes, tables, and what changes to type."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from planner.presentation.comparison import (
    budget_text,
    change_text,
    label,
    spoken,
    value_text,
    verdict_text,
)
from planner.presentation.page import style
from planner.presentation.palette import MISSING, css_background, swatch
from planner.presentation.verdict import missing_bytes

if TYPE_CHECKING:
    from planner.comparing.comparison import Comparison
    from planner.comparing.figures import Row
    from planner.result import Plan, RankMemory


@cache
def comparison_style() -> str:
    """Return what tables of plans, sweeps and bounds add to the plan's style sheet."""
    return (Path(__file__).parent / "comparison.css").read_text(encoding="utf-8")


def whole_html(comparison: Comparison) -> str:
    """Show everything in one self-contained piece; needs no script."""
    return page(bars_html(comparison) + comparison_html(comparison))


def page(content: str) -> str:
    """Return content with the style sheets that it needs."""
    return (
        f"<style>{style()}{comparison_style()}</style>"
        f"<div class='pl-plan pl-whole'>{content}</div>"
    )


def comparison_html(comparison: Comparison) -> str:
    """Show what differs: inputs, command, figures, lines. The twin of the chart."""
    return (
        f"{inputs_html(comparison)}{commands_html(comparison)}"
        f"{figures_html(comparison)}{lines_html(comparison)}{same_html(comparison)}"
    )


def inputs_html(comparison: Comparison) -> str:
    """Show which inputs differ."""
    if len(comparison.plans) == 1:
        return ""
    if not comparison.differences:
        return "<p>All inputs are the same.</p>"
    rows = [
        [found.name, *(escape(found.text(n)) for n in range(len(comparison.plans)))]
        for found in comparison.differences
    ]
    return table_html("What differs", ["Input", *comparison.names], rows)


def figures_html(comparison: Comparison) -> str:
    """Show the figures that differ, each with its difference to the first plan."""
    rows = [row for row in _differing(comparison) if not row.is_line]
    return _table("Figures", "Figure", comparison, rows)


def lines_html(comparison: Comparison) -> str:
    """Show the memory lines that differ, of each plan's limiting GPU."""
    rows = [row for row in _differing(comparison) if row.is_line]
    caption = "Memory of each GPU; with pipeline stages, of the one that limits"
    return _table(caption, "Memory line", comparison, rows)


def same_html(comparison: Comparison) -> str:
    """Show what is the same in all plans, to be opened."""
    shown = _differing(comparison)
    rows = [row for row in comparison.rows if row not in shown]
    if not rows:
        return ""
    table = _table("The same in all", "Figure or line", comparison, rows)
    return (
        f"<details class='pl-rank'><summary>{len(rows)} figures and lines are the same "
        f"in all</summary>{table}</details>"
    )


def _differing(comparison: Comparison) -> list[Row]:
    """Return what is worth a look: of a single plan everything."""
    is_alone = len(comparison.plans) == 1
    return [row for row in comparison.rows if is_alone or not row.is_same]


def _table(
    caption: str, first: str, comparison: Comparison, rows: Sequence[Row]
) -> str:
    if not rows:
        return ""
    return table_html(
        caption, [first, *comparison.names], [_cells(row) for row in rows]
    )


def _cells(row: Row) -> list[str]:
    return [label(row), *(_cell(row, number) for number in range(len(row.values)))]


def _cell(row: Row, number: int) -> str:
    change = change_text(row, number)
    told = f" <span class='pl-change'>{escape(change)}</span>" if change else ""
    return escape(value_text(row, number)) + told


def table_html(caption: str, head: list[str], rows: list[list[str]]) -> str:
    """Return a table that scrolls sideways where the page is too narrow.

    The first cell of a row is its heading and plain text; the others are HTML.
    """
    heads = "".join(f"<th scope='col'>{escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr><th scope='row'>{escape(first)}</th>"
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + "</tr>"
        for first, *cells in rows
    )
    return (
        f"<div class='pl-scroll' tabindex='0' role='region' aria-label="
        f"'{escape(caption)}'><table class='pl-side'><caption>{escape(caption)}"
        f"</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def commands_html(comparison: Comparison) -> str:
    """Show what changes in the command, word by word."""
    found = comparison.command_diff()
    if not found:
        command = escape(comparison.plans[0].command())
        return f"<pre class='pl-plain-command'><code>{command}</code></pre>"
    return "".join(
        f"<p class='pl-bar-name'>Command, {escape(diff.before)} to "
        f"{escape(diff.after)}{': the same' if diff.is_same else ''}</p>"
        f"<pre class='pl-plain-command pl-diff'><code>{diff.html()}</code></pre>"
        for diff in found
    )


def bars_html(comparison: Comparison) -> str:
    """Draw a bar per plan out of plain boxes, all to one scale, and name colours."""
    whole = max(_end_bytes(plan) for plan in comparison.plans)
    bars = "".join(
        f"<div class='pl-bar-name'><b>{escape(name)}</b> {verdict_text(plan)} · "
        f"{escape(budget_text(plan))}</div>{_bar(plan, whole)}"
        for name, plan in zip(comparison.names, comparison.plans, strict=True)
    )
    told = escape(spoken(comparison))
    return f"<div role='img' aria-label='{told}'>{bars}</div>{_legend(comparison)}"


def _end_bytes(plan: Plan) -> int:
    rank = plan.limiting_rank
    total = plan.gpu.total_memory_bytes
    if rank is None:
        return total
    return max(total, rank.requested_memory_bytes + missing_bytes(plan, rank))


def _bar(plan: Plan, whole: int) -> str:
    rank = plan.limiting_rank
    boxes = "" if rank is None else _boxes(plan, rank, whole)
    total = 100 * plan.gpu.total_memory_bytes / whole
    return (
        f"<div class='pl-bar'>{boxes}"
        f"<i class='pl-total' style='left:{total:.3f}%'></i></div>"
    )


def _boxes(plan: Plan, rank: RankMemory, whole: int) -> str:
    boxes = "".join(
        f"<span style='width:{100 * line.size_bytes / whole:.3f}%;"
        f"background:{css_background(line.name, line.basis)}' "
        f"title='{escape(line.name)}'></span>"
        for line in rank.lines
        if line.size_bytes > 0
    )
    missing = missing_bytes(plan, rank)
    if missing:
        width = 100 * missing / whole
        boxes += (
            f"<span style='width:{width:.3f}%;outline:2px dashed {MISSING}' "
            "title='missing'></span>"
        )
    edge = 100 * rank.requested_memory_bytes / whole
    return f"{boxes}<i class='pl-requested' style='left:{edge:.3f}%'></i>"


def _legend(comparison: Comparison) -> str:
    names = [row.name for row in comparison.rows if row.is_line]
    items = "".join(
        f"<li><span class='pl-swatch' style='background:{swatch(name).fill}'></span>"
        f"{escape(name)}</li>"
        for name in names
    )
    return f"<ul class='pl-legend'>{items}</ul>" if items else ""
