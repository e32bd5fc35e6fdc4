"""What the bars of a plan show, as values: each part with its place and its size.

The page's labels, the legend of a figure and the sentence for a screen reader name the
same parts with the same sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.charts.frame import Bar, bars
from planner.show.charts.traces import (
    MISSING_PART,
    NOTHING,
    OUTSIDE,
    soft_edge,
    soft_text,
)
from planner.show.host import host_spoken, shown_accounts
from planner.show.kv_cache import drawn_lines
from planner.show.palette import MISSING, swatch
from planner.show.verdict import missing_bytes, verdict_text
from planner.units import format_gib
from planner.values import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planner.memory.account import Line
    from planner.memory.host.nodes import NodeAccount, NodeLine
    from planner.planning.result import Plan

FREE = "free CPU memory"
MISSING_CPU = "missing CPU memory"


@frozen
class Part:
    """One segment of a bar, and where it can be seen."""

    name: str
    size_bytes: int
    start_bytes: int
    end_bytes: int
    """Its visible part: without what a missing part covers."""
    fill: str
    ink: str
    """Colour of text on the fill; empty: that of the page."""


def parts_of(plan: Plan, bar: Bar) -> tuple[Part, ...]:
    """Return the segments of a GPU's bar, from the left."""
    requested = bar.rank.requested_memory_bytes
    total = plan.gpu.total_memory_bytes
    missing = missing_bytes(plan, bar.rank)
    parts = list(_lines(drawn_lines(bar.rank), requested if missing else None))
    if missing:
        parts.append(_missing(MISSING_PART, requested, missing))
    if total > requested + missing:
        parts.append(plain_part(OUTSIDE, requested + missing, total, total - requested))
    return tuple(parts)


def host_parts_of(account: NodeAccount) -> tuple[Part, ...]:
    """Return the segments of a machine's bar, from the left."""
    capacity, left = account.capacity_bytes, account.left_bytes or 0
    missing = max(-left, 0)
    parts = list(_lines(account.lines, capacity if missing else None))
    if capacity is not None and missing:
        parts.append(_missing(MISSING_CPU, capacity, missing))
    elif capacity is not None and left:
        parts.append(plain_part(FREE, capacity - left, capacity, left))
    return tuple(parts)


def _lines(
    lines: Iterable[Line | NodeLine], covered_from: int | None
) -> Iterator[Part]:
    """Yield the lines one behind the other; a missing part covers what is behind."""
    start = 0
    for line in lines:
        if line.size_bytes <= 0:
            continue
        end = start + line.size_bytes
        is_seen = covered_from is not None and start < covered_from
        yield Part(
            name=line.name,
            size_bytes=line.size_bytes,
            start_bytes=start,
            end_bytes=min(end, covered_from) if covered_from and is_seen else end,
            fill=swatch(line.name).fill,
            ink=swatch(line.name).label,
        )
        start = end


def _missing(name: str, start: int, size: int) -> Part:
    return Part(
        name=name,
        size_bytes=size,
        start_bytes=start,
        end_bytes=start + size,
        fill=MISSING,
        ink="",
    )


def plain_part(name: str, start: int, end: int, size: int) -> Part:
    """Return a part in which vLLM allocates nothing."""
    fill = str(NOTHING["color"])
    return Part(
        name=name, size_bytes=size, start_bytes=start, end_bytes=end, fill=fill, ink=""
    )


def sizes_by_name(plan: Plan) -> dict[str, str]:
    """Write the size of each part for a legend: the least to the most of the bars."""
    return _sizes(parts_of(plan, bar) for bar in bars(plan))


def host_sizes_by_name(plan: Plan) -> dict[str, str]:
    """Write the same for the bars of the machines."""
    return _sizes(host_parts_of(account) for account in shown_accounts(plan))


def _sizes(rows: Iterable[tuple[Part, ...]]) -> dict[str, str]:
    found: dict[str, list[int]] = {}
    for parts in rows:
        for part in parts:
            found.setdefault(part.name, []).append(part.size_bytes)
    return {name: span_text(sizes) for name, sizes in found.items()}


def span_text(sizes: list[int]) -> str:
    """Write one size, or the least and the most of several.

    >>> span_text([1 << 30, 1 << 30]), span_text([2 << 30, 1 << 30])
    ('1.00 GiB', '1.00 to 2.00 GiB')
    """
    least, most = format_gib(min(sizes)), format_gib(max(sizes))
    return most if least == most else f"{least.removesuffix(' GiB')} to {most}"


def soft_words(plan: Plan, drawn: tuple[Bar, ...]) -> str:
    """Explain the soft edge of the bar that limits the plan; empty without one."""
    limiting = [bar for bar in drawn if bar.rank is plan.limiting_rank]
    bar = next((bar for bar in (*limiting, *drawn) if soft_edge(bar)), None)
    return soft_text(bar) if bar else ""


def spoken(plan: Plan) -> str:
    """Describe the picture for a screen reader, as the chart's `aria-label`."""
    drawn = bars(plan)
    if not drawn:
        return f"No memory is allocated. {verdict_text(plan)}."
    kind, total = plan.gpu.kind, format_gib(plan.gpu.total_memory_bytes)
    each = f"one {kind}" if plan.gpus_total == 1 else f"each of {plan.gpus_total} GPUs"
    requested = format_gib(drawn[0].rank.requested_memory_bytes)
    sentences = [_spoken(plan, bar, is_named=len(drawn) > 1) for bar in drawn]
    return (
        f"Memory of {each} with {total}, of which vLLM may use {requested}: "
        f"{' '.join([*sentences, *filter(None, [host_spoken(plan)])])} "
        f"{verdict_text(plan)}."
    )


def _spoken(plan: Plan, bar: Bar, *, is_named: bool) -> str:
    lines = [f"{p.name} {format_gib(p.size_bytes)}" for p in parts_of(plan, bar)]
    soft = f". {soft_text(bar)}" if soft_edge(bar) else ""
    name = f"{bar.label}: " if is_named else ""
    return f"{name}{', '.join(lines)}{soft}."
