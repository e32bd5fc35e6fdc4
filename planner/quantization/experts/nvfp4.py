"""NVFP4 experts: 4 bit floats with a scale for 16."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import UnknownArchitecture
from planner.parallel import ParallelLayout
from planner.tensors import ExpertsOnRank, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class NvFp4Experts:
    """As ModelOpt and compressed-tensors publish them."""

    is_compressed_tensors: bool = False
    has_input_scale: bool = True

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        raise UnknownArchitecture(f"quantised experts of {on_rank.name} {layout}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NvFp4OnlineExperts:
    """Weights made NVFP4 while loading."""

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        raise UnknownArchitecture(f"quantised experts of {on_rank.name} {layout}")
