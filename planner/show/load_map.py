"""A map of loads, and the texts of its cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.html import tag
from planner.show.sheet import Apart, Cell, Listing, Sheet, Table
from planner.show.speed import rate_text
from planner.show.verdict import subject
from planner.solve.load_map import NOT, SERVED, STARTS
from planner.units import counted

if TYPE_CHECKING:
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
    rest = filter(None, [_speed(cell), _first(cell.why)])
    lines = [f"<b>{cell_text(cell)}</b>", where, *rest]
    return "<br>".join(lines)


def _speed(cell: LoadCell) -> str:
    found = cell.tokens_per_second_each
    if found is None:
        return ""
    value, low, high = map(rate_text, (found.value, found.low, found.high))
    return f"about {value} ({low} to {high}) tokens per second for each"


def _first(why: str) -> str:
    sentence = why.partition(". ")[0]
    return sentence.replace("<", "&lt;")[:120]


def map_title(found: LoadMap) -> str:
    """Name the start, and what is across and down."""
    return (
        f"Requests at once that {subject(found.plan)} serves, by prompt length; "
        f"answers of {counted(found.load.output_tokens, 'tokens')}"
    )


def sheet(found: LoadMap) -> Sheet:
    """Say in a cell for each load what is served."""
    columns = [
        "Requests \\ prompt tokens",
        *(f"{prompt:,}" for prompt in found.prompts),
    ]
    rows = [
        [f"{number:,}", *map(_cell, found.cells[place :: len(found.requests)])]
        for place, number in enumerate(found.requests)
    ]
    return Sheet((Table(map_title(found), columns, rows), Listing([LEGEND])))


def _cell(cell: LoadCell) -> Cell:
    text = cell_text(cell)
    if cell.state == SERVED:
        return text
    return Apart(text, tag("span", text, class_="pl-short"))


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
