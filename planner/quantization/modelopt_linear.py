"""Linear layers of ModelOpt checkpoints, by algorithm.

Source: vLLM 0.33.0 `layers/quantization/modelopt.py` ModelOptLinearMethod, resolve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.errors import Refused
from planner.parallel import ParallelLayout
from planner.quantization import fp8_kernels
from planner.quantization.capabilities import BLACKWELL
from planner.quantization.fp4_linear import NvFp4Linear
from planner.quantization.fp8 import Fp8TensorLinear
from planner.quantization.mxfp8_linear import Mxfp8Linear
from planner.quantization.rounding import round_up
from planner.tensors import LinearMethod, LinearOnRank, Tensor

_FP4_GROUP = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptNvFp4Linear:
    """NVFP4, for inputs in sixteens."""

    has_input_scale: bool
    """False for 16 bit activations (W4A16)."""

    def tensors(
        self, on_rank: LinearOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weight and scales on a rank.

        Raises:
            Refused: in vLLM's words, for inputs that 16 does not divide.
        """
        if on_rank.input_size_per_partition % _FP4_GROUP:
            raise Refused(
                "Unsupported model when in features size is not multiple of 16"
            )
        held = NvFp4Linear(has_input_scale=self.has_input_scale)
        tensors = held.tensors(on_rank, layout)
        if layout.release.keeps_raw_nvfp4_scales and layout.capability >= BLACKWELL:
            groups = on_rank.input_size_per_partition // _FP4_GROUP
            raw = Tensor(on_rank.output_size_per_partition * groups, fp8_kernels.FP8)
            return (*tensors, raw)
        return tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptChannelLinear:
    """FP8 with one scale for each row, activations with one for each token."""

    def tensors(
        self, on_rank: LinearOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weight and scales on a rank."""
        rows = on_rank.output_size_per_partition
        return fp8_kernels.scaled_tensors(on_rank, layout, num_scales=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptBlockLinear:
    """FP8 with one scale for 128 x 128; rows are padded to whole blocks."""

    model_type: str

    def tensors(
        self, on_rank: LinearOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weight and scales on a rank.

        Raises:
            Refused: in vLLM's words, for inputs that 128 does not divide.
        """
        columns = on_rank.input_size_per_partition
        if columns % fp8_kernels.BLOCK:
            raise Refused(f"FP8_PB_WO requires in divisible by 128, got {columns}")
        rows = round_up(on_rank.output_size_per_partition, fp8_kernels.BLOCK)
        padded = replace(on_rank, output_partition_sizes=(rows,))
        return fp8_kernels.block_tensors(padded, layout, model_type=self.model_type)


def linear_method(algorithm: str, model_type: str) -> LinearMethod | None:
    """Return how a linear layer of an algorithm is held, None for no such.

    `model_type` is the language model's.
    """
    methods: dict[str, LinearMethod] = {
        "FP8": Fp8TensorLinear(has_input_scale=True),
        "FP8_PER_CHANNEL_PER_TOKEN": ModelOptChannelLinear(),
        "FP8_PB_WO": ModelOptBlockLinear(model_type=model_type),
        "NVFP4": ModelOptNvFp4Linear(has_input_scale=True),
        "W4A16_NVFP4": ModelOptNvFp4Linear(has_input_scale=False),
        "MXFP8": Mxfp8Linear(),
    }
    return methods.get(algorithm)
