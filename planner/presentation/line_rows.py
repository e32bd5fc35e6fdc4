"""A line of an account in a table: its figures, and the row below that explains it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from planner.presentation.palette import css_background
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.memory.host import NodeLine
    from planner.result import Line


def line_rows(line: Line | NodeLine, key: str, *, beside: str, explained: str) -> str:
    """Write both rows; `beside` and `explained` are HTML.

    `key` tells the page which line a reader has opened.
    """
    background = css_background(line.name, line.basis)
    return (
        f"<tr class='pl-line' data-key='{escape(key)}'><th scope='row'>"
        f"<span class='pl-swatch' style='background:{background}'></span>"
        f"<span class='pl-line-name'>{escape(line.name)}</span></th>"
        f"<td class='pl-number'>{format_gib(line.size_bytes)}</td>"
        f"<td class='pl-number pl-range'>{beside}</td>"
        f"<td class='pl-basis'>{line.basis}</td></tr>"
        f"<tr class='pl-explained'><td colspan='4'>{explained}</td></tr>"
    )
