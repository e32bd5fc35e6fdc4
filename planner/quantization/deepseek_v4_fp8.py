"""DeepSeek-V4's checkpoints: linear layers in FP8 blocks, experts in 4 bits.

Source: vLLM 0.33.0 `models/deepseek_v4/quant_config.py` DeepseekV4FP8Config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.errors import Refused
from planner.quantization.context import Context
from planner.quantization.experts.mxfp4 import Mxfp4Experts
from planner.quantization.experts.nvfp4 import NvFp4Experts
from planner.quantization.fp8 import Fp8Config, read_fp8
from planner.quantization.interface import Place
from planner.quantization.matching import is_layer_skipped
from planner.tensors import ExpertsMethod

_EXPERT_DTYPES = ("fp4", "fp8")


@dataclass(frozen=True, slots=True, kw_only=True)
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
