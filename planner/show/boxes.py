"""Memory bars drawn as plain HTML boxes, for pages without a script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from planner.show.charts.frame import Bar, end_bytes
from planner.show.charts.parts import Part, parts_of, sizes_by_name, soft_words
from planner.show.charts.traces import (
    MISSING_PART,
    OUTSIDE,
    line_before_cache,
    soft_edge,
)
from planner.show.html import Content, Html, fragment, tag
from planner.show.kv_cache import drawn_lines
from planner.show.palette import MISSING, css_background, swatch
from planner.show.pieces import listed
from planner.show.verdict import cache_name, missing_bytes, shown_lines
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.memory.account import Line
    from planner.memory.estimate import RankMemory
    from planner.planning.result import Plan


_BEYOND = (MISSING_PART, OUTSIDE)
"""What is drawn beyond the budget; lines that are there are covered."""
_HATCHED = {
    MISSING: f"repeating-linear-gradient(45deg, {MISSING} 0 3px, {MISSING}22 3px 9px)"
}


def drawing(spoken: str, *content: Content) -> Html:
    """Combine bars into one picture, with the sentence that a screen reader reads."""
    return tag("div", content, role="img", aria_label=spoken)


def memory_bar(
    plan: Plan, rank: RankMemory | None, lines: Iterable[Line], whole_bytes: int
) -> Html:
    """Draw a GPU: its lines, the missing memory, vLLM's budget, and its total."""
    parts = (
        (line.name, line.size_bytes, css_background(line.name, line.basis))
        for line in lines
    )
    drawn = list(boxes(parts, whole_bytes))
    if rank is not None:
        missing = missing_bytes(plan, rank)
        if missing:
            width = f"width:{100 * missing / whole_bytes:.3f}%"
            drawn.append(
                tag(
                    "span",
                    style=f"{width};outline:2px dashed {MISSING}",
                    title="missing",
                )
            )
        drawn.append(_mark("pl-requested", rank.requested_memory_bytes, whole_bytes))
    drawn.append(_mark("pl-total", plan.gpu.total_memory_bytes, whole_bytes))
    return tag("div", drawn, class_="pl-bar")


def plan_bar(plan: Plan, bar: Bar, whole_bytes: int) -> Html:
    """Draw the bar of a plan, twice as tall: names and sizes are in its segments.

    A segment that is too narrow for its name has it only in the legend.
    """
    requested, total = bar.rank.requested_memory_bytes, plan.gpu.total_memory_bytes
    backgrounds = {
        line.name: css_background(line.name, line.basis)
        for line in drawn_lines(bar.rank)
    }
    named = [_named_box(part, whole_bytes, backgrounds) for part in parts_of(plan, bar)]
    soft = _soft(bar, whole_bytes)
    marks = (
        _mark("pl-requested", requested, whole_bytes),
        _mark("pl-total", total, whole_bytes),
    )
    edges = f"vLLM may use {format_gib(requested)} of {format_gib(total)}"
    return fragment(
        tag("div", tag("b", bar.label), f" {edges}", class_="pl-bar-name"),
        tag("div", named, soft, marks, class_="pl-bar pl-hero"),
    )


def _named_box(part: Part, whole_bytes: int, backgrounds: dict[str, str]) -> Html:
    left = 100 * part.start_bytes / whole_bytes
    width = 100 * (part.end_bytes - part.start_bytes) / whole_bytes
    background = backgrounds.get(part.name) or _HATCHED.get(part.fill, part.fill)
    name = (part.name, tag("br"), tag("b", format_gib(part.size_bytes)))
    return tag(
        "span",
        tag("em", name, style=f"color:{part.ink}" if part.ink else None),
        style=f"left:{left:.3f}%;width:{width:.3f}%;background:{background}",
        title=part.name,
    )


def _soft(bar: Bar, whole_bytes: int) -> Html | None:
    """Draw where the KV cache may begin, from one colour to the other."""
    edge = soft_edge(bar)
    if edge is None:
        return None
    early, middle, late = edge
    cache, before = (
        swatch(name).fill for name in (cache_name(bar.rank), line_before_cache(bar))
    )
    share = 100 * (middle - early) / (late - early)
    stops = f"{cache}00, {cache}8C {share:.1f}%, {before}73 {share:.1f}%, {before}00"
    left, width = 100 * early / whole_bytes, 100 * (late - early) / whole_bytes
    return tag(
        "i",
        class_="pl-soft",
        style=f"left:{left:.3f}%;width:{width:.3f}%;"
        f"background:linear-gradient(90deg, {stops})",
    )


def strip(plan: Plan) -> Html:
    """Draw the memory of the limiting GPU as one thin line, without words."""
    rank = plan.limiting_rank
    if rank is None:
        return Html("")
    whole_bytes = end_bytes(plan, rank)
    parts = (
        (line.name, line.size_bytes, swatch(line.name).fill)
        for line in shown_lines(rank)
    )
    return fragment(boxes(parts, whole_bytes))


def boxes(parts: Iterable[tuple[str, int, str]], whole_bytes: int) -> Iterator[Html]:
    """Draw the parts of a bar: each its name, its size and its background."""
    for name, size_bytes, background in parts:
        if size_bytes > 0:
            width = f"width:{100 * size_bytes / whole_bytes:.3f}%"
            yield tag("span", style=f"{width};background:{background}", title=name)


def _mark(kind: str, at_bytes: int, whole_bytes: int) -> Html:
    return tag("i", class_=kind, style=f"left:{100 * at_bytes / whole_bytes:.3f}%")


def plan_legend(plan: Plan, drawn: tuple[Bar, ...]) -> Html:
    """Name every segment of a plan's bars with its size, and the soft edge."""
    sizes = sizes_by_name(plan)
    fills = {part.name: part.fill for bar in drawn for part in parts_of(plan, bar)}
    items: list[Content] = [
        (_swatch(fills[name]), name, " ", tag("b", size))
        for name, size in sizes.items()
    ]
    soft = soft_words(plan, drawn)
    if soft:
        items.append((tag("span", class_="pl-swatch pl-soft"), soft))
    return listed(items, "pl-legend")


def _swatch(fill: str) -> Html:
    return tag("span", class_="pl-swatch", style=f"background:{fill}")


def legend(colours: Iterable[tuple[str, str]]) -> Html:
    """Write a legend; each pair is a name and the memory line whose colour it has."""
    return listed(
        ((_swatch(swatch(colour).fill), name) for name, colour in colours),
        "pl-legend",
    )
