"""Experts of 4 or 8 bit integers with scales by group."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import UnknownArchitecture
from planner.parallel import ParallelLayout
from planner.tensors import ExpertsOnRank, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class GPTQExperts:
    """As `auto_gptq` checkpoints publish them."""

    num_bits: int
    group_size: int
    desc_act: bool = False
    is_sym: bool = True

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        raise UnknownArchitecture(f"quantised experts of {on_rank.name} {layout}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AWQExperts:
    """As `auto_awq` checkpoints publish them."""

    num_bits: int
    group_size: int
    has_zero_point: bool = True

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        raise UnknownArchitecture(f"quantised experts of {on_rank.name} {layout}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedExperts:
    """As compressed-tensors checkpoints of format pack-quantized publish them."""

    num_bits: int
    group_size: int
    is_sym: bool = True
    has_act_order: bool = False

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        raise UnknownArchitecture(f"quantised experts of {on_rank.name} {layout}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeWNA16Experts:
    """As vLLM's method moe_wna16 holds GPTQ and AWQ checkpoints."""

    num_bits: int
    group_size: int
    has_zero_point: bool = False

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        raise UnknownArchitecture(f"quantised experts of {on_rank.name} {layout}")
