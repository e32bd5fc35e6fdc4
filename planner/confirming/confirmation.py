"""Confirmation: a plan, what vLLM measured, and what the difference means.

The functions at the end return confirmations and their parts as plain values: for JSON,
tables and the results file of a sweep.
"""

from __future__ import annotations

from dataclasses import asdict, field
from enum import StrEnum
from typing import Any

from planner.confirming.film import Film
from planner.confirming.measurement import Measurement
from planner.engine.settings import given_arguments
from planner.planning.result import Plan
from planner.values import frozen
from planner.views import Charted, Framed

_ROUNDED_BYTES = (1 << 30) // 200
"""Half of 0.01 GiB: the error of a log's rounding."""


class Confirmed(StrEnum):
    """Whether a start confirms its plan."""

    CONFIRMED = "confirmed"
    """It ended as planned, with every figure inside its range."""
    OFF = "off"
    """It ended as planned, but a figure is outside its range."""
    CONTRADICTED = "contradicted"
    """It started although the plan does not fit, or failed although the plan fits."""
    OPEN = "open"
    """The plan was too close to call, or the start was stopped before its outcome."""


@frozen
class ComparisonRow:
    """One figure of the plan beside the same figure of the measurement."""

    name: str
    unit: str
    """bytes, blocks, tokens or requests."""
    estimated: float | int | None
    low: float | int | None = None
    """Low end of the estimate's range; None if it has no range."""
    high: float | int | None = None
    measured: float | int | None = None
    basis: str = ""
    """The estimate's basis: exact, formula, measured or assumed."""
    is_rounded: bool = False
    """Whether the measured figure comes from a log, which rounds to 0.01 GiB."""

    @property
    def difference(self) -> float | int | None:
        """Measured minus estimated; None if one is missing."""
        if self.estimated is None or self.measured is None:
            return None
        return self.measured - self.estimated

    @property
    def is_inside(self) -> bool | None:
        """Whether the measured figure is in the range; None if a figure is missing.

        An exact estimate without a range must be met exactly; any other estimate
        without a range has no verdict: None.
        """
        if self.measured is None or self.estimated is None:
            return None
        if self.low is None and self.basis != "exact":
            return None
        low = self.estimated if self.low is None else self.low
        high = self.estimated if self.high is None else self.high
        slack = _ROUNDED_BYTES if self.is_rounded else 0
        return low - slack <= self.measured <= high + slack


@frozen
class GivenMemory:
    """The plan's figures for the memory that vLLM measured.

    Separates the two halves of an estimate: how much memory is left for the KV cache,
    which only a start on a GPU shows for certain, and the blocks, tokens and
    concurrency that follow from it, which are exact.
    """

    available_kv_cache_bytes: int
    """As measured."""
    num_gpu_blocks: int
    kv_cache_size_tokens: int
    max_concurrency: float
    error: str | None = None
    """vLLM's error with this memory, if it refuses to start."""
    is_exact: bool
    """Whether all figures equal vLLM's; concurrency to the digits that it reports."""


@frozen
class Confirmation(Framed, Charted):
    """A plan beside the start that confirms or contradicts it."""

    plan: Plan
    measurement: Measurement
    outcome: Confirmed
    rows: tuple[ComparisonRow, ...]
    given: GivenMemory | None
    """None if the KV cache's memory was not measured."""
    reasons: tuple[str, ...]
    """Why the two may differ, the likeliest first; empty if they agree."""
    notes: tuple[str, ...] = ()
    """Further remarks for the reader: what was stored, what could not be."""
    log_text: str = ""
    """vLLM's whole log."""
    film: Film | None = field(default=None, repr=False)
    """The first GPU's memory while vLLM started; None unless the run is filmed."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything except vLLM's log as plain values; sizes in whole bytes."""
        return confirmation_dict(self)


def confirmation_dict(confirmation: Confirmation) -> dict[str, Any]:
    """Return everything except vLLM's log; sizes in whole bytes."""
    return {
        "outcome": str(confirmation.outcome),
        "plan": confirmation.plan.to_dict(),
        "measured": measurement_dict(confirmation.measurement),
        "rows": [row_dict(row) for row in confirmation.rows],
        "given_memory": None
        if confirmation.given is None
        else asdict(confirmation.given),
        "reasons": list(confirmation.reasons),
        "notes": list(confirmation.notes),
    }


def row_dict(row: ComparisonRow) -> dict[str, Any]:
    """Return one row of the comparison."""
    return asdict(row) | {"difference": row.difference, "is_inside": row.is_inside}


def measurement_dict(measured: Measurement) -> dict[str, Any]:
    """Return what was measured in one start, its log's figures included."""
    return {
        "vllm_version": measured.vllm_version,
        "device_name": measured.device_name,
        "driver_version": measured.driver_version,
        "date": measured.date,
        "is_started": measured.is_started,
        "error": measured.error,
        "weights_bytes": measured.weights_bytes,
        "available_kv_cache_bytes": measured.available_kv_cache_bytes,
        "cudagraph_bytes": measured.cudagraph_bytes,
        "num_gpu_blocks": measured.num_gpu_blocks,
        "kv_cache_size_tokens": measured.kv_cache_size_tokens,
        "max_concurrency": measured.max_concurrency,
        "workers": [asdict(worker) for worker in measured.workers],
        "engine": asdict(measured.engine),
        "lines": [asdict(line) for line in measured.lines],
        "log": measured.log.to_dict(),
        "generated_tokens": list(measured.generated_tokens),
        "generated_text": measured.generated_text,
        "load": None if measured.load is None else asdict(measured.load),
        "is_dummy": measured.is_dummy,
        "is_compile_cache_cold": measured.is_compile_cache_cold,
        "seconds": round(measured.seconds, 1),
    }


def question_dict(plan: Plan) -> dict[str, Any]:
    """Return the inputs of a plan, from which it can be made again."""
    return {
        "model": plan.name,
        "gpu": plan.gpu.name,
        "total_memory_bytes": plan.gpu.total_memory_bytes,
        "vllm_version": plan.vllm_version,
        "entrypoint": plan.entrypoint,
        "env": dict(plan.env),
        "arguments": given_arguments(plan.settings),
    }
