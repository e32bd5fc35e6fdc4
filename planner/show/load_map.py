"""A map of loads as text and HTML, and the texts of its cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.frames import columns
from planner.show.html import Content, Html, tag
from planner.show.page import wide_page
from planner.show.pieces import listed, table_html
from planner.show.verdict import subject
from planner.solve.load_map import NOT, SERVED, STARTS
from planner.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.solve.load_map import LoadCell, LoadMap

LEGEND = (
    "✔ all are served; ! vLLM starts, and serves as many as the cell says; "
    "✘ it does not start."
)
_SIGNS = {SERVED: "✔", STARTS: "!", NOT: "✘"}


def cell_text(cell: LoadCell) -> str:
    """Write a cell: a sign, and how many of the requests are served.

    >>> from planner import Load
    >>> from planner.solve import LoadCell
    >>> load = Load(prompt_tokens=1000, output_tokens=10, requests=20)
    >>> cell_text(LoadCell(load=load, state="starts", requests_served=7))
    '! 7 of 20'
    """
    sign = _SIGNS[cell.state]
    if cell.state == STARTS:
        return f"{sign} {cell.requests_served:,} of {cell.load.requests:,}"
    return f"{sign} {cell.load.requests:,}" if cell.state == SERVED else sign


def hover_text(cell: LoadCell) -> str:
    """Write the label that a pointer over a cell shows."""
    load = cell.load
    where = (
        f"prompts of {load.prompt_tokens:,}, answers of "
        f"{counted(load.output_tokens, 'tokens')}"
    )
    lines = [f"<b>{cell_text(cell)}</b>", where, *filter(None, [_first(cell.why)])]
    return "<br>".join(lines)


def _first(why: str) -> str:
    sentence = why.partition(". ")[0]
    return sentence.replace("<", "&lt;")[:120]


def map_title(found: LoadMap) -> str:
    """Name the start, and what is across and down."""
    return (
        f"Requests at once that {subject(found.plan)} serves, by prompt length; "
        f"answers of {counted(found.load.output_tokens, 'tokens')}"
    )


def map_text(found: LoadMap) -> str:
    """Write the map for a terminal."""
    rows = [[f"{number:,}", *map(cell_text, cells)] for number, cells in _rows(found)]
    lines = columns([_head(found), *rows])
    return "\n".join([map_title(found), "", *lines, "", LEGEND])


def _head(found: LoadMap) -> list[str]:
    return ["Requests \\ prompt tokens", *(f"{prompt:,}" for prompt in found.prompts)]


def _rows(found: LoadMap) -> Iterator[tuple[int, tuple[LoadCell, ...]]]:
    """Yield each number of requests with its cells, fewest first."""
    for place, number in enumerate(found.requests):
        yield number, found.cells[place :: len(found.requests)]


def map_html(found: LoadMap) -> Html:
    """Show the map as a table; needs no script."""
    rows = ([f"{number:,}", *map(_cell, cells)] for number, cells in _rows(found))
    return wide_page(table_html(map_title(found), _head(found), rows), listed([LEGEND]))


def _cell(cell: LoadCell) -> Content:
    text = cell_text(cell)
    return text if cell.state == SERVED else tag("span", text, class_="pl-short")


def spoken_map(found: LoadMap) -> str:
    """Describe the map for a screen reader, as the chart's `aria-label`."""
    served = [cell for cell in found.cells if cell.state == SERVED]
    count = f"{len(served)} of {len(found.cells)} loads are served"
    if not served:
        return f"{map_title(found)}: {count}."
    most = max(served, key=lambda one: (one.load.requests, one.load.prompt_tokens))
    longest = max(served, key=lambda one: (one.load.prompt_tokens, one.load.requests))
    return (
        f"{map_title(found)}: {count}, up to {counted(most.load.requests, 'requests')} "
        "with "
        f"prompts of {counted(most.load.prompt_tokens, 'tokens')}, and up to "
        f"{counted(longest.load.prompt_tokens, 'tokens')} with "
        f"{longest.load.requests:,} of them."
    )
