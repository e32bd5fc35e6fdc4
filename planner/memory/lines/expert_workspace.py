"""Memory of routed experts beside their weights while a batch passes through them.

Two GEMMs follow each other, with their results in two buffers. Since 0.14.0 most
kernels take these from one workspace that all layers share and that stays allocated;
before, and still for some kernels, each layer allocates and frees them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from planner.engine.dtypes import element_bytes
from planner.engine.releases.change import Change
from planner.memory.account import Sized, larger
from planner.memory.lines.expert_block import (
    ExpertBlock,
    added_up,
    blocks,
    blocks_of_draft,
    copied_inputs_bytes,
)
from planner.memory.profile_run import ProfileRun, once_for_all_lengths
from planner.models.experts import FusedMoE
from planner.models.tensors import ExpertsKernel, ServedExperts
from planner.units import format_size

_ALIGNMENT = 256
_DEEPGEMM_ROWS = 128
"""DeepGEMM rounds the tokens of each expert up to a multiple of so many rows."""
_TRTLLM_TILES = (8, 16, 32, 64)
"""Rows of FlashInfer's TRT-LLM tiles; every kernel has these."""
_FP8_BLOCK, _SCALE_ROWS = 128, 32
_BYTE_BITS = 8
_SLOT_BYTES = 4
"""Where a row came from."""
_ROUTER_BYTES = 4
_CHOICE_BYTES = 12
"""Weight, expert and row of a chosen expert."""
_GATHERED_CHOICE_BYTES = 8  # weight and expert
_SHARES_EXPERT_OUTPUT = Change(
    since=(0, 15),
    what="The output of experts shares their first buffer, even where it is larger.",
    source="vLLM 0.15.0 `layers/fused_moe/modular_kernel.py` _allocate_buffers",
)
_OVERWRITES_EXPERT_INPUT = Change(
    until=(0, 11, 1),
    what="Triton's experts write their output over their input.",
    source="vLLM 0.11.1 `layers/fused_moe/utils.py` disable_inplace (PyTorch 2.9 on)",
)
_SIZES_DEEPGEMM_IN_BYTES = Change(
    since=(0, 31),
    what="DeepGEMM's FP8 inputs are sized in bytes, not in 16-bit elements.",
    source="vLLM 0.31.0 `layers/fused_moe/experts/deep_gemm_moe.py`",
)


class _Shapes(NamedTuple):
    """Elements of the two buffers and of the output, which share a workspace."""

    first: int
    second: int
    output: int


@once_for_all_lengths
def expert_workspace(run: ProfileRun) -> Sized:
    """Return the workspace that all layers of routed experts share.

    It stays allocated after the profile run.

    Source: vLLM 0.33.0 `layers/fused_moe/modular_kernel.py` _allocate_buffers,
    workspace_shapes of `layers/fused_moe/experts/`, `v1/worker/workspace.py`.
    """
    return larger([_kept(b) for b in (*blocks(run), *blocks_of_draft(run))])


def expert_workspace_bytes(run: ProfileRun) -> int:
    """Return the bytes of `expert_workspace`."""
    return expert_workspace(run).size_bytes


@once_for_all_lengths
def growth_for_draft_bytes(run: ProfileRun) -> int:
    """Return by how much a draft's experts enlarge the workspace of the target's.

    Source: a traced dry run of Qwen3.6-35B-A3B-NVFP4, whose draft has 16-bit experts.
    """
    return expert_workspace_bytes(run) - larger([*map(_kept, blocks(run))]).size_bytes


@once_for_all_lengths
def expert_transient(run: ProfileRun) -> Sized:
    """Return what a layer of routed experts allocates temporarily beside the workspace.

    Its own input and the residual are not counted: every layer has them.

    Source: vLLM 0.33.0 `layers/fused_moe/modular_kernel.py`; 0.13.0
    `layers/fused_moe/fused_moe.py` fused_experts_impl.
    """
    return larger([_transient(block) for block in blocks(run)])


@once_for_all_lengths
def draft_transient(run: ProfileRun) -> Sized:
    """Return the same of a draft's experts, which may have another kernel.

    NVIDIA leaves those in 16 bits.
    """
    return larger([_transient(block) for block in blocks_of_draft(run)])


def expert_transient_bytes(run: ProfileRun) -> int:
    """Return the bytes of `expert_transient`."""
    return expert_transient(run).size_bytes


