"""Which kernel vLLM chooses for quantised experts, where it changes the tensors.

Each GPU generation has kernels of its own. Many hold the tensors as they were
published; others pad, expand or repack them, and only those are distinguished here.
Only Triton's and Marlin's support adapters (LoRAExpertsMixin).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import lcm

from planner.engine.generations import (
    ADA,
    DATACENTER_BLACKWELL,
    HOPPER,
    WORKSTATION_BLACKWELL,
)
from planner.engine.layout import ParallelLayout
from planner.engine.releases.shared import (
    LAYS_SCALES_OUT_FOR_DEEP_GEMM,
    PREFERS_FLASHINFER_QUANTISED_EXPERTS,
)
from planner.models.quantization.fp8_kernels import has_deep_gemm
from planner.models.quantization.padding import round_up
from planner.models.tensors import ExpertsOnRank

_MARLIN_TILE = 64
_MOST_TRTLLM_EXPERTS = 2048
_FP8_TRTLLM_ACTIVATIONS = ("silu", "swigluoai_uninterleave", "relu2_no_mul")
_FP4_TRTLLM_ACTIVATIONS = (*_FP8_TRTLLM_ACTIVATIONS, "gelu", "gelu_tanh", "situ")
_CUTLASS_ACTIVATIONS = (*_FP8_TRTLLM_ACTIVATIONS, "gelu_tanh", "swigluoai")
_DEEPGEMM_ACTIVATIONS = ("silu", "swiglustep", "swigluoai_uninterleave")
_WITHOUT_DEEPGEMM = ("qwen3_5_text", "qwen3_5_moe_text")
"""Model types that lose accuracy with it on Blackwell."""
_WITHOUT_DEEPGEMM_ON_RTX = ("kolibri1",)


class Kernel(StrEnum):
    """Kernels by how they repack the weights."""

    PLAIN = "as published"
    """Triton, vLLM's CUTLASS and others that change no sizes."""
    TRTLLM = "FlashInfer TRT-LLM"
    FLASHINFER_CUTLASS = "FlashInfer CUTLASS"
    DEEPGEMM = "DeepGEMM"
    MARLIN = "Marlin"
    """On Hopper replaced by Humming, except for FP8."""


_REQUESTED: Mapping[str, Kernel] = {
    "triton": Kernel.PLAIN,
    "flashinfer_trtllm": Kernel.TRTLLM,
    "flashinfer_cutlass": Kernel.FLASHINFER_CUTLASS,
    "deep_gemm": Kernel.DEEPGEMM,
    "marlin": Kernel.MARLIN,
    "humming": Kernel.MARLIN,
}
"""Names of moe_backend; Marlin and Humming are told apart where tensors are made.

Source: vLLM 0.33.0 `config/kernel.py` MoEBackend.
"""


def _requested(layout: ParallelLayout, *known: Kernel) -> Kernel | None:
    """Return the kernel that moe_backend names, if it is among those known here."""
    found = _REQUESTED.get(layout.moe_backend)
    return found if found in known else None


def is_datacenter_blackwell(layout: ParallelLayout) -> bool:
    """Whether the GPUs are B200, B300 or similar."""
    return layout.compute_capability[0] == DATACENTER_BLACKWELL.major


def is_consumer_blackwell(layout: ParallelLayout) -> bool:
    """Whether the GPUs are RTX PRO 6000, RTX 5090 or similar."""
    return layout.compute_capability[0] == WORKSTATION_BLACKWELL.major


def fp8_tensor_kernel(
    on_rank: ExpertsOnRank, layout: ParallelLayout, *, is_static: bool
) -> Kernel:
    """Return the kernel for FP8 with one scale an expert.

    Source: vLLM 0.33.0 `layers/fused_moe/oracle/fp8.py` select_fp8_moe_backend.
    """
    asked = _requested(
        layout,
        *(Kernel.PLAIN, Kernel.MARLIN, Kernel.TRTLLM, Kernel.FLASHINFER_CUTLASS),
    )
    if layout.compute_capability < ADA or asked is not None:
        return asked or Kernel.MARLIN
    if (
        layout.enable_lora
        or not is_static
        or not layout.release.has(PREFERS_FLASHINFER_QUANTISED_EXPERTS)
    ):
        return Kernel.PLAIN
    if (
        is_datacenter_blackwell(layout)
        and on_rank.is_renormalized
        and on_rank.activation in _FP8_TRTLLM_ACTIVATIONS
        and on_rank.global_num_experts <= _MOST_TRTLLM_EXPERTS
    ):
        return Kernel.TRTLLM
    if (
        layout.compute_capability >= HOPPER
        and on_rank.activation in _CUTLASS_ACTIVATIONS
    ):
        return Kernel.FLASHINFER_CUTLASS
    return Kernel.PLAIN


