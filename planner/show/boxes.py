"""Memory bars drawn as plain HTML boxes, for pages without a script."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from planner.show.html import Content, Html, tag
from planner.show.palette import MISSING, css_background, swatch
from planner.show.pieces import listed
from planner.show.verdict import missing_bytes

if TYPE_CHECKING:
    from planner.memory.account import Line
    from planner.memory.estimate import RankMemory
    from planner.planning.result import Plan


def drawing(spoken: str, *content: Content) -> Html:
    """Combine bars into one picture, with the sentence that a screen reader reads."""
    return tag("div", content, role="img", aria_label=spoken)


def memory_bar(
    plan: Plan, rank: RankMemory | None, lines: Iterable[Line], whole_bytes: int
) -> Html:
    """Draw a GPU: its lines, the missing memory, vLLM's budget, and its total."""
    drawn = [
        box(
            line.name,
            line.size_bytes,
            whole_bytes,
            css_background(line.name, line.basis),
        )
        for line in lines
        if line.size_bytes > 0
    ]
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


def box(name: str, size_bytes: int, whole_bytes: int, background: str) -> Html:
    """Draw one part of a bar."""
    width = f"width:{100 * size_bytes / whole_bytes:.3f}%"
    return tag("span", style=f"{width};background:{background}", title=name)


def _mark(kind: str, at_bytes: int, whole_bytes: int) -> Html:
    return tag("i", class_=kind, style=f"left:{100 * at_bytes / whole_bytes:.3f}%")


def legend(colours: Iterable[tuple[str, str]]) -> Html:
    """Write a legend; each pair is a name and the memory line whose colour it has."""
    return listed(
        (
            (
                tag(
                    "span",
                    class_="pl-swatch",
                    style=f"background:{swatch(colour).fill}",
                ),
                name,
            )
            for name, colour in colours
        ),
        "pl-legend",
    )
