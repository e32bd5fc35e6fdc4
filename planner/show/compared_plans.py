"""Plans side by side: bars, what differs, what is the same, and a spoken sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from planner.show.boxes import drawing, legend, memory_bar
from planner.show.charts.frame import end_bytes
from planner.show.frames import make_frame
from planner.show.html import Content, Html, fragment, tag
from planner.show.pieces import bar_name
from planner.show.sheet import Apart, Cell, Command, Group, Part, Sheet, Table
from planner.show.verdict import SYMBOLS, missing_bytes, state_of, verdict
from planner.solve.comparing.comparison import FIGURES, Change
from planner.units import MIB, counted, format_gib, format_size

if TYPE_CHECKING:
    import pandas as pd

    from planner.planning.result import Plan
    from planner.solve.comparing.comparison import CommandDiff, Comparison, Row

LABELS = {name: figure.label for name, figure in FIGURES.items()} | {
    "kv_cache_size_tokens": "KV cache size, tokens"  # its cells have no unit
}
"""What a reader sees instead of a field's name."""
_DECIDING = frozenset(
    (
        *("verdict", "requests_served", "gpus_total", "engines"),
        *("available_kv_cache_bytes", "kv_cache_size_tokens", "max_concurrency"),
    )
)
"""The figures of a comparison that are not folded."""
_ABSENT = "none"
_SAME = "are the same in all plans"
_SMALL_BYTES = 10 * MIB
"""A smaller difference would be shown as about +0.00 GiB."""


def frame(comparison: Comparison) -> pd.DataFrame:
    """Return a row per figure, a column per plan, then the differences to the first."""
    others = comparison.names[1:]
    heads = ("figure", "unit", *comparison.names)
    heads += tuple(f"{name} - {comparison.names[0]}" for name in others)
    cells = [
        (row.name, row.unit, *row.values, *row.differences[1:])
        for row in comparison.rows
    ]
    return make_frame(cells, heads).set_index(["figure", "unit"])


def label(row: Row) -> str:
    """Return what a reader calls a row."""
    return row.name if row.is_line else LABELS.get(row.name, row.name)


def value_text(row: Row, number: int) -> str:
    """Write one plan's value with its unit."""
    value = row.values[number]
    return _ABSENT if value is None else written(value, row.unit)


def change_text(row: Row, number: int) -> str:
    """Write the difference to the first plan, signed; empty where there is none."""
    change = row.differences[number]
    return written(change, row.unit, sign="+") if change else ""


def written(value: Any, unit: str, sign: str = "") -> str:  # noqa: ANN401 - by its unit
    """Write a figure with its unit; `sign` "+" writes a difference."""
    if unit == "bytes":
        if sign and abs(value) < _SMALL_BYTES:
            return f"{'-' if value < 0 else '+'}{format_size(abs(value))}"
        return format_gib(value, signed=bool(sign))
    if unit == "requests":
        return f"{value:{sign},.2f}x"
    return f"{value:{sign},}" if unit else str(value)


def verdict_text(plan: Plan) -> str:
    """Write the outcome of a plan, what it serves, and how much memory is missing."""
    rank = plan.limiting_rank
    missing = missing_bytes(plan, rank) if rank is not None else 0
    short = f", missing {format_gib(missing)}" if missing else ""
    serves = verdict(plan).serves
    words = f"starts, {serves}" if serves else f"{plan.outcome}{short}"
    return f"{SYMBOLS[state_of(plan)]} {words}"


def budget_text(plan: Plan) -> str:
    """Write how much of each GPU vLLM may use."""
    count = f"{plan.gpus_total} x " if plan.gpus_total > 1 else ""
    gpu = f"{count}{plan.gpu.name}, {format_gib(plan.gpu.total_memory_bytes)}"
    rank = plan.limiting_rank
    if rank is None:
        return f"{gpu}: nothing is allocated"
    return f"{gpu}: vLLM may use {format_gib(rank.requested_memory_bytes)}"


def spoken(comparison: Comparison) -> str:
    """Read the bars aloud: the sentence behind the chart's `aria-label`."""
    sentences = [
        f"{name}: {budget_text(plan)}; {_lines(plan)}{plan.outcome}"
        for name, plan in zip(comparison.names, comparison.plans, strict=True)
    ]
    return f"Memory of {len(sentences)} plans. {'. '.join(sentences)}."


def _lines(plan: Plan) -> str:
    rank = plan.limiting_rank
    if rank is None:
        return ""
    lines = ", ".join(
        f"{line.name} {format_gib(line.size_bytes)}" for line in rank.lines
    )
    missing = missing_bytes(plan, rank)
    short = f", missing {format_gib(missing)}" if missing else ""
    return f"{lines}{short}; "


