"""A plan as a report in Markdown, for issues, pull requests and wikis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from planner.export.report_parts import (
    GROUPS,
    StartText,
    blocks_sentence,
    given,
    groups,
    link_or_reason,
    to_newest,
    ways,
)
from planner.given import named_in_errors
from planner.show.certainty import sentences, sizes_by_basis
from planner.show.figures import key_figures
from planner.show.host import loading_rows, node_budget, node_title, shown_accounts
from planner.show.speed_forecast import TITLES, rows
from planner.show.upgrade import effects, headline, result, setting, source_of, why
from planner.show.verdict import (
    budget,
    error_text,
    noted,
    range_text,
    rank_title,
    shown_lines,
    subject,
    verdict_text,
)
from planner.solve.speed.forecast import FORECAST_CAUTION, known_forecast
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.memory.account import Line
    from planner.memory.estimate import RankMemory
    from planner.planning.result import Plan

_MARKUP = re.compile(r"([\\`*_\[\]<>|#~&])")
_BAR_CHARACTERS = 40
_LINES = ("Memory line", "Size", "Range", "How it is known", "Arithmetic")


@named_in_errors
def markdown(plan: Plan, *, base: str = "", date: str = "") -> str:
    """Return a report in Markdown: verdict, memory, figures, how to start, inputs.

    The same plan gives the same text.

    Args:
        plan: what to report.
        base: address of the page that the link opens.
        date: written under the title; none unless given.
    """
    parts = [
        f"# {text(subject(plan))}",
        text(f"vLLM {plan.vllm_version}" + (f", {date}" if date else "")),
        f"**{text(verdict_text(plan))}**",
        *_error(plan),
        *_memory(plan),
        *_cache(plan),
        *_speed(plan),
        *_notes(plan),
        *_certainty(plan),
        *_upgrade(plan),
        "## Start it",
        *(block for way in ways(plan) for block in _way(way)),
        "## Given",
        table(("Name", "Value"), given(plan).items()),
        _link(plan, base),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _speed(plan: Plan) -> list[str]:
    found = known_forecast(plan, plan.load)
    if found is None:
        return []
    told = f"{FORECAST_CAUTION} {found.near.words}"
    return ["## Speed", table(TITLES, rows(found)), text(told)]


def _error(plan: Plan) -> list[str]:
    if plan.error is None:
        return []
    lines = error_text(plan.error).splitlines()
    return ["\n".join(f"> {text(line)}" for line in lines)]


def _memory(plan: Plan) -> list[str]:
    parts = ["## Memory"] if plan.ranks else []
    for rank in plan.ranks:
        parts += [
            text(f"{rank_title(plan, rank)}: {budget(plan, rank)}"),
            fenced(_bars(rank), ""),
            table(_LINES, map(_row, shown_lines(rank))),
        ]
    limiting = plan.limiting_rank
    if limiting is not None and limiting.outside:
        room = plan.gpu.total_memory_bytes - limiting.requested_memory_bytes
        parts += [
            f"Outside vLLM's budget: {format_gib(limiting.outside_bytes)} needed of "
            f"{format_gib(room)}.",
            table(_LINES, map(_row, limiting.outside)),
        ]
    parts += _host(plan)
    figures = [(f.name, f.text, f.detail) for f in key_figures(plan)]
    return [*parts, *([table(("Figure", "Value", ""), figures)] if figures else [])]


def _host(plan: Plan) -> list[str]:
    """Show the CPU memory of the machines, if any is worth showing."""
    parts: list[str] = []
    for account in shown_accounts(plan):
        rows = [
            (line.name, format_gib(line.size_bytes), "", str(line.basis), line.why)
            for line in account.lines
        ]
        title = f"{node_title(plan, account)}: {node_budget(account)}"
        parts += [text(title), table(_LINES, rows)]
    if parts and plan.loading is not None:
        rows = [
            (row.name, row.figure, "", row.basis, row.why)
            for row in loading_rows(plan.loading)
        ]
        parts += ["Loading the weights on one machine", table(_LINES, rows)]
    return parts


def _bars(rank: RankMemory) -> str:
    """Draw a bar for each line, on a scale up to the budget."""
    whole = max(rank.requested_memory_bytes, 1)
    rows = []
    for line in shown_lines(rank):
        share = min(max(line.size_bytes, 0) / whole, 1)
        length = round(_BAR_CHARACTERS * share)
        bar = f"{'█' * length:<{_BAR_CHARACTERS}}"
        rows.append(f"{line.name:<18} {bar} {format_gib(line.size_bytes):>11}")
    return "\n".join(rows) + "\n"


def _row(line: Line) -> Sequence[str]:
    return (
        line.name,
        format_gib(line.size_bytes),
        range_text(line),
        str(line.basis),
        line.why,
    )


def _cache(plan: Plan) -> list[str]:
    if not plan.kv_groups:
        return []
    return ["## KV cache", table(GROUPS, groups(plan)), blocks_sentence(plan)]


def _notes(plan: Plan) -> list[str]:
    found = noted(plan, with_sources=False)
    return ["## Notes", "\n".join(f"- {text(note)}" for note in found)] if found else []


def _certainty(plan: Plan) -> list[str]:
    if plan.limiting_rank is None:
        return []
    bases = "\n".join(
        f"- {basis}: {format_gib(size)}" for basis, size in sizes_by_basis(plan).items()
    )
    return ["## How sure is this?", bases, *map(text, sentences(plan))]


def _upgrade(plan: Plan) -> list[str]:
    """Say what the newest release does to the plan, with each rule that changed."""
    found = to_newest(plan)
    if found is None:
        return []
    rows = [
        (release, effects(cause), why(cause), source_of(cause))
        for release, cause in found.causes
    ]
    ways_back = [(setting(way), result(way)) for way in found.ways]
    old, new = found.steps[0].release, found.steps[-1].release
    parts = [f"## Upgrade to vLLM {new}", text(headline(found))]
    if rows:
        parts.append(table(("Release", "In this start", "Rule", "Source"), rows))
    if ways_back:
        parts.append(table((f"Nearer to what {old} had", "KV cache"), ways_back))
    return parts


def _way(way: StartText) -> list[str]:
    body = fenced(way.text, way.language) if way.text else text(way.reason)
    return [f"### {way.title}", body]


def _link(plan: Plan, base: str) -> str:
    found, reason = link_or_reason(plan, base)
    return f"The same plan: `{found}`" if found else text(reason)


def text(written: str) -> str:
    r"""Return a text that Markdown shows as it is.

    >>> print(text("a|b <script>"))
    a\|b \<script\>
    """
    return _MARKUP.sub(r"\\\1", " ".join(written.split()))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are shown as they are."""
    lines = [head, ["---"] * len(head), *([text(c) for c in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fenced(code: str, language: str) -> str:
    """Return a block of code that no backtick inside can end."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code}{fence}"
