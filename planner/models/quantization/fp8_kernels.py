"""How FP8 kernels of linear layers repack the loaded tensors, by GPU.

Source: vLLM 0.33.0 `kernels/linear/__init__.py` init_fp8_linear_kernel and the
kernels of `kernels/linear/scaled_mm/`.
"""

from __future__ import annotations

from planner.engine.generations import (
    ADA,
    DATACENTER_BLACKWELL,
    HOPPER,
    WORKSTATION_BLACKWELL,
)
from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.engine.releases.shared import (
    KNOWS_BLACKWELL_FAMILY,
    LAYS_SCALES_OUT_FOR_DEEP_GEMM,
)
from planner.models.quantization.padding import ceil_div, padded_nk, round_up
from planner.models.tensors import LinearOnRank, Tensor, Tensors
from planner.units import MIB

FP8 = "float8_e4m3fn"
BLOCK = 128
_ALIGNMENT = 16
DEEP_GEMM_WORKSPACE = Tensor(32 * MIB, "uint8", workspace="DeepGEMM's workspace")
"""What DeepGEMM's runtime passes to cuBLASLt, from its first call on.

Source: DeepGEMM `csrc/jit/device_runtime.hpp` (kCublasLtWorkspaceSize).
"""
_ALLOCATES_DEEP_GEMM_WORKSPACE = Change(
    until=(0, 30),
    what=(
        "DeepGEMM's runtime allocates its workspace when it is made, for whatever "
        "call. Later it does so in a product by cuBLASLt, which vLLM does not use."
    ),
    source=(
        "DeepGEMM of vLLM 0.29.0, `csrc/jit/device_runtime.hpp` DeviceRuntime; of "
        "0.30.0, `csrc/runtime/runtime.hpp` get_cublaslt_workspace"
    ),
)
_RUNS_DEEP_GEMM_ON_RTX = Change(
    since=(0, 24),
    what="DeepGEMM serves RTX Blackwell.",
    source="vLLM 0.24.0 `platforms/cuda.py` support_deep_gemm",
)
_MARLIN_TAKES_ADA = Change(
    since=(0, 29),
    what=(
        "Marlin serves weights of FP8 blocks on Ada too. Before, Triton did, which "
        "leaves them as published."
    ),
    source="vLLM 0.28.0 and 0.29.0 `kernels/linear/scaled_mm/marlin.py` is_supported",
)
_PADS_FOR_CUTLASS = Change(
    since=(0, 21),
    what="FP8 weights are padded to sixteens for CUTLASS.",
    source="vLLM 0.21.0 `kernels/linear/scaled_mm/cutlass.py`",
)


def runs_marlin(layout: ParallelLayout) -> bool:
    """Whether weights with one scale a tensor or row go to Marlin.

    GPUs without FP8 arithmetic unpack them for 16-bit arithmetic.
    """
    return layout.compute_capability < ADA


def scaled_tensors(
    on_rank: LinearOnRank,
    layout: ParallelLayout,
    *,
    num_scales: int,
    is_act_per_tensor: bool = False,
    has_input_scale: bool = False,
) -> Tensors:
    """Return weight and scales of a layer with a scale per tensor or per row.

    `num_scales` is 1 or the rows; `is_act_per_tensor` says whether activations have
    one scale too, which one of Blackwell's kernels needs.
    """
    rows, columns = on_rank.shape
    if runs_marlin(layout):
        return marlin_tensors(on_rank, group_size=-1)
    input_scale = (Tensor(1, "float32"),) if has_input_scale else ()
    takes_any_shape = (
        layout.compute_capability >= DATACENTER_BLACKWELL
        and num_scales == 1
        and is_act_per_tensor
    )
    if not takes_any_shape and layout.release.has(_PADS_FOR_CUTLASS):
        # CUTLASS needs multiples of 16 in both dimensions.
        rows, columns = round_up(rows, _ALIGNMENT), round_up(columns, _ALIGNMENT)
    scales = 1 if num_scales == 1 else rows
    return (Tensor(rows * columns, FP8), Tensor(scales, "float32"), *input_scale)


