"""A plan as text: verdict, memory lines with their arithmetic, figures and command.

On a terminal, a bar shows each rank's memory, and its patterns the lines below it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from planner.planning.machines import commands_text
from planner.planning.words import fails, holds
from planner.show.figures import NONE, Figure, key_figures, start_figures
from planner.show.terminal import Screen, fold, row, width_of
from planner.show.verdict import (
    budget,
    error_text,
    noted,
    rank_title,
    shown_lines,
    subject,
    verdict_text,
)
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.memory.estimate import RankMemory
    from planner.planning.result import Plan

_PATTERNS = {
    "weights": "█",
    "persistent buffers": "▓",
    "peak activation": "░",
    "non-torch": "▚",
    "CUDA graphs": "▞",
    "KV cache": "▒",
}
_OTHER_PATTERNS = "▤▥▦▧▨▩"
_REST, _EDGE = "·", "│"
_LONGEST_BAR = 100
_FIGURE_COLUMN = 23


def plan_text(plan: Plan, screen: Screen | None = None) -> str:
    """Write the whole plan; the verdict comes first.

    Args:
        plan: what is shown.
        screen: where; None: as text for a width of COLUMNS, else 80.
    """
    seen = Screen(width=width_of()) if screen is None else screen
    width = seen.width
    lines = fold(f"{subject(plan)}, vLLM {plan.vllm_version}", width)
    lines += [seen.painted("\n".join(fold(verdict_text(plan), width)))]
    if plan.error is not None:
        lines.append("")
        for line in error_text(plan.error).splitlines():
            lines += fold(line, width)
    for rank in plan.ranks:
        lines += ["", *_rank_lines(plan, rank, seen)]
    if any(account.is_worth_showing for account in plan.host):
        from planner.show.host import host_lines  # noqa: PLC0415 - few need it

        lines += host_lines(plan, width)
    lines += ["", *_outside_lines(plan, seen), *_figure_lines(plan, width)]
    for note in noted(plan):
        lines += fold(f"Note: {note}", width)
    return "\n".join([*lines, "", commands_text(plan)])


def _rank_lines(plan: Plan, rank: RankMemory, screen: Screen) -> list[str]:
    patterns = _patterns(rank) if screen.is_terminal else {}
    lines = [f"{rank_title(plan, rank)}: {budget(plan, rank)}"]
    if screen.is_terminal:
        lines.append(bar(plan, rank, screen))
    for line in shown_lines(rank):
        first, *rest = row(
            line.name,
            format_gib(line.size_bytes),
            line.basis,
            line.why,
            width=screen.width,
        )
        if patterns:
            style = _style_of(line.name) if screen.has_color else ""
            first = screen.dyed(patterns[line.name], style) + first[1:]
        lines += [first, *rest]
    return lines


def bar(plan: Plan, rank: RankMemory, screen: Screen) -> str:
    """Draw a rank's memory, with an edge where vLLM's budget ends.

    Each line takes its share of the cells, and at least one. Where more is needed than
    the budget, the lines go on beyond the edge.
    """
    budgeted, total = rank.requested_memory_bytes, plan.gpu.total_memory_bytes
    held = [line for line in shown_lines(rank) if line.size_bytes > 0]
    needed = sum(line.size_bytes for line in held)
    rest = max(total - max(needed, budgeted), 0)
    num_cells = min(screen.width, _LONGEST_BAR) - len(_EDGE)
    cells = shared_out([*(line.size_bytes for line in held), rest], num_cells)
    edge = sum(cells[:-1])
    if needed > budgeted:
        edge = min(round(budgeted / (needed + rest) * num_cells), edge)
    names = [
        line.name for line, cell in zip(held, cells, strict=False) for _ in range(cell)
    ]
    inside, beyond = names[:edge], [*names[edge:], *[_REST] * cells[-1]]
    marks = _patterns(rank)
    return "".join(
        [*_runs(inside, marks, screen), _EDGE, *_runs(beyond, marks, screen)]
    )


def _runs(
    names: Iterable[str], patterns: Mapping[str, str], screen: Screen
) -> Iterator[str]:
    """Yield the cells of each line in one piece, in its colour."""
    for name, cells in groupby(names):
        style = _style_of(name) if screen.has_color else ""
        yield screen.dyed(patterns.get(name, _REST) * sum(1 for _ in cells), style)


def shared_out(sizes: list[int], num_cells: int) -> list[int]:
    """Share cells out by size; what is more than nothing gets at least one.

    >>> shared_out([70, 29, 1, 0], 10)
    [7, 2, 1, 0]
    """
    whole = sum(sizes)
    if not whole:
        return [0] * len(sizes)
    exact = [size * num_cells / whole for size in sizes]
    cells = [max(int(one), 1) if one else 0 for one in exact]
    while sum(cells) < num_cells:
        at = max(range(len(cells)), key=lambda n: exact[n] - cells[n])
        cells[at] += 1
    while sum(cells) > num_cells:
        at = max(range(len(cells)), key=lambda n: (cells[n] > 1, cells[n] - exact[n]))
        cells[at] -= 1
    return cells


def _patterns(rank: RankMemory) -> dict[str, str]:
    """Return the pattern of each line of a rank, each another one."""
    others = iter(_OTHER_PATTERNS * len(rank.lines))
    names = [line.name for line in shown_lines(rank)]
    return {name: _PATTERNS.get(name) or next(others) for name in names}


def _style_of(name: str) -> str:
    """Return the colour that the page has for a line, as SGR parameters.

    Terminals without 16 million colours have a cube of 6 x 6 x 6. What is no line has
    none.
    """
    if name == _REST:
        return ""
    from planner.show.palette import swatch  # noqa: PLC0415 - few need it

    fill = swatch(name).fill
    red, green, blue = (int(fill[at : at + 2], 16) for at in (1, 3, 5))
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        return f"38;2;{red};{green};{blue}"
    levels = (round(one / 255 * 5) for one in (red, green, blue))
    number = 16 + sum(
        level * factor for level, factor in zip(levels, (36, 6, 1), strict=True)
    )
    return f"38;5;{number}"


def _outside_lines(plan: Plan, screen: Screen) -> list[str]:
    rank = plan.limiting_rank
    if rank is None or not rank.outside:
        return []
    room = plan.gpu.total_memory_bytes - rank.requested_memory_bytes
    text = (
        f"Outside vLLM's budget: {format_gib(rank.outside_bytes)} needed of "
        f"{format_gib(room)}"
    )
    is_drawn = screen.is_terminal and _REST in bar(plan, rank, screen)
    return [f"{text} ({_REST} in the bar)" if is_drawn else text]


def _figure_text(figure: Figure) -> str:
    """Write a figure with its unit behind it, or its range in brackets."""
    is_range = figure.detail[:1].isdigit() or figure.detail.startswith(NONE)
    detail = f"({figure.detail})" if figure.detail and is_range else figure.detail
    return f"{figure.text} {detail}"


def _figure_lines(plan: Plan, width: int) -> list[str]:
    served = plan.serving
    figures = dict.fromkeys((*key_figures(plan), *start_figures(plan)))
    rows = [(figure.name, _figure_text(figure)) for figure in figures]
    if served is not None and plan.ranks:
        counts = holds(served) if served.is_served else fails(served)
        rows.append(("The load", counts))
    return [
        line
        for name, text in rows
        for line in fold(
            f"{name + ':':<{_FIGURE_COLUMN}}{text}".rstrip(), width, _FIGURE_COLUMN
        )
    ]
