"""Quantisation while loading: the engine argument `quantization`.

Source: vLLM 0.33.0 `config/quantization.py` _ONLINE_SHORTHANDS and
`layers/quantization/online/`.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import Refused
from planner.parallel import ParallelLayout
from planner.quantization import fp8_kernels
from planner.quantization.experts.fp8 import (
    Fp8BlockExperts,
    Fp8ChannelExperts,
    Fp8TensorExperts,
)
from planner.quantization.experts.int8 import Int8OnlineExperts
from planner.quantization.experts.mxfp8 import Mxfp8Experts
from planner.quantization.experts.nvfp4 import NvFp4OnlineExperts
from planner.quantization.fp8 import Fp8BlockLinear, Fp8TensorLinear
from planner.quantization.interface import BaseConfig, Place
from planner.quantization.mxfp8_linear import Mxfp8Linear
from planner.quantization.rounding import round_up
from planner.tensors import ExpertsMethod, LinearMethod, LinearOnRank, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Fp8ChannelLinear:
    """A weight with one scale for each row, activations with one for each token.

    Source: vLLM 0.33.0 `layers/quantization/online/fp8.py` Fp8PtpcOnlineLinearMethod.
    """

    def tensors(
        self, on_rank: LinearOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weight and scales on a rank.

        Raises:
            Refused: on GPUs without FP8 arithmetic.
        """
        if fp8_kernels.runs_marlin(layout):
            raise Refused(
                "FP8 PTPC online quant requires a kernel that honors per-token "
                "activation quantization; MarlinFP8 is W8A16 weight-only. Requires "
                "SM89+ for Cutlass FP8 or ROCm MI3xx for rowwise scaled_mm."
            )
        rows = on_rank.output_size_per_partition
        return fp8_kernels.scaled_tensors(on_rank, layout, num_scales=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineConfig(BaseConfig):
    """One method for all linear layers and one for all routed experts."""

    linear_method: LinearMethod | None = None
    experts_method: ExpertsMethod | None = None

    def linear(self, place: Place) -> LinearMethod | None:  # noqa: ARG002
        """Quantise every linear layer alike."""
        return self.linear_method

    def experts(self, place: Place) -> ExpertsMethod | None:  # noqa: ARG002
        """Quantise all routed experts alike."""
        return self.experts_method


@dataclass(frozen=True, slots=True, kw_only=True)
class Fp8OnlineBlockLinear:
    """A weight quantised while loading, with one scale for each 128 x 128 block.

    Rows are filled up to whole blocks first. Where the columns fill theirs, the weight
    that is kept is a view of the filled one, whose memory stays.

    Source: vLLM 0.33.0 `layers/quantization/online/fp8.py`
    Fp8PerBlockOnlineLinearMethod; `utils/deep_gemm.py` per_block_cast_to_fp8.
    """

    model_type: str

    def tensors(
        self, on_rank: LinearOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weight and scales on a rank."""
        plain = Fp8BlockLinear(model_type=self.model_type, is_checked=False)
        weight, *scales = plain.tensors(on_rank, layout)
        rows, columns = (
            on_rank.output_size_per_partition,
            on_rank.input_size_per_partition,
        )
        is_as_cast = weight == Tensor(rows * columns, "float8_e4m3fn")
        if is_as_cast and columns % fp8_kernels.BLOCK == 0:
            weight = Tensor(
                round_up(rows, fp8_kernels.BLOCK) * columns, "float8_e4m3fn"
            )
        return (weight, *scales)


def online_config(name: str, model_type: str) -> OnlineConfig:
    """Return what the engine argument of this name does.

    `model_type` is the language model's. "fp8" is the old name of fp8_per_tensor.

    Source: vLLM 0.33.0 `config/quantization.py` _ONLINE_SHORTHANDS;
    `model_loader/weight_utils.py` get_quant_config.
    """
    methods: dict[str, tuple[LinearMethod | None, ExpertsMethod]] = {
        "fp8_per_tensor": (
            Fp8TensorLinear(has_input_scale=False),
            Fp8TensorExperts(is_online=True),
        ),
        "fp8_per_channel": (Fp8ChannelLinear(), Fp8ChannelExperts(is_online=True)),
        "fp8_per_block": (
            Fp8OnlineBlockLinear(model_type=model_type),
            Fp8BlockExperts(model_type=model_type, is_online=True),
        ),
        "mxfp8": (Mxfp8Linear(), Mxfp8Experts(is_online=True)),
        "int8_per_channel_weight_only": (None, Int8OnlineExperts()),
        "experts_int8": (None, Int8OnlineExperts()),
        "nvfp4_per_token": (None, NvFp4OnlineExperts()),
    }
    linear, experts = methods["fp8_per_tensor" if name == "fp8" else name]
    return OnlineConfig(name=name, linear_method=linear, experts_method=experts)


ONLINE_NAMES = (
    "fp8",
    "fp8_per_tensor",
    "fp8_per_channel",
    "fp8_per_block",
    "mxfp8",
    "int8_per_channel_weight_only",
    "experts_int8",
    "nvfp4_per_token",
)
