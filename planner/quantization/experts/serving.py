"""Which kernel computes quantised experts, by what it needs while it computes.

Source: vLLM 0.33.0 `layers/fused_moe/oracle/`, and the same files of older releases.
"""

from __future__ import annotations

from dataclasses import replace

from planner.parallel import ParallelLayout
from planner.quantization.capabilities import HOPPER
from planner.quantization.experts.humming import prefers_humming
from planner.quantization.experts.kernels import Kernel, marlin_columns
from planner.quantization.rounding import round_up
from planner.tensors import ExpertsKernel, ExpertsOnRank, InputCopy, ServedExperts

FP8_BY_TENSOR = InputCopy(bits=8)
BY_TOKEN = InputCopy(bits=8, scale_bytes=4)
FP8_BY_BLOCK = InputCopy(bits=8, scale_bytes=4, group_size=128)
MXFP8 = InputCopy(bits=8, scale_bytes=1, group_size=32)
NVFP4 = InputCopy(bits=4, scale_bytes=1, group_size=16)
_KERNELS = {
    Kernel.PLAIN: ExpertsKernel.TRITON,
    Kernel.TRTLLM: ExpertsKernel.TRTLLM,
    Kernel.FLASHINFER_CUTLASS: ExpertsKernel.FLASHINFER_CUTLASS,
    Kernel.DEEPGEMM: ExpertsKernel.DEEPGEMM,
    Kernel.MARLIN: ExpertsKernel.MARLIN,
}


def served(
    on_rank: ExpertsOnRank,
    kernel: ExpertsKernel,
    *,
    keeps_workspace: bool,
    input_copy: InputCopy | None = None,
    columns: int | None = None,
) -> ServedExperts:
    """Return the kernel with the rank's sizes, columns as it pads them if given."""
    own = on_rank.intermediate_size_per_partition
    return ServedExperts(
        kernel=kernel,
        hidden_size=on_rank.hidden_size,
        intermediate_size=own if columns is None else columns,
        keeps_workspace=keeps_workspace,
        input_copy=input_copy,
    )


def by_marlin(
    on_rank: ExpertsOnRank,
    layout: ParallelLayout,
    *,
    keeps_workspace: bool,
    group_size: int = -1,
) -> ServedExperts:
    """Return Marlin's kernel, or Humming's in its place; inputs stay as they are."""
    if prefers_humming(layout):
        return served(on_rank, ExpertsKernel.HUMMING, keeps_workspace=keeps_workspace)
    return served(
        on_rank,
        ExpertsKernel.MARLIN,
        keeps_workspace=keeps_workspace,
        columns=_marlin_columns(on_rank, layout, group_size),
    )


def _marlin_columns(
    on_rank: ExpertsOnRank, layout: ParallelLayout, group_size: int
) -> int:
    columns = on_rank.intermediate_size_per_partition
    if not layout.release.pads_experts_for_marlin:
        return columns
    return marlin_columns(columns, group_size)


def by_fp8(
    on_rank: ExpertsOnRank,
    layout: ParallelLayout,
    kernel: Kernel,
    input_copy: InputCopy,
) -> ServedExperts:
    """Return the kernel for FP8 weights and inputs; Marlin's reads 16 bit inputs.

    Source: vLLM 0.15.0 `layers/fused_moe/oracle/fp8.py` select_fp8_moe_backend.
    """
    release = layout.release
    keeps_workspace = release.keeps_expert_workspace
    if kernel is Kernel.MARLIN:
        return served(
            on_rank,
            ExpertsKernel.MARLIN,
            keeps_workspace=keeps_workspace,
            columns=_marlin_columns(on_rank, layout, -1),
        )
    return served(
        on_rank,
        _KERNELS[kernel],
        keeps_workspace=keeps_workspace,
        input_copy=input_copy,
    )


def by_fp8_block(
    on_rank: ExpertsOnRank, layout: ParallelLayout, kernel: Kernel, *, is_refined: bool
) -> ServedExperts:
    """Return the kernel for block FP8, where Hopper has a choice of its own.

    Source: vLLM 0.15.0 and 0.16.0 `layers/fused_moe/oracle/fp8.py`: FlashInfer's
    CUTLASS kernel came first, then only where ranks share the experts. It reads 16
    bit inputs; what its GEMMs copy of them is not in vLLM's tree.
    """
    release = layout.release
    is_shared = on_rank.uses_expert_parallel and layout.expert_ranks > 1
    wants_flashinfer = release.prefers_flashinfer_quantised_experts and (
        is_shared or not release.prefers_triton_block_experts
    )
    if (
        kernel is Kernel.PLAIN
        and layout.capability == HOPPER
        and wants_flashinfer
        and not is_refined
        and on_rank.activation == "silu"
    ):
        return served(
            on_rank,
            ExpertsKernel.FLASHINFER_CUTLASS,
            keeps_workspace=release.keeps_expert_workspace,
        )
    return by_fp8(on_rank, layout, kernel, FP8_BY_BLOCK)


def by_mxfp8(
    on_rank: ExpertsOnRank, layout: ParallelLayout, kernel: Kernel
) -> ServedExperts:
    """Return the kernel for MXFP8."""
    keeps_workspace = layout.release.keeps_expert_workspace
    if kernel is Kernel.MARLIN:
        return by_marlin(
            on_rank, layout, keeps_workspace=keeps_workspace, group_size=32
        )
    return served(
        on_rank, _KERNELS[kernel], keeps_workspace=keeps_workspace, input_copy=MXFP8
    )


def by_nvfp4(
    on_rank: ExpertsOnRank, layout: ParallelLayout, kernel: Kernel
) -> ServedExperts:
    """Return the kernel for NVFP4.

    Source: vLLM `layers/fused_moe/oracle/nvfp4.py`; before 0.15.0 FlashInfer's
    kernels wanted a switch.
    """
    keeps_workspace = layout.release.keeps_expert_workspace
    if kernel is Kernel.MARLIN:
        return by_marlin(on_rank, layout, keeps_workspace=keeps_workspace)
    found = _KERNELS[kernel]
    if not layout.release.prefers_flashinfer_quantised_experts:
        found = ExpertsKernel.CUTLASS_FP4
    return served(on_rank, found, keeps_workspace=keeps_workspace, input_copy=NVFP4)


def by_mxfp4(
    on_rank: ExpertsOnRank, layout: ParallelLayout, kernel: ExpertsKernel
) -> ServedExperts:
    """Return the kernel for MXFP4, whose padding is the weights'."""
    found = served(
        on_rank, kernel, keeps_workspace=layout.release.keeps_mxfp4_workspace
    )
    if kernel not in (ExpertsKernel.MARLIN, ExpertsKernel.TRTLLM):
        return found
    is_trtllm = kernel is ExpertsKernel.TRTLLM
    tile = layout.release.trtllm_mxfp4_columns if is_trtllm else 128
    return replace(
        found,
        intermediate_size=round_up(found.intermediate_size, tile),
        hidden_size=round_up(found.hidden_size, 256),
        is_declared=True,
    )
