"""Checkpoints of `quant_method: mxfp4`: experts in 4 bits, everything else as it was.

Source: vLLM 0.33.0 `layers/quantization/mxfp4.py` Mxfp4Config, GptOssMxfp4Config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.quantization.context import Context
from planner.quantization.experts.mxfp4 import Mxfp4Experts, Mxfp4Source
from planner.quantization.interface import BaseConfig, Place
from planner.tensors import ExpertsMethod


@dataclass(frozen=True, slots=True, kw_only=True)
class Mxfp4Config(BaseConfig):
    """MXFP4 experts; vLLM reads no exceptions from the checkpoint's settings."""

    source: Mxfp4Source = Mxfp4Source.MXFP4

    def experts(self, place: Place) -> ExpertsMethod | None:  # noqa: ARG002
        """Hold all routed experts in MXFP4."""
        return Mxfp4Experts(source=self.source)


def read_mxfp4(given: Mapping[str, Any], context: Context) -> Mxfp4Config:  # noqa: ARG001
    """Return the method of Kimi-K3 and other checkpoints of MXFP4 experts."""
    return Mxfp4Config(name="mxfp4")


def read_gpt_oss_mxfp4(
    given: Mapping[str, Any],  # noqa: ARG001
    context: Context,  # noqa: ARG001
) -> Mxfp4Config:
    """Return the method of gpt-oss, whose kernels vLLM chooses by rules of its own."""
    return Mxfp4Config(name="gpt_oss_mxfp4", source=Mxfp4Source.GPT_OSS)
