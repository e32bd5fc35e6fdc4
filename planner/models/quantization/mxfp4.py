"""Checkpoints of 4 bits, mostly of routed experts in a format of their own.

- `mxfp4` and `gpt_oss_mxfp4`: experts in 4 bits, everything else in the model's dtype.
- `deepseek_v4_fp8`: linear layers in FP8 blocks, experts in 4 bits.
- `moe_wna16`: GPTQ and AWQ checkpoints where the user requests it, experts in bytes.
- `fp_quant`: linear layers in MXFP4 or NVFP4, experts in the model's dtype.

Source: vLLM 0.33.0 `layers/quantization/mxfp4.py` Mxfp4Config, GptOssMxfp4Config;
`models/deepseek_v4/quant_config.py` DeepseekV4FP8Config;
`layers/quantization/moe_wna16.py` MoeWNA16Config.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.models.quantization.awq import read_awq
from planner.models.quantization.experts.mxfp4 import Mxfp4Experts, Mxfp4Source
from planner.models.quantization.experts.nvfp4 import NvFp4Experts
from planner.models.quantization.experts.wna16 import MoeWNA16Experts
from planner.models.quantization.fp8 import Fp8Config, read_fp8
from planner.models.quantization.gptq import read_gptq
from planner.models.quantization.interface import (
    Context,
    Place,
    QuantizationConfig,
    given_integer,
    listed,
    required,
)
from planner.models.quantization.matching import is_layer_skipped
from planner.models.tensors import (
    ExpertsMethod,
    LinearMethod,
    LinearOnRank,
    Tensor,
    Tensors,
)
from planner.values import frozen

_EXPERT_DTYPES = ("fp4", "fp8")


@frozen
class Mxfp4Config(QuantizationConfig):
    """MXFP4 experts; vLLM reads no exceptions from the checkpoint's settings."""

    source: Mxfp4Source = Mxfp4Source.MXFP4

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Hold all routed experts in MXFP4."""
        return Mxfp4Experts(source=self.source)


def read_mxfp4(given: Mapping[str, Any], context: Context) -> Mxfp4Config:
    """Return the method of Kimi-K3 and other checkpoints with MXFP4 experts."""
    return Mxfp4Config(name="mxfp4")


def read_gpt_oss_mxfp4(given: Mapping[str, Any], context: Context) -> Mxfp4Config:
    """Return the method of gpt-oss, for which vLLM has its own rules of kernels."""
    return Mxfp4Config(name="gpt_oss_mxfp4", source=Mxfp4Source.GPT_OSS)


@frozen
class DeepseekV4Fp8Config(Fp8Config):
    """FP8 with experts of their own dtype.

    The scales of linear layers are published as powers of two of one byte and kept in
    the layouts of any other FP8 checkpoint.
    """

    expert_dtype: str
    has_nvfp4_experts: bool
    name: str = "deepseek_v4_fp8"

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Hold routed experts in MXFP4, NVFP4 or FP8, as the config says."""
        if is_layer_skipped(place, self.ignored):
            return None
        if self.expert_dtype == "fp8":
            return Fp8Config.experts(self, place)
        return NvFp4Experts() if self.has_nvfp4_experts else Mxfp4Experts()


def read_deepseek_v4_fp8(
    given: Mapping[str, Any], context: Context
) -> DeepseekV4Fp8Config:
    """Read the settings of a DeepSeek-V4 checkpoint.

    Raises:
        Refused: in vLLM's words, for another dtype of experts.
    """
    fp8 = read_fp8(given, context)
    config = {} if context.files is None else context.files.config
    expert_dtype = config.get("expert_dtype", "fp4")
    if expert_dtype not in _EXPERT_DTYPES:
        raise Refused(
            f"Unsupported DeepSeek V4 expert_dtype={expert_dtype!r}; expected one of "
            f"{_EXPERT_DTYPES}."
        )
    return DeepseekV4Fp8Config(
        is_static=fp8.is_static,
        is_block=fp8.is_block,
        ignored=fp8.ignored,
        model_type=fp8.model_type,
        expert_dtype=expert_dtype,
        has_nvfp4_experts=str(given.get("moe_quant_algo") or "").upper() == "NVFP4",
    )


