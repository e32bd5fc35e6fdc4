"""INT8 experts."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import UnknownArchitecture
from planner.parallel import ParallelLayout
from planner.tensors import ExpertsOnRank, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8ChannelExperts:
    """Weights and activations in INT8, from compressed-tensors."""

    is_static: bool = False

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        raise UnknownArchitecture(f"quantised experts of {on_rank.name} {layout}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8OnlineExperts:
    """Weights made INT8 while loading, one scale a row."""

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        raise UnknownArchitecture(f"quantised experts of {on_rank.name} {layout}")
