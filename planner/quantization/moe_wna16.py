"""GPTQ and AWQ checkpoints of mixtures of experts, asked for as `moe_wna16`.

Source: vLLM 0.33.0 `layers/quantization/moe_wna16.py` MoeWNA16Config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.quantization.awq import read_awq
from planner.quantization.context import Context
from planner.quantization.experts.wna16 import MoeWNA16Experts
from planner.quantization.gptq import read_gptq
from planner.quantization.interface import BaseConfig, Place, QuantizationConfig
from planner.quantization.settings import given_integer, listed, required
from planner.tensors import ExpertsMethod, LinearMethod


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeWNA16Config(BaseConfig):
    """Linear layers as the checkpoint's own method has them, experts in bytes."""

    linear_config: QuantizationConfig
    num_bits: int
    group_size: int
    has_zero_points: bool
    ignored: tuple[str, ...]
    name: str = "moe_wna16"

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise as the checkpoint's method does, but for the ignored names."""
        return None if self._is_ignored(place) else self.linear_config.linear(place)

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Quantise routed experts whose names hold none of the ignored parts."""
        if self._is_ignored(place):
            return None
        return MoeWNA16Experts(
            num_bits=self.num_bits,
            group_size=self.group_size,
            has_zero_point=self.has_zero_points,
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