def fp8_block_kernel(
    on_rank: ExpertsOnRank,
    layout: ParallelLayout,
    *,
    model_type: str = "",
    is_refined: bool = False,
) -> Kernel:
    """Return the kernel for FP8 with one scale for a block of weights.

    DeepGEMM matters on Blackwell only, where it needs the scales row by row; on B200
    FlashInfer comes first wherever it knows the activation. `is_refined`: blocks are
    smaller than 128 x 128, which only Triton reads.

    Source: vLLM 0.33.0 `layers/fused_moe/oracle/fp8.py` select_fp8_moe_backend;
    `utils/deep_gemm.py` should_auto_disable_deep_gemm.
    """
    asked = _requested(layout, Kernel.PLAIN, Kernel.MARLIN, Kernel.TRTLLM)
    if layout.compute_capability < ADA or asked is not None:
        return asked or Kernel.MARLIN
    is_b200, is_rtx = is_datacenter_blackwell(layout), is_consumer_blackwell(layout)
    if layout.enable_lora or is_refined or not (is_b200 or is_rtx):
        return Kernel.PLAIN
    if (
        is_b200
        and layout.moe_backend != "deep_gemm"
        and layout.release.has(PREFERS_FLASHINFER_QUANTISED_EXPERTS)
        and on_rank.activation in _FP8_TRTLLM_ACTIVATIONS
        and on_rank.global_num_experts <= _MOST_TRTLLM_EXPERTS
    ):
        return Kernel.TRTLLM
    excluded = (*_WITHOUT_DEEPGEMM, *(_WITHOUT_DEEPGEMM_ON_RTX if is_rtx else ()))
    if (
        _suits_deepgemm(on_rank)
        and model_type not in excluded
        and has_deep_gemm(layout)
        and layout.experts_use_deep_gemm
        and layout.release.has(LAYS_SCALES_OUT_FOR_DEEP_GEMM)
    ):
        return Kernel.DEEPGEMM
    return Kernel.PLAIN


def _suits_deepgemm(on_rank: ExpertsOnRank) -> bool:
    return on_rank.is_gated and on_rank.activation in _DEEPGEMM_ACTIVATIONS


def mxfp8_kernel(on_rank: ExpertsOnRank, layout: ParallelLayout) -> Kernel:
    """Return the kernel for FP8 with a power of two for 32 weights.

    Source: vLLM 0.33.0 `layers/fused_moe/oracle/mxfp8.py` select_mxfp8_moe_backend.
    """
    asked = _requested(layout, Kernel.MARLIN, Kernel.TRTLLM, Kernel.DEEPGEMM)
    if asked is not None:
        return asked
    if layout.enable_lora or not is_datacenter_blackwell(layout):
        return Kernel.MARLIN
    if (
        on_rank.activation in _FP8_TRTLLM_ACTIVATIONS
        and on_rank.global_num_experts <= _MOST_TRTLLM_EXPERTS
    ):
        return Kernel.TRTLLM
    suits = layout.uses_deep_gemm and _suits_deepgemm(on_rank)
    return Kernel.DEEPGEMM if suits else Kernel.MARLIN


def nvfp4_kernel(
    on_rank: ExpertsOnRank, layout: ParallelLayout, *, has_input_scale: bool
) -> Kernel:
    """Return the kernel for NVFP4.

    Source: vLLM 0.33.0 `layers/fused_moe/oracle/nvfp4.py` select_nvfp4_moe_backend.
    """
    asked = _requested(layout, Kernel.MARLIN, Kernel.TRTLLM, Kernel.FLASHINFER_CUTLASS)
    if asked is not None:
        return asked
    if (
        not has_input_scale
        or layout.compute_capability < DATACENTER_BLACKWELL
        or layout.enable_lora
    ):
        return Kernel.MARLIN
    if (
        is_datacenter_blackwell(layout)
        and layout.release.has(PREFERS_FLASHINFER_QUANTISED_EXPERTS)
        and on_rank.activation in _FP4_TRTLLM_ACTIVATIONS
    ):
        return Kernel.TRTLLM
    if on_rank.activation in _CUTLASS_ACTIVATIONS:
        return Kernel.FLASHINFER_CUTLASS
    return Kernel.MARLIN


def marlin_columns(columns: int, group_size: int = -1) -> int:
    """Return an expert's columns as Marlin pads them: whole tiles, whole groups.

    Source: vLLM 0.33.0 `layers/quantization/utils/marlin_utils.py`
    marlin_moe_padded_intermediate.
    """
    return round_up(columns, lcm(_MARLIN_TILE, max(group_size, 1)))
