"""Confirmation: a plan, what vLLM measured, and what the difference means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from planner.confirming.as_dict import confirmation_dict
from planner.confirming.measurement import Measurement
from planner.result import Plan

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure


class Confirmed(StrEnum):
    """What a start says about its plan."""

    CONFIRMED = "confirmed"
    """It ended as planned, with every figure inside its range."""
    OFF = "off"
    """It ended as planned, but a figure lies outside its range."""
    CONTRADICTED = "contradicted"
    """It started although the plan said no, or failed although the plan said yes."""
    OPEN = "open"
    """The plan was too close to call, or the start was stopped before it could tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One figure of the plan beside the same of the measurement."""

    name: str
    unit: str
    """bytes, or what is counted: blocks, tokens, requests."""
    estimated: float | int | None
    low: float | int | None = None
    """Low end of the estimate's range; None where it has none."""
    high: float | int | None = None
    measured: float | int | None = None
    basis: str = ""
    """Of the estimate: exact, formula, measured or assumed."""
    is_rounded: bool = False
    """Whether the measured figure comes from a log, which rounds to 0.01 GiB."""

    @property
    def difference(self) -> float | int | None:
        """Measured minus estimated; None where one is missing."""
        if self.estimated is None or self.measured is None:
            return None
        return self.measured - self.estimated

    @property
    def is_inside(self) -> bool | None:
        """Whether the measured figure lies in the range; None where one is missing.

        An exact figure without a range must be met exactly; another one without a range
        cannot be wrong.
        """
        if self.measured is None or self.estimated is None:
            return None
        if self.low is None and self.basis != "exact":
            return None
        low = self.estimated if self.low is None else self.low
        high = self.estimated if self.high is None else self.high
        slack = _ROUNDED_BYTES if self.is_rounded else 0
        return low - slack <= self.measured <= high + slack


_ROUNDED_BYTES = (1 << 30) // 200
"""Half of 0.01 GiB: what a log's rounding hides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenMemory:
    """What the plan says once it is told the memory that vLLM measured.

    Separates the two halves of an estimate: how much memory is left for the KV cache,
    which only a GPU knows for certain, and what vLLM makes of it, which is exact.
    """

    available_kv_cache_bytes: int
    """As measured."""
    num_gpu_blocks: int
    kv_cache_size_tokens: int
    max_concurrency: float
    error: str | None = None
    """What vLLM says with this memory, where it then refuses to start."""
    is_exact: bool
    """Whether all of it equals what vLLM said; concurrency to the digits told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A plan beside the start that checked it."""

    plan: Plan
    measurement: Measurement
    outcome: Confirmed
    rows: tuple[ComparisonRow, ...]
    given: GivenMemory | None
    """None where nothing was measured to be given."""
    reasons: tuple[str, ...]
    """Why the two may differ, the likeliest first; empty where they agree."""
    notes: tuple[str, ...] = ()
    """What else a reader must know: what was stored, what could not be."""
    log_text: str = ""
    """vLLM's whole log."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything but vLLM's log as plain values; sizes in whole bytes."""
        return confirmation_dict(self)

    def to_frame(self) -> DataFrame:
        """Return the comparison as a pandas frame, one row per figure."""
        from planner.presentation.frames import confirmation_frame  # noqa: PLC0415

        return confirmation_frame(self)

    def figure(self) -> Figure:
        """Return estimate and measurement side by side as a plotly figure."""
        from planner.charts.confirmed_bars import figure  # noqa: PLC0415

        return figure(self)

    def __str__(self) -> str:
        """Return the confirmation as text for a terminal."""
        from planner.presentation.confirmation_text import (  # noqa: PLC0415
            confirmation_text,
        )

        return confirmation_text(self)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, Any]:
        from planner.presentation.confirmation import mimebundle  # noqa: PLC0415

        return mimebundle(self)