def _kept(block: ExpertBlock) -> Sized:
    if not block.served.keeps_workspace or block.is_monolithic:
        return Sized(size_bytes=0)
    size_bytes = _workspace_bytes(block, block.chunk, block.tokens)
    is_shared = block.run.layout.enable_expert_parallel
    limit = block.run.expert_chunk_tokens
    if limit is not None and is_shared and block.run.layout.data_parallel_size > 1:
        # Routing is uneven, so the profile run allocates for the largest chunk.
        size_bytes = max(size_bytes, sum(_aligned(block, _shapes(block, limit))))
    served, run = block.served, block.run
    return Sized(
        size_bytes=size_bytes,
        why=(
            f"{served.kernel} experts: {block.chunk:,} tokens x "
            f"{block.experts.top_k} experts, {served.hidden_size:,} hidden, "
            f"{block.gate_and_up:,} gate and up, {run.element_size} bytes = "
            f"{format_size(size_bytes)}"
        ),
    )


def _workspace_bytes(block: ExpertBlock, chunk: int, tokens: int) -> int:
    """Return the bytes of the workspace for `tokens`, processed `chunk` at once."""
    shapes = _shapes(block, chunk)
    is_whole = chunk == tokens
    is_shared = block.run.release.has(_SHARES_EXPERT_OUTPUT)
    fits = is_shared or shapes.first >= shapes.output
    if is_whole and fits:
        first = max(shapes.first, shapes.output)
        return sum(_aligned(block, _Shapes(first, shapes.second, 0)))
    output = tokens * block.served.hidden_size
    return sum(_aligned(block, _Shapes(shapes.first, shapes.second, output)))


