"""A comparison of plans as text, a pandas frame, HTML, and one spoken sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planner.show.boxes import drawing, legend, memory_bar
from planner.show.frames import columns, make_frame
from planner.show.html import Content, Html, fragment, tag
from planner.show.page import wide_page, wide_style
from planner.show.pieces import NOTHING, bar_name, command_line, table_html, to_open
from planner.show.terminal import legible
from planner.show.verdict import SYMBOLS, missing_bytes, state_of, verdict
from planner.solve.comparing.comparison import FIGURES, Change
from planner.units import MIB, format_gib, format_size

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
_SMALL_BYTES = 10 * MIB
"""A smaller difference would be shown as about +0.00 GiB."""


def frame(comparison: Comparison) -> pd.DataFrame:
    """Return a row per figure, a column per plan, then the differences to the first.

    Raises:
        PlannerError: when pandas is not installed.
    """
    others = comparison.names[1:]
    heads = ("figure", "unit", *comparison.names)
    heads += tuple(f"{name} - {comparison.names[0]}" for name in others)
    cells = [
        (row.name, row.unit, *row.values, *row.differences[1:])
        for row in comparison.rows
    ]
    return make_frame(cells, heads).set_index(["figure", "unit"])


@legible
def comparison_text(comparison: Comparison) -> str:
    """Write inputs, figures, lines and command changes for a terminal."""
    names = ["", *comparison.names]
    inputs = [
        [found.name, *(found.text(n) for n in range(len(comparison.plans)))]
        for found in comparison.differences
    ]
    figures = [
        [label(row), *(_cell_text(row, n) for n in range(len(row.values)))]
        for row in comparison.rows
    ]
    lines = columns([names, *inputs, *figures])
    if not comparison.differences and len(comparison.plans) > 1:
        lines.insert(0, "All inputs are the same.")
    for found in comparison.command_diff():
        lines += ["", f"{found.before} to {found.after}:", f"  {found}"]
    return "\n".join(lines)


def label(row: Row) -> str:
    """Return what a reader calls a row."""
    return row.name if row.is_line else LABELS.get(row.name, row.name)


def _cell_text(row: Row, number: int) -> str:
    change = change_text(row, number)
    return value_text(row, number) + (f" ({change})" if change else "")


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


def whole_html(comparison: Comparison) -> Html:
    """Show everything in one self-contained piece; needs no script."""
    return wide_page(bars_html(comparison), comparison_html(comparison))


def pinned_html(comparison: Comparison) -> Html:
    """Show the tables on a page that has every style sheet but this one."""
    return fragment(tag("style", wide_style()), comparison_html(comparison))


def comparison_html(comparison: Comparison) -> Html:
    """Show what differs: inputs, command, figures and lines, as text beside a chart."""
    return fragment(
        inputs_html(comparison),
        figures_html(comparison),
        lines_html(comparison),
        same_html(comparison),
        commands_html(comparison),
    )


def inputs_html(comparison: Comparison) -> Html:
    """Show which inputs differ."""
    if len(comparison.plans) == 1:
        return NOTHING
    if not comparison.differences:
        return tag("p", "All inputs are the same.")
    rows = [
        [found.name, *(found.text(n) for n in range(len(comparison.plans)))]
        for found in comparison.differences
    ]
    return table_html("What differs", ["Input", *comparison.names], rows)


def figures_html(comparison: Comparison) -> Html:
    """Show the figures that differ, each with its difference to the first plan.

    Those that decide are shown, the others are folded.
    """
    rows = [row for row in _differing(comparison) if not row.is_line]
    first = [row for row in rows if row.name in _DECIDING]
    more = [row for row in rows if row.name not in _DECIDING]
    if not first:
        return _table("Figures", "Figure", comparison, more)
    return fragment(
        _table(_figures_caption(comparison), "Figure", comparison, first),
        _more("figure", _table("More figures", "Figure", comparison, more), len(more)),
    )


def _figures_caption(comparison: Comparison) -> str:
    """Say which figures count all engines, where any plan has several."""
    if all(plan.engines == 1 for plan in comparison.plans):
        return "Figures"
    return "Figures: tokens, blocks and requests of all engines together"


def _more(what: str, inside: Html, count: int) -> Html:
    if not inside:
        return NOTHING
    plural = "" if count == 1 else "s"
    return to_open(f"{count} more {what}{plural}", inside, "pl-rank")


def lines_html(comparison: Comparison) -> Html:
    """Show the memory lines that differ, of each plan's limiting GPU."""
    rows = [row for row in _differing(comparison) if row.is_line]
    has_stages = any(len(plan.ranks) > 1 for plan in comparison.plans)
    stages = "; with pipeline stages, of the one that limits" if has_stages else ""
    caption = f"Memory of each GPU{stages}"
    return _table(caption, "Memory line", comparison, rows)


def same_html(comparison: Comparison) -> Html:
    """Show what is the same in all plans, folded."""
    shown = _differing(comparison)
    rows = [row for row in comparison.rows if row not in shown]
    if not rows:
        return NOTHING
    return to_open(
        f"{len(rows)} figures and lines are the same in all plans",
        _table("The same in all plans", "Figure or line", comparison, rows),
        "pl-rank",
    )


def _differing(comparison: Comparison) -> list[Row]:
    """Return the rows that differ; for a single plan, all rows."""
    is_alone = len(comparison.plans) == 1
    return [row for row in comparison.rows if is_alone or not row.is_same]


def _table(
    caption: str, first: str, comparison: Comparison, rows: Sequence[Row]
) -> Html:
    if not rows:
        return NOTHING
    return table_html(
        caption, [first, *comparison.names], [_cells(row) for row in rows]
    )


def _cells(row: Row) -> list[Content]:
    numbers = range(len(row.values))
    return [label(row), *(_value_and_change(row, number) for number in numbers)]


def _value_and_change(row: Row, number: int) -> Content:
    change = change_text(row, number)
    shown = (" ", tag("span", change, class_="pl-change")) if change else None
    return value_text(row, number), shown


def commands_html(comparison: Comparison) -> Html:
    """Show the changes of the command, word by word; folded where there are several."""
    found = comparison.command_diff()
    if not found:
        return command_line(comparison.plans[0].command())
    written = fragment(map(_command_html, found))
    if not found[1:]:
        return written
    return to_open(f"{len(found)} commands, word by word", written, "pl-rank")


def _command_html(diff: CommandDiff) -> Html:
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
    whole_bytes = max(_end_bytes(plan) for plan in comparison.plans)
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


def _end_bytes(plan: Plan) -> int:
    rank = plan.limiting_rank
    total = plan.gpu.total_memory_bytes
    if rank is None:
        return total
    return max(total, rank.requested_memory_bytes + missing_bytes(plan, rank))


def _bar(plan: Plan, whole_bytes: int) -> Html:
    rank = plan.limiting_rank
    return memory_bar(plan, rank, rank.lines if rank else (), whole_bytes)
