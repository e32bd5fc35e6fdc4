"""MXFP4 experts: 4 bit floats with a power of two for 32."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import UnknownArchitecture
from planner.parallel import ParallelLayout
from planner.tensors import ExpertsOnRank, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Mxfp4Experts:
    """As gpt-oss, DeepSeek-V4 and compressed-tensors checkpoints publish them."""

    source: str = "mxfp4"

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        raise UnknownArchitecture(f"quantised experts of {on_rank.name} {layout}")