def sheet(comparison: Comparison) -> Sheet:
    """Say in bars and tables what differs."""
    return Sheet((Apart(html=bars_html(comparison)), *tables(comparison).parts))


def tables(comparison: Comparison) -> Sheet:
    """Say the verdicts and what differs; what decides comes first.

    Of a single plan all is shown.
    """
    is_alone = len(comparison.plans) == 1
    differing = [
        row
        for row in comparison.rows
        if is_alone or not row.is_same or row.name == "verdict"
    ]
    same = [row for row in comparison.rows if row not in differing]
    lines = [row for row in differing if row.is_line]
    figures = [row for row in differing if not row.is_line]
    first = [row for row in figures if row.name in _DECIDING] or figures
    more = [row for row in figures if row not in first]
    shown = (
        (_figures_caption(comparison), "Figure", first, False),
        (counted(len(more), "more figures"), "Figure", more, True),
        (_lines_caption(comparison), "Memory line", lines, False),
        (f"{len(same)} figures and lines {_SAME}", "Figure or line", same, True),
    )
    return Sheet(
        (
            None if is_alone else _inputs(comparison),
            *(
                Table(
                    caption,
                    (head, *comparison.names),
                    [(label(row), *_figures(row)) for row in rows],
                    is_folded=is_folded,
                )
                for caption, head, rows, is_folded in shown
            ),
            _commands(comparison),
        )
    )


def _figures_caption(comparison: Comparison) -> str:
    """Say which figures count all engines, where any plan has several."""
    is_split = any(plan.engines > 1 for plan in comparison.plans)
    whole = ": tokens, blocks and requests of all engines together" if is_split else ""
    return f"Figures{whole}"


def _lines_caption(comparison: Comparison) -> str:
    has_stages = any(len(plan.ranks) > 1 for plan in comparison.plans)
    stages = "; with pipeline stages, of the one that limits" if has_stages else ""
    return f"Memory of each GPU{stages}"


def _inputs(comparison: Comparison) -> Part:
    """Say which inputs differ."""
    if not comparison.differences:
        return "All inputs are the same."
    numbers = range(len(comparison.plans))
    rows = [(one.name, *map(one.text, numbers)) for one in comparison.differences]
    return Table("What differs", ("Input", *comparison.names), rows)


def _figures(row: Row) -> Iterator[Cell]:
    """Yield each plan's value with its difference to the first plan."""
    for number in range(len(row.values)):
        value, change = value_text(row, number), change_text(row, number)
        small = (value, " ", tag("span", change, class_="pl-change"))
        yield Apart(f"{value} ({change})", small) if change else value


def _commands(comparison: Comparison) -> Part:
    """Show the changes of the command, word by word; folded where there are several."""
    found = comparison.command_diff()
    if not found:
        return Command(comparison.plans[0].command(), "")
    written = [
        Apart(f"{one.before} to {one.after}:\n  {one}", _diff(one)) for one in found
    ]
    if not found[1:]:
        return written[0]
    return Group(written, f"{len(found)} commands, word by word")


def _diff(diff: CommandDiff) -> Html:
    same = ": the same" if diff.is_same else ""
    return fragment(
        tag("p", f"Command, {diff.before} to {diff.after}{same}", class_="pl-bar-name"),
        tag("pre", tag("code", diff_html(diff)), class_="pl-plain-command pl-diff"),
    )


def diff_html(diff: CommandDiff) -> Html:
    """Write a command with removed words in `del` and added ones in `ins`."""
    names = {Change.REMOVED: "del", Change.ADDED: "ins"}
    parts: list[Content] = []
    for word in diff.words:
        name = names.get(word.change)
        parts += [" ", tag(name, word.text) if name else word.text]
    return fragment(parts[1:])


def bars_html(comparison: Comparison) -> Html:
    """Draw a bar per plan as plain boxes on one scale, and a legend."""
    whole_bytes = max(end_bytes(plan, plan.limiting_rank) for plan in comparison.plans)
    bars = (
        (_bar_name(name, plan), _bar(plan, whole_bytes))
        for name, plan in zip(comparison.names, comparison.plans, strict=True)
    )
    names = [row.name for row in comparison.rows if row.is_line]
    return fragment(
        drawing(spoken(comparison), bars), legend(zip(names, names, strict=True))
    )


def _bar_name(name: str, plan: Plan) -> Html:
    words = f" {verdict_text(plan)} · {budget_text(plan)}"
    return bar_name(tag("b", name), words)


def _bar(plan: Plan, whole_bytes: int) -> Html:
    rank = plan.limiting_rank
    return memory_bar(plan, rank, rank.lines if rank else (), whole_bytes)