@frozen
class FPQuantLinear:
    """Four bits a weight with one-byte scales, and what rotates the activations.

    Source: vLLM 0.33.0 `layers/quantization/fp_quant.py` FPQuantLinearMethod.
    """

    group_size: int
    """Weights of one scale."""
    hadamard_group_size: int
    """Rows of the square matrix that rotates activations."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight, scales and matrix on a rank.

        Raises:
            Refused: in vLLM's words, where the ranks cut through a group.
        """
        columns = on_rank.input_size_per_partition
        if columns % self.hadamard_group_size:
            raise Refused(
                "The input size is not aligned with the quantized weight shape. This "
                "can be caused by too large tensor parallel size. Or other skill "
                "issues."
            )
        rows, limit = on_rank.output_size_per_partition, Tensor(1, "float32")
        return (
            Tensor(rows * (columns // 2), "uint8"),
            Tensor(rows * (columns // self.group_size), "uint8"),
            limit,
            limit,
            Tensor(self.hadamard_group_size**2),
        )


@frozen
class FPQuantConfig(QuantizationConfig):
    """FP-Quant as read from a checkpoint: linear layers only."""

    method: FPQuantLinear
    ignored: tuple[str, ...]
    name: str = "fp_quant"

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise layers whose own name ends with none of the ignored ones.

        The names of layers packed in it are not compared.
        """
        return None if place.prefix.endswith(self.ignored) else self.method


_FP_QUANT_GROUPS = {"mxfp4": 32, "nvfp4": 16}


def read_fp_quant(
    given: Mapping[str, Any],
    context: Context,  # names are taken as they are
) -> FPQuantConfig:
    """Read `quantization_config` of an FP-Quant checkpoint.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `layers/quantization/fp_quant.py` FPQuantConfig.from_config.
    """
    size = given_integer(given, "hadamard_group_size")
    forward_dtype = required(given, "forward_dtype")
    required(given, "forward_method")
    required(given, "modules_to_not_convert")
    if forward_dtype not in _FP_QUANT_GROUPS:
        raise Refused("Only mxfp4 and nvfp4 are supported for now")
    return FPQuantConfig(
        method=FPQuantLinear(
            group_size=_FP_QUANT_GROUPS[forward_dtype], hadamard_group_size=size
        ),
        ignored=listed(given, "modules_to_not_convert"),
    )


@frozen
class MoeWNA16Config(QuantizationConfig):
    """Linear layers as the checkpoint's own method holds them, experts in bytes."""

    linear_config: QuantizationConfig
    num_bits: int
    group_size: int
    has_zero_points: bool
    ignored: tuple[str, ...]
    name: str = "moe_wna16"

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise as the checkpoint's method does, except for the ignored names."""
        return None if self._is_ignored(place) else self.linear_config.linear(place)

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Quantise routed experts whose names hold none of the ignored parts."""
        if self._is_ignored(place):
            return None
        return MoeWNA16Experts(
            num_bits=self.num_bits,
            group_size=self.group_size,
            has_zero_points=self.has_zero_points,
        )

    def _is_ignored(self, place: Place) -> bool:
        return any(part in place.prefix for part in self.ignored)


def read_moe_wna16(given: Mapping[str, Any], context: Context) -> MoeWNA16Config:
    """Read `quantization_config` of a GPTQ or AWQ checkpoint.

    Raises:
        Refused: in vLLM's words.
    """
    is_gptq = given["quant_method"] == "gptq"
    return MoeWNA16Config(
        linear_config=(read_gptq if is_gptq else read_awq)(given, context),
        num_bits=given_integer(given, "bits"),
        group_size=given_integer(given, "group_size"),
        has_zero_points=(
            not required(given, "sym")
            if is_gptq
            else bool(required(given, "zero_point"))
        ),
        ignored=() if is_gptq else listed(given, "modules_to_not_convert"),
    )
