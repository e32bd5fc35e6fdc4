"""The tables of a plan's memory lines, and the other pieces of HTML that show it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from planner.planning.machines import commands_text
from planner.show.figures import key_figures
from planner.show.html import Content, Html, element, fragment, tag
from planner.show.kv_cache import WEIGHTS, parts_apart
from planner.show.lines import CPU_FACTS, LINE_FACTS, line_facts, line_rows, why
from planner.show.pieces import (
    NOTHING,
    listed,
    quoted,
    sentence,
    table,
    to_copy,
    to_open,
    verdict_box,
)
from planner.show.sheet import Apart
from planner.show.verdict import (
    OURS,
    budget,
    cache_name,
    noted,
    range_text,
    rank_title,
    shown_lines,
    subject,
    verdict,
    verdict_text,
)
from planner.units import format_gib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.memory.account import Line
    from planner.memory.estimate import RankMemory
    from planner.planning.result import Plan

_COLUMNS = (
    "Memory line",
    ("Size", "pl-number"),
    ("Range", "pl-number pl-range"),
    "How it is known",
)
_COMPUTED = "How it was computed"
_release = element("span", class_="pl-release")
_margin = element("span", class_="pl-margin")
_between = element("p", class_="pl-between")
_figure = element("div", class_="pl-figure")
_name, _text = element("dt"), element("dd")
_detail = element("dd", class_="pl-detail")


def verdict_html(plan: Plan) -> Html:
    """Show the verdict: subject, symbol, words and signed margin."""
    answer = verdict(plan)
    release = _release(f"vLLM {plan.vllm_version}")
    margin = (_margin(answer.margin), " ") if answer.margin else None
    return verdict_box(
        answer.state,
        sentence(margin, answer.sentence),
        subject=(subject(plan), " ", release),
        symbol=answer.symbol,
        headline=answer.headline,
    )


def plan_answer(plan: Plan) -> Apart:
    """Say the verdict of a plan on the sheet of another result."""
    title = f"{subject(plan)}, vLLM {plan.vllm_version}"
    return Apart(f"{title}\n{verdict_text(plan)}", verdict_html(plan))


def error_html(plan: Plan) -> Html:
    """Quote the error of the plan; empty when vLLM would start."""
    if plan.error is None:
        return NOTHING
    is_ours = plan.error.kind in OURS
    speaker = "The planner" if is_ours else "vLLM would say"
    is_close = plan.error.kind == "too_close"
    return quoted(
        speaker, plan.error.message, "pl-error pl-close" if is_close else "pl-error"
    )


def figures_html(plan: Plan) -> Html:
    """Show the key figures; empty where there are none."""
    tiles = [
        _figure(_name(one.name), _text(one.text), _detail(one.detail))
        for one in key_figures(plan)
    ]
    return tag("dl", tiles, class_="pl-figures") if tiles else NOTHING


def tables_html(plan: Plan, *, is_folded: bool = False) -> Html:
    """Show every rank's lines: the limiting rank open, the others folded.

    With `is_folded`, each line's arithmetic waits behind what the line is; without it
    is shown, or a script folds it.
    """
    limiting = plan.limiting_rank
    if limiting is None:
        return NOTHING
    others = (
        to_open(
            f"{rank_title(plan, rank)}: "
            f"{format_gib(rank.available_kv_cache_bytes)} of {cache_name(rank)}",
            lines_table(plan, rank, is_folded=is_folded),
            "pl-rank",
            key=f"rank-{rank.pp_rank}",
        )
        for rank in plan.ranks
        if rank is not limiting
    )
    return fragment(lines_table(plan, limiting, is_folded=is_folded), others)


def lines_table(plan: Plan, rank: RankMemory, *, is_folded: bool = False) -> Html:
    """Show one rank's lines; each opens to its arithmetic and vLLM's source."""
    caption = f"{rank_title(plan, rank)}: {budget(plan, rank)}"
    return table(caption, _COLUMNS, _lines(plan, rank, is_folded=is_folded))


def _lines(plan: Plan, rank: RankMemory, *, is_folded: bool) -> Iterator[Html]:
    explained = _folded if is_folded else _explained
    for line in shown_lines(rank):
        yield line_rows(
            line,
            f"{rank.pp_rank}-{line.name}",
            beside=range_text(line),
            explained=explained(plan, line),
        )
        if line.name == WEIGHTS:
            for part in parts_apart(rank):
                yield line_rows(
                    part,
                    f"{rank.pp_rank}-of-which-{part.name}",
                    beside="of which",
                    explained=explained(plan, part),
                )


def outside_title(plan: Plan) -> str:
    """State how much memory outside the budget is needed, and how much there is."""
    rank = plan.limiting_rank
    if rank is None:
        return ""
    room = plan.gpu.total_memory_bytes - rank.requested_memory_bytes
    return f"{format_gib(rank.outside_bytes)} of {format_gib(room)}"


def outside_table(plan: Plan) -> Html:
    """Show the memory lines outside the budget."""
    rank = plan.limiting_rank
    if rank is None or not rank.outside:
        return NOTHING
    caption = "What needs room in the memory that vLLM does not request"
    rows = (
        line_rows(
            line,
            f"outside-{line.name}",
            beside=range_text(line),
            explained=_explained(plan, line),
        )
        for line in rank.outside
    )
    return table(caption, _COLUMNS, rows)


def outside_html(plan: Plan) -> Html:
    """Show the memory lines outside the budget, folded."""
    title = f"Outside vLLM's budget: {outside_title(plan)}"
    return to_open(title, outside_table(plan), "pl-rank pl-outside", key="outside")


def _explained(plan: Plan, line: Line) -> Iterator[Content]:
    """Explain a line: what it is, how it was computed, and where vLLM decides it."""
    meaning, _source = _facts(line.name, plan.vllm_version, plan.gpu.is_cpu)
    yield tag("p", meaning) if meaning else None
    yield from _computed(plan, line)


def _folded(plan: Plan, line: Line) -> Html:
    """Say what a line is; how it was computed opens below it."""
    meaning, _source = _facts(line.name, plan.vllm_version, plan.gpu.is_cpu)
    return to_open(meaning or _COMPUTED, _computed(plan, line), "pl-more")


def _computed(plan: Plan, line: Line) -> Iterator[Content]:
    yield why(line.why)
    span = range_text(line)
    if span:
        yield _between(f"Range: {span}")
    yield _facts(line.name, plan.vllm_version, plan.gpu.is_cpu)[1]


@lru_cache(4 * (len(LINE_FACTS) + len(CPU_FACTS)))
def _facts(name: str, release: str, is_cpu: bool) -> tuple[str, Html]:
    """Return what all lines of a name share: their meaning and their source."""
    facts = line_facts(name, is_cpu=is_cpu)
    if facts is None:
        return "", NOTHING
    return facts.meaning, facts.source_html(release)


def command_html(plan: Plan) -> Html:
    """Show the `vllm serve` line, or those of several machines, to be copied."""
    return to_copy(tag("code", commands_text(plan)), label="Command", copied="command")


def notes_html(plan: Plan) -> Html:
    """List what the plan does not count, and its notes but on its model's files."""
    return listed(noted(plan, with_sources=False))