def _aligned(block: ExpertBlock, shapes: _Shapes) -> Iterator[int]:
    for elements in shapes:
        size_bytes = elements * block.run.element_size
        yield -(-size_bytes // _ALIGNMENT) * _ALIGNMENT


def _shapes(block: ExpertBlock, tokens: int) -> _Shapes:
    """Return the buffers of a kernel for that many tokens."""
    served = block.served
    if served.kernel is ExpertsKernel.DEEPGEMM:
        return _deepgemm(block, tokens)
    hidden, columns = served.hidden_size, served.intermediate_size
    rows, output = tokens * block.experts.top_k, tokens * hidden
    wider, widest = max(columns, hidden), max(2 * columns, hidden)
    buffers = {
        ExpertsKernel.TRITON: (rows * wider, rows * max(block.gate_and_up, hidden)),
        ExpertsKernel.MARLIN: (rows * wider, rows * widest),
        ExpertsKernel.CUTLASS_FP4: (rows * widest, rows * columns),
        ExpertsKernel.HUMMING: (
            rows * columns,
            rows * max(block.gate_and_up, hidden),
        ),
        ExpertsKernel.OAI_TRITON: (0, rows * columns),
    }
    # The other kernels have their own buffers.
    return _Shapes(*buffers.get(served.kernel, (0, 0)), output)


def _deepgemm(block: ExpertBlock, tokens: int) -> _Shapes:
    """Return DeepGEMM's buffers: the tokens of each expert fill whole tiles.

    Source: vLLM 0.33.0 `layers/fused_moe/deep_gemm_utils.py` compute_aligned_M,
    `layers/fused_moe/experts/deep_gemm_moe.py` workspace_shapes.
    """
    served, layout = block.served, block.run.layout
    rows = tokens * block.experts.top_k
    active = min(rows, layout.local_num_experts(block.experts.num_experts))
    rows += active * (_DEEPGEMM_ROWS - 1)
    rows = -(-rows // _DEEPGEMM_ROWS) * _DEEPGEMM_ROWS
    first = rows * max(served.intermediate_size, served.hidden_size)
    if block.run.release.has(_SIZES_DEEPGEMM_IN_BYTES):
        first = -(-first // block.run.element_size)
    return _Shapes(
        first,
        rows * max(block.gate_and_up, served.hidden_size),
        tokens * served.hidden_size,
    )


def _transient(block: ExpertBlock) -> Sized:
    run, served = block.run, block.served
    tokens, size = run.max_num_batched_tokens, run.element_size
    hidden = tokens * run.model.hidden_size * size
    results = _intermediate_results(block)
    parts = {
        "intermediate results": sum(results),
        "gathered from replicas": _gathered_bytes(block),
        "narrower or padded inputs": _inputs_bytes(block),
        "router's inputs": _router_inputs_bytes(block),
        "input again": copied_inputs_bytes(block),
        "quantised inputs": _copied_bytes(block),
        "output": _output_bytes(block),
        "shared experts' output": hidden if block.has_shared_experts else 0,
        "routing": tokens * _routing_bytes(block.experts),
    }
    terms = " + ".join(f"{name} {format_size(b)}" for name, b in parts.items() if b)
    _of_all, *others = parts.values()
    in_kernel = Sized(
        size_bytes=sum(parts.values()),
        why=f"{served.kernel} experts: {terms}",
        tensors=(*results, *others),
    )
    return larger([in_kernel, added_up(block)])


def _inputs_bytes(block: ExpertBlock) -> int:
    """Return the inputs where they are not the layer's own hidden states.

    They are projected to fewer values first, and padded as the kernel needs them.
    MXFP8 inputs of MXFP4 weights are padded as they are quantised.

    Source: vLLM 0.33.0 `layers/fused_moe/runner/moe_runner.py` forward
    (apply_routed_input_transform, _maybe_pad_hidden_states),
    `layers/quantization/mxfp4.py` skip_forward_padding; traced dry runs of Nemotron 3
    Super and Nano in NVFP4 on B200.
    """
    served, own = block.served, block.experts.hidden_size
    copy = served.input_copy
    narrow = own if own != block.run.model.hidden_size else 0
    pads_copy = served.has_fp4_weights and copy is not None and copy.bits == _BYTE_BITS
    padded = served.hidden_size if served.hidden_size != own and not pads_copy else 0
    tokens = block.run.max_num_batched_tokens * block.run.element_size
    return tokens * (narrow + padded)


def _router_inputs_bytes(block: ExpertBlock) -> int:
    """Return the router's inputs where it reads another dtype and a name keeps them."""
    dtype, run = block.experts.router_dtype, block.run
    if dtype in (None, run.dtype) or run.compiles:
        return 0
    return run.max_num_batched_tokens * run.model.hidden_size * element_bytes(dtype)


def _routing_bytes(experts: FusedMoE) -> int:
    """Return the bytes of a token's scores and of the experts chosen by them."""
    return _ROUTER_BYTES * experts.num_experts + _CHOICE_BYTES * experts.top_k


def _gathered_bytes(block: ExpertBlock) -> int:
    """Return what comes from all data-parallel ranks: 16 bit inputs, and routing.

    Quantised inputs are counted as such. Routing is scores, or chosen experts.

    Source: vLLM 0.33.0 `layers/fused_moe/prepare_finalize/naive_dp_ep.py`.
    """
    served, experts = block.served, block.experts
    if not block.is_gathered:
        return 0
    row = 0 if served.input_copy else served.hidden_size * block.run.element_size
    if block.is_monolithic:
        return block.tokens * (row + _ROUTER_BYTES * experts.num_experts)
    return block.tokens * (row + _GATHERED_CHOICE_BYTES * experts.top_k)


def _output_bytes(block: ExpertBlock) -> int:
    """Return the layer's output, which one call computes for all ranks' tokens."""
    served, run = block.served, block.run
    is_triton = served.kernel is ExpertsKernel.TRITON
    if is_triton and run.release.has(_OVERWRITES_EXPERT_INPUT):
        return 0
    tokens = block.tokens if block.is_monolithic else run.max_num_batched_tokens
    return tokens * served.hidden_size * run.element_size


def _intermediate_results(block: ExpertBlock) -> tuple[int, ...]:
    """Return the bytes of results between GEMMs that are not in the workspace."""
    served, size = block.served, block.run.element_size
    rows = block.chunk * block.experts.top_k
    wide = max(block.gate_and_up, served.hidden_size)
    match served.kernel:
        case ExpertsKernel.TRTLLM:
            return (_trtllm_bytes(block),)
        case ExpertsKernel.FLASHINFER_CUTLASS | ExpertsKernel.FLASHINFER_BLOCKS:
            return (_flashinfer_bytes(block, rows),)
        case ExpertsKernel.OAI_TRITON:
            widths = served.intermediate_size, served.hidden_size
            return tuple(rows * width * size for width in widths)
    if served.keeps_workspace:
        return ()
    if served.kernel in (ExpertsKernel.TRITON, ExpertsKernel.MARLIN):
        return rows * wide * size, rows * served.intermediate_size * size
    shapes = _shapes(block, block.chunk)
    return shapes.first * size, shapes.second * size


def _flashinfer_bytes(block: ExpertBlock, rows: int) -> int:
    """Return the workspace of FlashInfer's CUTLASS kernels for so many rows.

    The inputs of both products overlap, and so do their outputs, except in blocks.

    Source: FlashInfer 0.7.2 `cutlass_fused_moe_kernels.cuh`
    getWorkspaceDeviceBufferSizes.
    """
    served, size = block.served, block.run.element_size
    hidden, copy = served.hidden_size, served.input_copy
    widest = max(hidden, served.intermediate_size)
    row = widest * size if copy is None else copy.row_bytes(widest)
    inputs = rows * max(row, hidden * size)
    first = rows * block.gate_and_up * size
    if served.kernel is ExpertsKernel.FLASHINFER_BLOCKS:
        return inputs + first + _block_copy_bytes(block, rows, widest)
    return inputs + max(first, rows * hidden * size)


def _block_copy_bytes(block: ExpertBlock, rows: int, columns: int) -> int:
    """Return the inputs of a product in FP8, whose scales are padded by expert.

    Source: FlashInfer 0.7.2 `fp8_blockscale_gemm.cu` getWorkspaceSizeBase.
    """
    experts = block.run.layout.local_num_experts(block.experts.num_experts)
    padded = (rows + (_SCALE_ROWS - 1) * experts) // _SCALE_ROWS * _SCALE_ROWS
    return rows * columns + padded * (-(-columns // _FP8_BLOCK)) * 4


def _trtllm_bytes(block: ExpertBlock) -> int:
    """Return the buffers of FlashInfer's TRT-LLM kernels: both outputs, in tiles.

    Source: FlashInfer 0.7.2 `csrc/trtllm_fused_moe_kernel_launcher.cu` prepare_moe of
    each launcher; `trtllm/fused_moe/runner.h` getMaxNumCtasInBatchDim.
    """
    served, experts = block.served, block.experts
    rows = block.tokens * experts.top_k
    tile, filled = _trtllm_tile(block, rows), min(experts.num_experts, rows)
    rows = (filled + (rows - filled) // tile) * tile
    second = served.hidden_size * block.run.element_size
    return rows * (_trtllm_row_bytes(block) + second + _SLOT_BYTES)


def _trtllm_tile(block: ExpertBlock, rows: int) -> int:
    """Return the tile before tuning: one below the first that holds an expert's rows.

    Source: FlashInfer 0.7.2 `csrc/trtllm_fused_moe_kernel_launcher.cu`
    computeSelectedTileN, selectDefaultTileN, getSupportedTileNums.
    """
    each = rows / block.run.layout.local_num_experts(block.experts.num_experts)
    tiles = _trtllm_tiles(block.served)
    fewer = sum(tile < each for tile in tiles)
    return tiles[max(0, min(fewer, len(tiles) - 1) - 1)]


def _trtllm_tiles(served: ServedExperts) -> tuple[int, ...]:
    copy = served.input_copy
    if served.has_fp4_weights:
        return _TRTLLM_TILES if copy is None else (*_TRTLLM_TILES, 128, 192, 256)
    is_mxfp8 = copy is not None and copy.scale_bytes == 1
    return (*_TRTLLM_TILES, 128, 256) if is_mxfp8 else (*_TRTLLM_TILES, 128)


def _trtllm_row_bytes(block: ExpertBlock) -> int:
    """Return the first output of a row; FP8's activation is a step of its own."""
    columns, copy = block.served.intermediate_size, block.served.input_copy
    if copy is None:
        return columns * block.run.element_size
    if copy.scale_bytes == 1:
        return copy.row_bytes(columns)
    values = 2 * columns if not copy.group_size else block.gate_and_up + columns
    return values + values // _FP8_BLOCK * 4


def _copied_bytes(block: ExpertBlock) -> int:
    """Return the quantised copies of both GEMMs' inputs.

    DeepGEMM and FlashInfer have the second one in their own buffers; CUTLASS's FP4
    kernel first gathers the inputs of each expert.
    """
    served, copy = block.served, block.served.input_copy
    if copy is None:
        return 0
    rows = block.chunk * block.experts.top_k
    second = rows * copy.row_bytes(served.intermediate_size)
    if served.kernel is ExpertsKernel.CUTLASS_FP4:
        gathered = served.hidden_size * block.run.element_size
        return rows * (gathered + copy.row_bytes(served.hidden_size)) + second
    tokens = block.tokens if served.keeps_workspace else block.chunk
    first = tokens * copy.row_bytes(served.hidden_size)
    if served.kernel is ExpertsKernel.TRTLLM and copy.group_size == _FP8_BLOCK:
        # Scales are transposed, by a copy.
        first += tokens * copy.scale_bytes * -(-served.hidden_size // _FP8_BLOCK)
    return first + (second if served.kernel is ExpertsKernel.TRITON else 0)
