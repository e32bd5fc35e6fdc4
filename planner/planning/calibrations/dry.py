"""Figures of a dry run in place of a plan's estimates.

vLLM's own start, on a GPU that is not there, determines what PyTorch allocates to the
byte. What only a driver allocates stays the planner's estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.memory.account import Basis, Line
from planner.memory.estimate import RankMemory
from planner.units import format_size
from planner.values import frozen


@frozen
class DryRank:
    """What vLLM measured on one pipeline stage, in bytes."""

    weights_bytes: int | None
    """Model loading took."""
    persistent_bytes: int | None
    """What remains allocated after the profile run, without the weights."""
    peak_bytes: int | None
    """Peak activation."""
    cold_peak_bytes: int | None = None
    """The same of a start that compiled the model; None: unknown."""


@frozen
class DryFigures:
    """A dry run of the very start that is planned."""

    vllm_version: str
    ranks: tuple[DryRank, ...]
    """One of each pipeline stage."""
    is_compile_cache_cold: bool | None = None
    """Whether vLLM compiled the model; None: it compiles nothing."""


def dry_lines(
    lines: Sequence[Line], figures: DryFigures, pp_rank: int
) -> tuple[Line, ...]:
    """Return a rank's lines with the dry run's figures in place of estimates."""
    if pp_rank >= len(figures.ranks):
        return tuple(lines)
    rank = figures.ranks[pp_rank]
    sizes = {
        "weights": rank.weights_bytes,
        "persistent buffers": rank.persistent_bytes,
        "peak activation": rank.peak_bytes,
    }
    return tuple(
        line
        if (size := sizes.get(line.name)) is None
        else _line(line, size, figures, rank.cold_peak_bytes)
        for line in lines
    )


def with_dry_cache(rank: RankMemory) -> RankMemory:
    """Return a rank whose KV cache is known to follow from a dry run."""
    return replace(
        rank,
        lines=tuple(
            replace(line, basis=Basis.DRY_RUN)
            if line.name == "KV cache" and line.basis is Basis.FORMULA
            else line
            for line in rank.lines
        ),
    )


def _line(
    line: Line, size_bytes: int, figures: DryFigures, cold_peak_bytes: int | None
) -> Line:
    is_peak = line.name == "peak activation"
    cache = _cache_words(figures.is_compile_cache_cold, cold_peak_bytes)
    is_same = size_bytes == line.size_bytes
    return replace(
        line,
        size_bytes=size_bytes,
        low_bytes=size_bytes,
        high_bytes=size_bytes,
        basis=Basis.DRY_RUN,
        why=(
            f"{size_bytes:,} bytes in vLLM {figures.vllm_version}'s own start without "
            f"a GPU{cache if is_peak else ''}; "
            f"{'as estimated' if is_same else f'estimated: {line.why}'}"
        ),
    )


def _cache_words(is_cold: bool | None, cold_peak_bytes: int | None) -> str:
    """Name the compile cache of a peak, and the peak of a cold one if it is known."""
    names = {None: "", True: ", cold compile cache", False: ", warm compile cache"}
    if cold_peak_bytes is None:
        return names[is_cold]
    return f"{names[is_cold]}; with a cold compile cache {format_size(cold_peak_bytes)}"
