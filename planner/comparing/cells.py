"""What is kept of each plan of a sweep: its figures, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from planner.errors import PlannerError

if TYPE_CHECKING:
    from planner.result import Plan

NOT_PLANNED = "not planned"
"""The verdict of a cell whose input could not be planned."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The figures of one plan of a sweep; the plan itself can be made again.

    A plan is some 20 KiB, its figures are half a KiB: that is why a grid of many
    thousand keeps these only.
    """

    values: tuple[Any, ...]
    """Of the arguments that were swept over, in the order of the axes."""
    verdict: str
    """fits, too close to call, does not fit, refused, or not planned."""
    error_kind: str | None = None
    """vLLM's (refused, weights, no_kv, ...), or our error's name; None: it fits."""
    error: str | None = None
    gpus_total: int | None = None
    available_kv_cache_bytes: int | None = None
    """Of the limiting rank, as the figures below."""
    available_kv_cache_low_bytes: int | None = None
    weights_bytes: int | None = None
    requested_memory_bytes: int | None = None
    margin_bytes: int | None = None
    kv_cache_size_tokens: int | None = None
    max_concurrency: float | None = None
    max_concurrency_low: float | None = None
    max_model_len: int | None = None
    max_model_len_that_fits: int | None = None
    num_gpu_blocks: int | None = None

    @property
    def fits(self) -> bool:
        """Whether vLLM would start, even at the low end of the estimate's range."""
        return self.verdict == "fits"

    def figure(self, name: str) -> float | int | None:
        """Return the figure of that name; None where the cell has none.

        Raises:
            PlannerError: for an unknown name.
        """
        check_value(name)
        value: float | int | None = getattr(self, name)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A figure that a sweep can show."""

    label: str
    unit: str
    """bytes, tokens, requests, blocks or GPUs."""


VALUES: Mapping[str, Value] = MappingProxyType(
    {
        "max_concurrency": Value(label="Maximum concurrency", unit="requests"),
        "max_concurrency_low": Value(
            label="Maximum concurrency, at least", unit="requests"
        ),
        "kv_cache_size_tokens": Value(label="KV cache size", unit="tokens"),
        "available_kv_cache_bytes": Value(label="Available KV cache", unit="bytes"),
        "available_kv_cache_low_bytes": Value(
            label="Available KV cache, at least", unit="bytes"
        ),
        "max_model_len": Value(label="max_model_len", unit="tokens"),
        "max_model_len_that_fits": Value(label="Longest max_model_len", unit="tokens"),
        "weights_bytes": Value(label="Weights of a GPU", unit="bytes"),
        "requested_memory_bytes": Value(label="vLLM may use", unit="bytes"),
        "margin_bytes": Value(label="Left after one request", unit="bytes"),
        "num_gpu_blocks": Value(label="KV cache blocks", unit="blocks"),
        "gpus_total": Value(label="GPUs", unit="GPUs"),
    }
)
"""The figures of a cell, by name."""


def check_value(name: str) -> None:
    """Refuse a figure that a cell does not have.

    Raises:
        PlannerError: naming those that there are.
    """
    if name not in VALUES:
        raise PlannerError(f"value={name!r}: use one of {', '.join(VALUES)}.")


def cell_of(values: tuple[Any, ...], plan: Plan) -> Cell:
    """Keep the figures of a plan."""
    error, rank = plan.error, plan.limiting_rank
    if rank is None or plan.resolved is None:
        return Cell(
            values=values,
            verdict=str(plan.outcome),
            error_kind=error.kind if error else None,
            error=error.message if error else None,
            gpus_total=plan.gpus_total,
        )
    return Cell(
        values=values,
        verdict=str(plan.outcome),
        error_kind=error.kind if error else None,
        error=error.message if error else None,
        gpus_total=plan.gpus_total,
        available_kv_cache_bytes=rank.available_kv_cache_bytes,
        available_kv_cache_low_bytes=rank.available_kv_cache_low_bytes,
        weights_bytes=rank.weights_bytes,
        requested_memory_bytes=rank.requested_memory_bytes,
        margin_bytes=plan.margin_bytes,
        kv_cache_size_tokens=plan.kv_cache_size_tokens,
        max_concurrency=plan.max_concurrency,
        max_concurrency_low=plan.max_concurrency_low,
        max_model_len=plan.resolved.max_model_len,
        max_model_len_that_fits=plan.max_model_len_that_fits,
        num_gpu_blocks=plan.num_gpu_blocks,
    )


def not_planned(values: tuple[Any, ...], error: PlannerError) -> Cell:
    """Keep why there is no plan."""
    return Cell(
        values=values,
        verdict=NOT_PLANNED,
        error_kind=type(error).__name__,
        error=str(error),
    )
