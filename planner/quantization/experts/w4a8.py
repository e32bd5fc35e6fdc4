"""Experts of 4 bit weights and 8 bit activations."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import UnknownArchitecture
from planner.parallel import ParallelLayout
from planner.tensors import ExpertsOnRank, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class W4A8Fp8Experts:
    """INT4 weights, FP8 activations."""

    group_size: int = 128

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        raise UnknownArchitecture(f"quantised experts of {on_rank.name} {layout}")


@dataclass(frozen=True, slots=True, kw_only=True)
class W4A8Int8Experts:
    """INT4 weights, INT8 activations."""

    group_size: int = -1

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        raise UnknownArchitecture(f"quantised experts of {on_rank.name} {layout}")
