"""How long a lesson takes in a room, as the kit says that it is computed."""

from __future__ import annotations

import re

import nbformat

from planner import learn
from tools.notebooks import Edition

WORDS_A_MINUTE = 130
"""Read aloud."""
_EXPLAIN, _PREDICT, _DRAG = 2, 1, 1
_CELLS_A_MINUTE = 6
"""To look at what a cell shows."""
_TO_NEAREST = 5
HOME = "## What could go wrong"
"""Where the part for home begins."""


def minutes_of(edition: Edition) -> int:
    """Return the minutes of a lesson with all of its exercises, to the nearest 5."""
    cells = nbformat.read(edition.path, as_version=4).cells
    home = next(at for at, cell in enumerate(cells) if HOME in cell.source)
    shown = cells[:home]
    words = sum(
        len(re.findall(r"[\w'-]+", cell.source))
        for cell in shown
        if cell.cell_type == "markdown"
    )
    looks = sum(cell.cell_type == "code" for cell in shown)
    exercises = learn.exercises(int(edition.path.stem[0]))
    taken = (
        words / WORDS_A_MINUTE
        + looks / _CELLS_A_MINUTE
        + sum(one.minutes for one in exercises)
        + _EXPLAIN
        + _PREDICT
        + _DRAG
    )
    return _TO_NEAREST * round(taken / _TO_NEAREST)
