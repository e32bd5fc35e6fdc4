"""FP8 experts: one scale an expert, a row or a block.

Source: vLLM 0.33.0 `layers/quantization/fp8.py` Fp8MoEMethod,
`layers/quantization/online/fp8.py`, `layers/fused_moe/oracle/fp8.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import UnknownArchitecture
from planner.parallel import ParallelLayout
from planner.tensors import ExpertsMethod, ExpertsOnRank, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Fp8TensorExperts:
    """One scale for each expert's w13 and w2."""

    is_static: bool = False
    """Whether activations have scales, published with the weights."""
    is_online: bool = False
    """Whether vLLM quantises while loading."""

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        raise UnknownArchitecture(f"quantised experts of {on_rank.name} {layout}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fp8ChannelExperts:
    """One scale for each row."""

    is_static: bool = False
    is_online: bool = False

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        raise UnknownArchitecture(f"quantised experts of {on_rank.name} {layout}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fp8BlockExperts:
    """One scale for each block of rows and columns."""

    block: tuple[int, int] = (128, 128)
    model_type: str = ""
    """vLLM leaves DeepGEMM aside for some."""
    is_online: bool = False

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        raise UnknownArchitecture(f"quantised experts of {on_rank.name} {layout}")


def fp8_experts(
    *, is_block: bool, is_static: bool, stores_mxfp4: bool, model_type: str
) -> ExpertsMethod:
    """Return how experts of an FP8 checkpoint are held."""
    if stores_mxfp4:
        raise UnknownArchitecture("quantization_config: store_dtype is not modelled.")
    if is_block:
        return Fp8BlockExperts(model_type=model_type)
    return Fp8TensorExperts(is_static=is_static)
