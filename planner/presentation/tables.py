"""The table twin of the chart, and the other pieces of HTML that show a plan."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from planner.presentation.line_facts import LINE_FACTS
from planner.presentation.line_rows import line_rows
from planner.presentation.text import (
    budget,
    range_text,
    rank_title,
    subject,
)
from planner.presentation.verdict import OURS, key_figures, verdict
from planner.presentation.weight_lines import WEIGHTS, parts_apart
from planner.units import format_gib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.result import Line, Plan, RankMemory

_HEAD = (
    "<thead><tr><th scope='col'>Memory line</th><th scope='col' class='pl-number'>Size"
    "</th><th scope='col' class='pl-number pl-range'>Range</th>"
    "<th scope='col'>Basis</th></tr></thead>"
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
    is_ours = plan.error.kind in OURS
    speaker = "The planner" if is_ours else "vLLM would say"
    is_close = plan.error.kind == "too_close"
    kind = "pl-error pl-close" if is_close else "pl-error"
    return (
        f"<blockquote class='{kind}'><span class='pl-says'>{speaker}</span>"
        f"{escape(plan.error.message)}</blockquote>"
    )


def figures_html(plan: Plan) -> str:
    """Show the few numbers to lead with."""
    tiles = "".join(
        _tile(figure.name, figure.text, figure.detail) for figure in key_figures(plan)
    )
    return f"<dl class='pl-figures'>{tiles}</dl>" if tiles else ""


def no_figures_html(kind: str) -> str:
    """Keep the place of the numbers where vLLM never gets so far."""
    names = (
        "Available KV cache",
        f"{kind} KV cache size",
        "Maximum concurrency",
        "Longest max_model_len",
    )
    tiles = "".join(_tile(name, "-", "nothing is loaded") for name in names)
    return f"<dl class='pl-figures'>{tiles}</dl>"


def _tile(name: str, text: str, detail: str) -> str:
    return (
        f"<div class='pl-figure'><dt>{escape(name)}</dt><dd>{escape(text)}</dd>"
        f"<dd class='pl-detail'>{escape(detail)}</dd></div>"
    )


def tables_html(plan: Plan) -> str:
    """Show every rank's lines; the limiting rank open, the others to be opened."""
    limiting = plan.limiting_rank
    if limiting is None:
        return ""
    others = "".join(
        f"<details class='pl-rank' data-key='rank-{rank.pp_rank}'>"
        f"<summary>{escape(rank_title(plan, rank))}</summary>"
        f"{lines_table(plan, rank)}</details>"
        for rank in plan.ranks
        if rank is not limiting
    )
    return lines_table(plan, limiting) + others


def lines_table(plan: Plan, rank: RankMemory) -> str:
    """Show one rank's lines; each opens to its arithmetic and vLLM's source."""
    rows = "".join(_lines(rank))
    return (
        f"<table class='pl-lines'><caption>{escape(rank_title(plan, rank))}: "
        f"{escape(budget(plan, rank))}</caption>{_HEAD}<tbody>{rows}</tbody></table>"
    )


def _lines(rank: RankMemory) -> Iterator[str]:
    for line in rank.lines:
        yield _rows(line, f"{rank.pp_rank}-{line.name}")
        if line.name == WEIGHTS:
            for part in parts_apart(rank):
                yield line_rows(
                    part,
                    f"{rank.pp_rank}-of-which-{part.name}",
                    beside="of which",
                    explained=_explained(part),
                )


def outside_title(plan: Plan) -> str:
    """Say how much is needed beside the budget, and how much is there."""
    rank = plan.limiting_rank
    if rank is None:
        return ""
    room = plan.gpu.total_memory_bytes - rank.requested_memory_bytes
    return f"{format_gib(rank.outside_bytes)} of {format_gib(room)}"


def outside_table(plan: Plan) -> str:
    """Show what takes memory beside the budget."""
    rank = plan.limiting_rank
    if rank is None or not rank.outside:
        return ""
    rows = "".join(_rows(line, f"outside-{line.name}") for line in rank.outside)
    return (
        "<table class='pl-lines'><caption>What needs room in the memory that vLLM does "
        f"not ask for</caption>{_HEAD}<tbody>{rows}</tbody></table>"
    )


def outside_html(plan: Plan) -> str:
    """Show what takes memory beside the budget, to be opened."""
    table = outside_table(plan)
    if not table:
        return ""
    return (
        "<details class='pl-rank pl-outside' data-key='outside'><summary>Beside the "
        f"budget: {outside_title(plan)}</summary>{table}</details>"
    )


def _rows(line: Line, key: str) -> str:
    return line_rows(line, key, beside=range_text(line), explained=_explained(line))


def _explained(line: Line) -> str:
    """Say what a line is, how it was computed, and where vLLM decides it."""
    facts = LINE_FACTS.get(line.name)
    meaning = f"<p>{escape(facts.meaning)}</p>" if facts else ""
    source = (
        f"<p class='pl-source'>Source: vLLM 0.33.0 <a href='{facts.address}' "
        f"target='_blank' rel='noopener noreferrer'>{escape(facts.file)}</a>, "
        f"<code>{escape(facts.symbol)}</code></p>"
        if facts and facts.file
        else ""
    )
    span = range_text(line)
    between = f"<p class='pl-between'>Range: {span}</p>" if span else ""
    return f"{meaning}<p class='pl-why'>{escape(line.why)}</p>{between}{source}"


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
