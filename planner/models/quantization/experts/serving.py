"""Pieces that the methods for quantised experts share.

Tensors (rows, weights, biases, and Humming's layout, which replaces Marlin's on
Hopper), and `served`, `by_fp8` and the like: which kernel computes the experts, with
what it needs at run time.

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
    Tensor,
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


def w13_rows(on_rank: ExpertsOnRank, intermediate_size: int | None = None) -> int:
    """Return the rows of gate and up together, or of up only without a gate.

    `intermediate_size` is that of the rank as a kernel pads it; None: unpadded.
    """
    columns = (
        on_rank.intermediate_size_per_partition
        if intermediate_size is None
        else intermediate_size
    )
    return (2 if on_rank.is_gated else 1) * columns


def weights(
    on_rank: ExpertsOnRank,
    dtype: str,
    *,
    intermediate_size: int | None = None,
    hidden_size: int | None = None,
    per_element: int = 1,
) -> tuple[Tensor, Tensor]:
    """Return w13 and w2, `per_element` weights packed in an element of `dtype`."""
    columns = (
        on_rank.intermediate_size_per_partition
        if intermediate_size is None
        else intermediate_size
    )
    hidden = on_rank.hidden_size if hidden_size is None else hidden_size
    rows = w13_rows(on_rank, columns)
    return (
        Tensor(on_rank.num_experts * rows * (hidden // per_element), dtype),
        Tensor(on_rank.num_experts * hidden * (columns // per_element), dtype),
    )


def biases(
    on_rank: ExpertsOnRank,
    dtype: str | None = None,
    *,
    intermediate_size: int | None = None,
    hidden_size: int | None = None,
) -> Tensors:
    """Return the biases of w13 and w2, none where the model has none."""
    if not on_rank.has_bias:
        return ()
    hidden = on_rank.hidden_size if hidden_size is None else hidden_size
    return (
        Tensor(on_rank.num_experts * w13_rows(on_rank, intermediate_size), dtype),
        Tensor(on_rank.num_experts * hidden, dtype),
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

    def tensors(self, on_rank: ExpertsOnRank, columns: int | None = None) -> Tensors:
        """Return the tensors of w13 and w2 on a rank, in place of the published ones.

        `columns`: of an expert, where its method pads them before.
        """
        inputs = on_rank.intermediate_size_per_partition if columns is None else columns
        rows, hidden = w13_rows(on_rank, inputs), on_rank.hidden_size
        return (
            *self._sublayer(on_rank, rows, hidden),
            *self._sublayer(on_rank, hidden, inputs),
        )

    def _sublayer(self, on_rank: ExpertsOnRank, rows: int, inputs: int) -> Tensors:
        experts = on_rank.num_experts
        rows, inputs = round_up(rows, _HUMMING_ROWS), round_up(inputs, _HUMMING_COLUMNS)
        groups = 1 if self.group_size == -1 else inputs // self.group_size
        held = [
            Tensor(experts * rows * inputs * self.num_bits // WORD_BITS, "int32"),
            Tensor(experts * rows * groups, self.scale_dtype),
        ]
        if self.has_zero_points:
            is_small = self.num_bits <= _SMALL_ZERO_POINT_BITS
            bits = _SMALL_ZERO_POINT_BITS if is_small else _ZERO_POINT_BITS
            held.append(Tensor(experts * rows * groups * bits // WORD_BITS, "int32"))
        if self.has_expert_scale:
            held.append(Tensor(experts, "float32"))
        if on_rank.has_bias:
            held.append(Tensor(experts * rows))
        return tuple(held)


def served(
    on_rank: ExpertsOnRank,
    kernel: ExpertsKernel,
    *,
    keeps_workspace: bool,
    input_copy: InputCopy | None = None,
    columns: int | None = None,
) -> ServedExperts:
    """Return the kernel with the rank's sizes; `columns` where it pads them."""
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
    if not layout.release.has(PADS_EXPERTS_FOR_MARLIN):
        return columns
    return marlin_columns(columns, group_size)


def by_fp8(
    on_rank: ExpertsOnRank,
    layout: ParallelLayout,
    kernel: Kernel,
    input_copy: InputCopy,
) -> ServedExperts:
    """Return the kernel for FP8 weights and inputs; Marlin reads 16 bit inputs.

    Source: vLLM 0.15.0 `layers/fused_moe/oracle/fp8.py` select_fp8_moe_backend.
    """
    release = layout.release
    keeps_workspace = release.has(KEEPS_EXPERT_WORKSPACE)
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
        return served(
            on_rank,
            ExpertsKernel.FLASHINFER_BLOCKS,
            keeps_workspace=release.has(KEEPS_EXPERT_WORKSPACE),
        )
    return by_fp8(on_rank, layout, kernel, FP8_BY_BLOCK)


def by_mxfp8(
    on_rank: ExpertsOnRank, layout: ParallelLayout, kernel: Kernel
) -> ServedExperts:
    """Return the kernel for MXFP8."""
    keeps_workspace = layout.release.has(KEEPS_EXPERT_WORKSPACE)
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
    kernels had to be switched on.
    """
    keeps_workspace = layout.release.has(KEEPS_EXPERT_WORKSPACE)
    if kernel is Kernel.MARLIN:
        return by_marlin(on_rank, layout, keeps_workspace=keeps_workspace)
    found = _KERNELS[kernel]
    if not layout.release.has(PREFERS_FLASHINFER_QUANTISED_EXPERTS):
        found = ExpertsKernel.CUTLASS_FP4
    return replace(
        served(on_rank, found, keeps_workspace=keeps_workspace, input_copy=NVFP4),
        has_fp4_weights=True,
    )


def by_mxfp4(
    on_rank: ExpertsOnRank,
    layout: ParallelLayout,
    kernel: ExpertsKernel,
    *,
    input_copy: InputCopy | None = None,
) -> ServedExperts:
    """Return the kernel for MXFP4, whose padding is the weights'."""
    found = replace(
        served(
            on_rank,
            kernel,
            keeps_workspace=layout.release.has(_KEEPS_MXFP4_WORKSPACE),
            input_copy=input_copy,
        ),
        has_fp4_weights=True,
    )
    if kernel not in (ExpertsKernel.MARLIN, ExpertsKernel.TRTLLM):
        return found
    is_trtllm = kernel is ExpertsKernel.TRTLLM
    pads_more = is_trtllm and not layout.release.has(PADS_MXFP4_LESS)
    tile = 256 if pads_more else 128
    return replace(
        found,
        intermediate_size=round_up(found.intermediate_size, tile),
        hidden_size=round_up(found.hidden_size, 256),
        is_declared=True,
    )
