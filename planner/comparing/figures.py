"""The figures and lines of several plans, one row for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.result import Plan, RankMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of every plan."""

    name: str
    """As `Plan` or `RankMemory` calls it, or a memory line's name."""
    unit: str
    """bytes, tokens, requests, blocks, GPUs, or empty for a word."""
    values: tuple[Any, ...]
    """One per plan; None where the plan does not have it."""
    is_line: bool = False
    """Whether it is a line of the memory account."""

    @property
    def differences(self) -> tuple[float | int | None, ...]:
        """Each value less the first; None where one is missing or is a word."""
        first = self.values[0]
        return tuple(
            value - first if self.unit and None not in (value, first) else None
            for value in self.values
        )

    @property
    def is_same(self) -> bool:
        """Whether all plans agree."""
        return all(value == self.values[0] for value in self.values)


def _of_rank(name: str) -> Callable[[Plan], Any]:
    """Read a figure of the rank that limits the plan."""

    def read(plan: Plan) -> int | None:
        value: int | None = getattr(plan.limiting_rank, name, None)
        return value

    return read


def _of_plan(name: str) -> Callable[[Plan], Any]:
    """Read a figure that a plan has once something is allocated."""

    def read(plan: Plan) -> float | None:
        value: float | None = getattr(plan, name) if plan.ranks else None
        return value

    return read


def _max_model_len(plan: Plan) -> int | None:
    return plan.resolved.max_model_len if plan.resolved is not None else None


_FIGURES: tuple[tuple[str, str, Callable[[Plan], Any]], ...] = (
    ("verdict", "", lambda plan: str(plan.outcome)),
    ("gpus_total", "GPUs", lambda plan: plan.gpus_total),
    ("total_memory_bytes", "bytes", lambda plan: plan.gpu.total_memory_bytes),
    ("requested_memory_bytes", "bytes", _of_rank("requested_memory_bytes")),
    ("available_kv_cache_bytes", "bytes", _of_rank("available_kv_cache_bytes")),
    ("available_kv_cache_low_bytes", "bytes", _of_rank("available_kv_cache_low_bytes")),
    ("kv_cache_size_tokens", "tokens", _of_plan("kv_cache_size_tokens")),
    ("max_concurrency", "requests", _of_plan("max_concurrency")),
    ("max_concurrency_low", "requests", _of_plan("max_concurrency_low")),
    ("max_model_len", "tokens", _max_model_len),
    ("max_model_len_that_fits", "tokens", _of_plan("max_model_len_that_fits")),
    ("num_gpu_blocks", "blocks", _of_plan("num_gpu_blocks")),
    ("margin_bytes", "bytes", lambda plan: plan.margin_bytes),
)


def rows(plans: Sequence[Plan]) -> tuple[Row, ...]:
    """Return the figures, then the memory lines of each plan's limiting rank."""
    figures = [
        Row(name=name, unit=unit, values=tuple(read(plan) for plan in plans))
        for name, unit, read in _FIGURES
    ]
    ranks = [plan.limiting_rank for plan in plans]
    names = dict.fromkeys(
        line.name for rank in ranks if rank is not None for line in rank.lines
    )
    lines = [
        Row(
            name=name,
            unit="bytes",
            values=tuple(_line_bytes(rank, name) for rank in ranks),
            is_line=True,
        )
        for name in names
    ]
    return (*figures, *lines)


def _line_bytes(rank: RankMemory | None, name: str) -> int | None:
    """Return a line's size; 0 where the account has no such line."""
    if rank is None:
        return None
    return sum(line.size_bytes for line in rank.lines if line.name == name)
