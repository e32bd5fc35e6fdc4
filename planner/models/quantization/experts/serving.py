"""Pieces that the methods for quantised experts share.

Humming's layout of tensors, which replaces Marlin's on Hopper, and `served`, `by_fp8`
and the like: which kernel computes the experts, with what it needs at run time.

Source: vLLM 0.33.0 `layers/fused_moe/oracle/`, and the same files of older releases;
`layers/quantization/utils/humming/moe.py` convert_to_humming_moe_kernel_format and
`priority.py` prioritize_humming; the package humming-kernels 0.1.19, which vLLM
requires.
"""

from __future__ import annotations

from dataclasses import replace

from planner.engine.generations import HOPPER
from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.engine.releases.shared import (
    KEEPS_EXPERT_WORKSPACE,
    PADS_EXPERTS_FOR_MARLIN,
    PADS_MXFP4_LESS,
    PREFERS_FLASHINFER_QUANTISED_EXPERTS,
    PREFERS_HUMMING,
)
from planner.models.quantization.experts.kernels import Kernel, marlin_columns
from planner.models.quantization.padding import WORD_BITS, round_up
from planner.models.tensors import (
    ExpertsKernel,
    ExpertsOnRank,
    InputCopy,
    ServedExperts,
    Tensors,
)
from planner.values import frozen

_HUMMING_ROWS, _HUMMING_COLUMNS = 256, 128
"""The tile to which Humming's kernels pad both weights."""
_SMALL_ZERO_POINT_BITS, _ZERO_POINT_BITS = 4, 8

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
_KEEPS_MXFP4_WORKSPACE = Change(
    since=(0, 19),
    what="MXFP4 experts use the persistent workspace.",
    source="vLLM 0.19.0 `layers/fused_moe/oracle/mxfp4.py`",
)
_PREFERS_TRITON_BLOCK_EXPERTS = Change(
    since=(0, 17),
    what=(
        "Triton serves experts of FP8 blocks on Hopper unless ranks share the experts."
    ),
    source="vLLM 0.16.0 `layers/fused_moe/oracle/fp8.py` _get_priority_backends",
)


def prefers_humming(layout: ParallelLayout) -> bool:
    """Whether vLLM chooses Humming where it would choose Marlin on other GPUs."""
    if layout.moe_backend in ("marlin", "humming"):
        return layout.moe_backend == "humming"
    is_hopper = layout.compute_capability == HOPPER
    return is_hopper and layout.release.has(PREFERS_HUMMING) and not layout.enable_lora


