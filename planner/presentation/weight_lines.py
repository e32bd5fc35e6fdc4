"""The line of the weights, taken apart by what users switched on or may switch off.

The account has one line for all weights, as vLLM's log has. Adapters, a draft and
encoders are what somebody decides about, so a picture shows them beside the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.units import format_gib

if TYPE_CHECKING:
    from planner.result import Line, RankMemory

WEIGHTS = "weights"
APART = {
    "vision and audio towers": "encoders",
    "LoRA adapters": "LoRA adapters",
    "draft model": "draft model",
}
"""Parts of the weights that are drawn apart, and what a picture calls them."""


def parts_apart(rank: RankMemory) -> tuple[Line, ...]:
    """Return what is drawn apart of a rank's weights; empty for most models."""
    line = _weights(rank)
    if line is None:
        return ()
    return tuple(
        replace(
            line,
            name=APART[part.name],
            size_bytes=part.size_bytes,
            low_bytes=part.size_bytes,
            high_bytes=part.size_bytes,
            why=f"part of the weights, which are {format_gib(line.size_bytes)} in all",
        )
        for part in rank.weight_parts
        if part.name in APART and part.size_bytes > 0
    )


def drawn_lines(rank: RankMemory) -> tuple[Line, ...]:
    """Return the lines of an account as they are drawn: the same sum, more segments."""
    apart = parts_apart(rank)
    if not apart:
        return rank.lines
    taken = sum(line.size_bytes for line in apart)
    drawn: list[Line] = []
    for line in rank.lines:
        if line.name != WEIGHTS:
            drawn.append(line)
            continue
        rest = line.size_bytes - taken
        drawn += [replace(line, size_bytes=rest, low_bytes=rest, high_bytes=rest)]
        drawn += apart
    return tuple(drawn)


def _weights(rank: RankMemory) -> Line | None:
    return next((line for line in rank.lines if line.name == WEIGHTS), None)
