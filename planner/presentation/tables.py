"""The table twin of the chart, and the other pieces of HTML that show a plan."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from planner.presentation.palette import css_background
from planner.presentation.text import (
    budget,
    range_text,
    rank_title,
    subject,
)
from planner.presentation.verdict import key_figures, verdict
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.result import Line, Plan, RankMemory

_HEAD = (
    "<thead><tr><th scope='col'>Memory line</th><th scope='col' class='pl-number'>Size"
    "</th><th scope='col' class='pl-number'>Range</th><th scope='col'>Basis</th>"
    "<th scope='col'>Arithmetic</th></tr></thead>"
)


def verdict_html(plan: Plan) -> str:
    """Show the verdict: subject, symbol, words and signed margin."""
    said = verdict(plan)
    margin = (
        f"<span class='pl-margin'>{escape(said.margin)}</span> {escape(said.sentence)}"
        if said.margin
        else escape(said.sentence)
    )
    return (
        f"<div class='pl-verdict pl-{said.state}'>"
        f"<p class='pl-subject'>{escape(subject(plan))}"
        f" <span class='pl-release'>vLLM {escape(plan.vllm_version)}</span></p>"
        f"<p class='pl-headline'><span class='pl-symbol' aria-hidden='true'>"
        f"{said.symbol}</span> {escape(said.headline)}</p>"
        f"<p class='pl-sentence'>{margin}</p></div>"
    )


def error_html(plan: Plan) -> str:
    """Quote vLLM's own error; empty when it would start."""
    if plan.error is None:
        return ""
    is_ours = plan.error.kind == "too_close"
    speaker = "The planner" if is_ours else "vLLM would say"
    kind = "pl-error pl-close" if is_ours else "pl-error"
    return (
        f"<blockquote class='{kind}'><span class='pl-says'>{speaker}</span>"
        f"{escape(plan.error.message)}</blockquote>"
    )


def figures_html(plan: Plan) -> str:
    """Show the few numbers to lead with."""
    tiles = "".join(
        f"<div class='pl-figure'><dt>{escape(figure.name)}</dt>"
        f"<dd>{escape(figure.text)}</dd><dd class='pl-detail'>{escape(figure.detail)}"
        "</dd></div>"
        for figure in key_figures(plan)
    )
    return f"<dl class='pl-figures'>{tiles}</dl>" if tiles else ""


def tables_html(plan: Plan) -> str:
    """Show every rank's lines; the limiting rank open, the others to be opened."""
    limiting = plan.limiting_rank
    if limiting is None:
        return ""
    others = "".join(
        f"<details class='pl-rank'><summary>{escape(rank_title(plan, rank))}</summary>"
        f"{lines_table(plan, rank)}</details>"
        for rank in plan.ranks
        if rank is not limiting
    )
    return lines_table(plan, limiting) + others + outside_html(plan)


def lines_table(plan: Plan, rank: RankMemory) -> str:
    """Show one rank's lines with size, range, basis and arithmetic."""
    rows = "".join(_row(line) for line in rank.lines)
    return (
        f"<table class='pl-lines'><caption>{escape(rank_title(plan, rank))}: "
        f"{escape(budget(plan, rank))}</caption>{_HEAD}<tbody>{rows}</tbody></table>"
    )


def outside_html(plan: Plan) -> str:
    """Show what takes memory beside the budget, to be opened."""
    rank = plan.limiting_rank
    if rank is None or not rank.outside:
        return ""
    room = plan.gpu.total_memory_bytes - rank.requested_memory_bytes
    rows = "".join(_row(line) for line in rank.outside)
    return (
        "<details class='pl-rank pl-outside'><summary>Beside the budget: "
        f"{format_gib(rank.outside_bytes)} of {format_gib(room)}</summary>"
        "<table class='pl-lines'><caption>What needs room in the memory that vLLM does "
        f"not ask for</caption>{_HEAD}<tbody>{rows}</tbody></table></details>"
    )


def _row(line: Line) -> str:
    background = css_background(line.name, line.basis)
    return (
        f"<tr><th scope='row'><span class='pl-swatch' style='background:{background}'>"
        f"</span>{escape(line.name)}</th>"
        f"<td class='pl-number'>{format_gib(line.size_bytes)}</td>"
        f"<td class='pl-number pl-range'>{range_text(line)}</td>"
        f"<td class='pl-basis'>{line.basis}</td>"
        f"<td class='pl-why'>{escape(line.why)}</td></tr>"
    )


def command_html(plan: Plan) -> str:
    """Show the `vllm serve` line; the page's script makes the button copy it."""
    command = escape(plan.command())
    return (
        "<div class='pl-command'><pre tabindex='0' aria-label='Command'>"
        f"<code>{command}</code></pre><button type='button' class='pl-copy' "
        "data-copy='command'>Copy</button></div>"
    )


def notes_html(plan: Plan) -> str:
    """List what a reader must know about the figures."""
    if not plan.notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in plan.notes)
    return f"<ul class='pl-notes'>{items}</ul>"