@frozen
class HummingWeights:
    """Weights of a few bits, in groups along the inputs, as Humming holds them."""

    num_bits: int
    group_size: int
    """-1: one group holds all inputs of a row."""
    scale_dtype: str | None = None
    """None: the model's."""
    has_zero_points: bool = False
    has_expert_scale: bool = False
    """Whether each expert has a scale of its own on top."""

    def tensors(self, on_rank: ExpertsOnRank) -> Tensors:
        """Return what is held of w13 and w2 in place of the published tensors."""
        inputs, hidden = on_rank.intermediate_size_per_partition, on_rank.hidden_size
        return (
            *self._sublayer(on_rank, on_rank.w13_rows, hidden),
            *self._sublayer(on_rank, hidden, inputs),
        )

    def _sublayer(self, on_rank: ExpertsOnRank, rows: int, inputs: int) -> Tensors:
        rows, inputs = round_up(rows, _HUMMING_ROWS), round_up(inputs, _HUMMING_COLUMNS)
        groups = 1 if self.group_size == -1 else inputs // self.group_size
        held = [
            *on_rank.each(rows * inputs * self.num_bits // WORD_BITS, dtype="int32"),
            *on_rank.each(rows * groups, dtype=self.scale_dtype),
        ]
        if self.has_zero_points:
            is_small = self.num_bits <= _SMALL_ZERO_POINT_BITS
            bits = _SMALL_ZERO_POINT_BITS if is_small else _ZERO_POINT_BITS
            held += on_rank.each(rows * groups * bits // WORD_BITS, dtype="int32")
        if self.has_expert_scale:
            held += on_rank.each(1, dtype="float32")
        if on_rank.has_bias:
            held += on_rank.each(rows)
        return tuple(held)


def served(
    on_rank: ExpertsOnRank,
    layout: ParallelLayout,
    kernel: ExpertsKernel,
    *,
    workspace: Change | None = KEEPS_EXPERT_WORKSPACE,
    input_copy: InputCopy | None = None,
) -> ServedExperts:
    """Return the kernel with the rank's sizes, as far as it pads them.

    `workspace` is what made releases take its results from the shared one; None: none.
    """
    return ServedExperts(
        kernel=kernel,
        hidden_size=on_rank.hidden_size,
        intermediate_size=on_rank.intermediate_size_per_partition,
        keeps_workspace=workspace is not None and layout.release.has(workspace),
        input_copy=input_copy,
    )


def by_marlin(
    on_rank: ExpertsOnRank,
    layout: ParallelLayout,
    *,
    workspace: Change = KEEPS_EXPERT_WORKSPACE,
    group_size: int = -1,
) -> ServedExperts:
    """Return Marlin's kernel, or Humming's in its place; inputs stay as they are."""
    if prefers_humming(layout):
        return served(on_rank, layout, ExpertsKernel.HUMMING, workspace=workspace)
    padded = _for_marlin(on_rank, layout, group_size)
    return served(padded, layout, ExpertsKernel.MARLIN, workspace=workspace)


def _for_marlin(
    on_rank: ExpertsOnRank, layout: ParallelLayout, group_size: int
) -> ExpertsOnRank:
    if not layout.release.has(PADS_EXPERTS_FOR_MARLIN):
        return on_rank
    columns = on_rank.intermediate_size_per_partition
    return on_rank.padded(marlin_columns(columns, group_size))


def by_fp8(
    on_rank: ExpertsOnRank,
    layout: ParallelLayout,
    kernel: Kernel,
    input_copy: InputCopy,
) -> ServedExperts:
    """Return the kernel for FP8 weights and inputs; Marlin reads 16 bit inputs.

    Source: vLLM 0.15.0 `layers/fused_moe/oracle/fp8.py` select_fp8_moe_backend.
    """
    if kernel is Kernel.MARLIN:
        padded = _for_marlin(on_rank, layout, -1)
        return served(padded, layout, ExpertsKernel.MARLIN)
    return served(on_rank, layout, _KERNELS[kernel], input_copy=input_copy)


def by_fp8_block(
    on_rank: ExpertsOnRank, layout: ParallelLayout, kernel: Kernel, *, is_refined: bool
) -> ServedExperts:
    """Return the kernel for block FP8, where Hopper has a further choice.

    Source: vLLM 0.15.0 and 0.16.0 `layers/fused_moe/oracle/fp8.py`: FlashInfer's
    CUTLASS kernel came first, then only where ranks share the experts. It reads 16
    bit inputs.
    """
    release = layout.release
    is_asked = layout.moe_backend == "flashinfer_cutlass"
    if kernel is Kernel.PLAIN and layout.moe_backend == "deep_gemm":
        kernel = Kernel.DEEPGEMM  # its tensors are as published before Blackwell
    is_shared = on_rank.uses_expert_parallel and layout.expert_ranks > 1
    prefers_flashinfer = release.has(PREFERS_FLASHINFER_QUANTISED_EXPERTS) and (
        is_shared or not release.has(_PREFERS_TRITON_BLOCK_EXPERTS)
    )
    if layout.moe_backend != "auto":
        prefers_flashinfer = is_asked
    if (
        kernel is Kernel.PLAIN
        and layout.compute_capability == HOPPER
        and prefers_flashinfer
        and not is_refined
        and on_rank.activation == "silu"
    ):
        return served(on_rank, layout, ExpertsKernel.FLASHINFER_BLOCKS)
    return by_fp8(on_rank, layout, kernel, FP8_BY_BLOCK)


def by_mxfp8(
    on_rank: ExpertsOnRank, layout: ParallelLayout, kernel: Kernel
) -> ServedExperts:
    """Return the kernel for MXFP8."""
    if kernel is Kernel.MARLIN:
        return by_marlin(on_rank, layout, group_size=32)
    return served(on_rank, layout, _KERNELS[kernel], input_copy=MXFP8)


def by_nvfp4(
    on_rank: ExpertsOnRank, layout: ParallelLayout, kernel: Kernel
) -> ServedExperts:
    """Return the kernel for NVFP4.

    Source: vLLM `layers/fused_moe/oracle/nvfp4.py`; before 0.15.0 FlashInfer's
    kernels had to be switched on.
    """
    if kernel is Kernel.MARLIN:
        return by_marlin(on_rank, layout)
    found = _KERNELS[kernel]
    if not layout.release.has(PREFERS_FLASHINFER_QUANTISED_EXPERTS):
        found = ExpertsKernel.CUTLASS_FP4
    made = served(on_rank, layout, found, input_copy=NVFP4)
    return replace(made, has_fp4_weights=True)


def by_mxfp4(
    on_rank: ExpertsOnRank,
    layout: ParallelLayout,
    kernel: ExpertsKernel,
    *,
    input_copy: InputCopy | None = None,
) -> ServedExperts:
    """Return the kernel for MXFP4, whose padding is the weights'."""
    is_trtllm = kernel is ExpertsKernel.TRTLLM
    is_padded = is_trtllm or kernel is ExpertsKernel.MARLIN
    if is_padded:
        pads_more = is_trtllm and not layout.release.has(PADS_MXFP4_LESS)
        columns = on_rank.intermediate_size_per_partition
        on_rank = on_rank.padded(
            round_up(columns, 256 if pads_more else 128),
            round_up(on_rank.hidden_size, 256),
        )
    workspace = _KEEPS_MXFP4_WORKSPACE
    made = served(on_rank, layout, kernel, workspace=workspace, input_copy=input_copy)
    return replace(made, has_fp4_weights=True, is_declared=is_padded)