def marlin_tensors(on_rank: LinearOnRank, *, group_size: int) -> Tensors:
    """Return a weight repacked for Marlin, its scales, and what pads the bias.

    Source: vLLM 0.33.0 `layers/quantization/utils/marlin_utils_fp8.py`
    prepare_fp8_layer_for_marlin: scales come by row, or by row and group, in the
    model's dtype.
    """
    rows, columns = on_rank.shape
    padded_rows, padded_columns = padded_nk(rows, columns, group_size)
    groups = 1 if group_size == -1 else padded_columns // group_size
    tensors = (Tensor(padded_rows * padded_columns, FP8), Tensor(padded_rows * groups))
    if on_rank.has_bias and padded_rows != rows:
        return (*tensors, Tensor(padded_rows - rows))
    return tensors


def quantises_block_inputs(layout: ParallelLayout) -> bool:
    """Return whether weights in blocks meet FP8 inputs; Marlin takes them as they are.

    Source: vLLM 0.33.0 `model_executor/kernels/linear/__init__.py`.
    """
    if layout.compute_capability < HOPPER and layout.release.has(_MARLIN_TAKES_ADA):
        return False
    return layout.compute_capability >= ADA


def block_tensors(
    on_rank: LinearOnRank, layout: ParallelLayout, *, model_type: str = ""
) -> Tensors:
    """Return weight and scales of a layer with a scale per 128 x 128 block.

    `model_type` is the (text) model's: vLLM keeps some from DeepGEMM.

    Source: vLLM 0.33.0 `kernels/linear/scaled_mm/deep_gemm.py`, `cutlass.py` and
    `marlin.py`.
    """
    rows, columns = on_rank.shape
    if not quantises_block_inputs(layout):
        return marlin_tensors(on_rank, group_size=BLOCK)
    weight = Tensor(rows * columns, FP8)
    blocks = ceil_div(rows, BLOCK) * ceil_div(columns, BLOCK)
    by_block = Tensor(blocks, "float32")
    if avoids_deep_gemm(model_type, layout) or not runs_deep_gemm(on_rank, layout):
        return (weight, by_block)
    has_workspace = layout.release.has(_ALLOCATES_DEEP_GEMM_WORKSPACE)
    workspace = (DEEP_GEMM_WORKSPACE,) if has_workspace else ()
    if layout.compute_capability < DATACENTER_BLACKWELL:
        return (weight, by_block, *workspace)
    # A scale of one byte for each row and block, four to an integer.
    groups = ceil_div(ceil_div(columns, BLOCK), 4)
    by_row = Tensor(groups * round_up(rows, 4), "int32")
    return (weight, by_row, *workspace)


_WITHOUT_DEEP_GEMM = {
    "qwen3_5_text": (10, 12),
    "qwen3_5_moe_text": (10, 12),
    "kolibri1": (12,),
}


def avoids_deep_gemm(model_type: str, layout: ParallelLayout) -> bool:
    """Whether vLLM keeps a (text) model type from DeepGEMM on this GPU.

    Source: vLLM 0.33.0 `utils/deep_gemm.py` should_auto_disable_deep_gemm.
    """
    return layout.compute_capability[0] in _WITHOUT_DEEP_GEMM.get(model_type, ())


def has_deep_gemm(layout: ParallelLayout) -> bool:
    """Whether DeepGEMM runs on the GPUs at all, and may.

    Source: vLLM 0.33.0 `platforms/cuda.py` support_deep_gemm, `utils/deep_gemm.py`
    is_deep_gemm_supported (VLLM_USE_DEEP_GEMM).
    """
    if not layout.uses_deep_gemm:
        return False
    release, major = layout.release, layout.compute_capability[0]
    if major == WORKSTATION_BLACKWELL.major:
        return release.has(_RUNS_DEEP_GEMM_ON_RTX)
    if major == DATACENTER_BLACKWELL.major and release.has(KNOWS_BLACKWELL_FAMILY):
        return True
    return layout.compute_capability in (HOPPER, DATACENTER_BLACKWELL)


def runs_deep_gemm(on_rank: LinearOnRank, layout: ParallelLayout) -> bool:
    """Whether DeepGEMM serves the layer, and has its scales laid out while loading.

    Source: vLLM 0.33.0 `utils/deep_gemm.py` should_use_deepgemm_for_fp8_linear.
    """
    return (
        has_deep_gemm(layout)
        and layout.release.has(LAYS_SCALES_OUT_FOR_DEEP_GEMM)
        and layout.dtype == "bfloat16"
        and on_rank.output_size_per_partition % 64 == 0
        and on_rank.input_size_per_partition % BLOCK == 0
    )
