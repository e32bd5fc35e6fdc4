"""vLLM's quantisation methods by name: who reads them, and what they demand.

Source: vLLM 0.33.0 `layers/quantization/__init__.py` get_quantization_config;
get_supported_act_dtypes and get_min_capability of each config class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from planner.quantization.awq import read_awq
from planner.quantization.compressed_tensors import read_compressed_tensors
from planner.quantization.context import Context
from planner.quantization.deepseek_v4_fp8 import read_deepseek_v4_fp8
from planner.quantization.fp8 import read_fp8
from planner.quantization.gptq import read_gptq
from planner.quantization.interface import QuantizationConfig
from planner.quantization.modelopt import read_modelopt
from planner.quantization.moe_wna16 import read_moe_wna16
from planner.quantization.mxfp4 import read_gpt_oss_mxfp4, read_mxfp4
from planner.quantization.online import ONLINE_NAMES, online_config

Reader = Callable[[Mapping[str, Any], Context], QuantizationConfig]

_BF16_HALF = ("bfloat16", "float16")
_BF16 = ("bfloat16",)
_HALF_BF16 = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A quantisation method of vLLM."""

    read: Reader
    """From `quantization_config` to the method with its settings; raises Refused in
    vLLM's words, or UnknownArchitecture naming the field."""
    supported_dtypes: tuple[str, ...]
    """In vLLM's order, which its refusal shows."""
    min_capability: int


def _read_online(
    name: str, _given: Mapping[str, Any], context: Context
) -> QuantizationConfig:
    """Return a method that has no settings in the checkpoint."""
    return online_config(name, context.text_model_type)


METHODS: dict[str, Method] = {
    "fp8": Method(read=read_fp8, supported_dtypes=_BF16_HALF, min_capability=75),
    "auto_gptq": Method(read=read_gptq, supported_dtypes=_HALF_BF16, min_capability=60),
    "compressed-tensors": Method(
        read=read_compressed_tensors,
        supported_dtypes=("float32", "float16", "bfloat16"),
        min_capability=70,
    ),
    "auto_awq": Method(read=read_awq, supported_dtypes=_HALF_BF16, min_capability=75),
    **{
        name: Method(
            read=partial(read_modelopt, name),
            supported_dtypes=supported_dtypes,
            min_capability=min_capability,
        )
        for name, supported_dtypes, min_capability in (
            ("modelopt", _BF16_HALF, 80),
            ("modelopt_fp4", (*_BF16_HALF, "float8_e4m3fn"), 75),
            ("modelopt_mxfp8", _BF16, 80),
            ("modelopt_mixed", _BF16_HALF, 75),
        )
    },
    "deepseek_v4_fp8": Method(
        read=read_deepseek_v4_fp8, supported_dtypes=_BF16_HALF, min_capability=75
    ),
    "moe_wna16": Method(
        read=read_moe_wna16, supported_dtypes=_BF16_HALF, min_capability=70
    ),
    "mxfp4": Method(read=read_mxfp4, supported_dtypes=_BF16, min_capability=80),
    "gpt_oss_mxfp4": Method(
        read=read_gpt_oss_mxfp4, supported_dtypes=_BF16, min_capability=80
    ),
}
"""Methods of checkpoints."""

ONLINE: dict[str, Method] = {
    name: Method(
        read=partial(_read_online, name),
        supported_dtypes=_BF16_HALF,
        min_capability=80 if name == "experts_int8" else 75,
    )
    for name in ONLINE_NAMES
}
"""Methods applied while loading a checkpoint that is not quantised."""

KNOWN = (
    "awq",
    "auto_awq",
    "fp8",
    "fbgemm_fp8",
    "fp_quant",
    "modelopt",
    "modelopt_fp4",
    "modelopt_mxfp8",
    "modelopt_mixed",
    "auto_gptq",
    "gptq",
    "gptq_marlin",
    "awq_marlin",
    "humming",
    "compressed-tensors",
    "experts_int8",
    "quark",
    "moe_wna16",
    "torchao",
    "inc",
    "mxfp4",
    "gpt_oss_mxfp4",
    "deepseek_v4_fp8",
    "online",
    "fp8_per_tensor",
    "fp8_per_block",
    "fp8_per_channel",
    "int8_per_channel_weight_only",
    "nvfp4_per_token",
    "mxfp8",
)
"""In vLLM's order, which its refusal shows."""

DEPRECATED = ("fbgemm_fp8", "fp_quant")
