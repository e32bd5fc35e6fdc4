"""Linear layers in NVFP4, MXFP4 and MXFP8, and those of ModelOpt's algorithms.

NVFP4 has an FP8 scale for 16 columns, MXFP4 and MXFP8 a power of two, one byte, for 32.
`linear_method` returns the class for an algorithm of a ModelOpt checkpoint.

Source: vLLM 0.33.0 `kernels/linear/__init__.py` init_nvfp4_linear_kernel,
init_mxfp4_linear_kernel and init_mxfp8_linear_kernel, and the kernels of
`kernels/linear/nvfp4/`, `mxfp4/` and `mxfp8/`; `layers/quantization/modelopt.py`
ModelOptLinearMethod, resolve.
"""

from __future__ import annotations

from dataclasses import replace

from planner.engine.generations import (
    B300,
    DATACENTER_BLACKWELL,
    HOPPER,
    WORKSTATION_BLACKWELL,
)
from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.engine.releases.shared import KEEPS_RAW_NVFP4_SCALES, PREFERS_HUMMING
from planner.errors import Refused
from planner.models.quantization import fp8_kernels
from planner.models.quantization.fp8 import Fp8TensorLinear
from planner.models.quantization.fp8_kernels import FP8
from planner.models.quantization.padding import (
    Packing,
    humming_tensors,
    padded_nk,
    round_up,
)
from planner.models.tensors import LinearMethod, LinearOnRank, Tensor, Tensors
from planner.values import frozen

_NV_GROUP, _MX_GROUP = 16, 32
_MX_SCALE = "float8_e8m0fnu"
_SMALLEST = 128
"""Rows and columns from which on FlashInfer's MXFP8 kernels take a layer."""
_CUTEDSL_W4A16 = (DATACENTER_BLACKWELL, B300)
"""Capabilities of the kernel for 16 bit activations."""
_PADS_NVFP4 = Change(
    since=(0, 16),
    what="NVFP4 weights are padded for CUTLASS.",
    source=(
        "vLLM 0.16.0 `layers/quantization/utils/nvfp4_utils.py` "
        "pad_nvfp4_weight_for_cutlass"
    ),
)


@frozen
class NvFp4Linear:
    """A weight of 4 bit floats with an FP8 scale for 16 columns and one for all."""

    has_input_scale: bool = True
    """False for 16 bit activations (W4A16)."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank."""
        scalar = Tensor(1, "float32")
        # Of activations: their scale, its inverse, and the product with the weight's.
        scalars = (scalar,) * (4 if self.has_input_scale else 1)
        if self._runs_natively(layout):
            alignment = 32 if self.has_input_scale else 64
            if not layout.release.has(_PADS_NVFP4):
                alignment = 1
            return (*_tiled(on_rank, alignment), *scalars)
        if layout.compute_capability == HOPPER and layout.release.has(PREFERS_HUMMING):
            packing = Packing(num_bits=4, group_size=_NV_GROUP, scale_dtype=FP8)
            kept = (scalar,) * (2 if self.has_input_scale else 1)
            return (*humming_tensors(packing, on_rank, layout), *kept)
        return (*_marlin(on_rank, "int32", _NV_GROUP, FP8), *scalars)

    def _runs_natively(self, layout: ParallelLayout) -> bool:
        """Whether one of Blackwell's FP4 kernels computes it."""
        if self.has_input_scale:
            return layout.compute_capability >= DATACENTER_BLACKWELL
        return layout.compute_capability in _CUTEDSL_W4A16


def _tiled(on_rank: LinearOnRank, alignment: int) -> Tensors:
    """Return a weight padded for CUTLASS, scales in tiles of 128 rows and four groups.

    Source: vLLM 0.33.0 `layers/quantization/utils/nvfp4_utils.py`
    pad_nvfp4_weight_for_cutlass and swizzle_blockscale.
    """
    rows, columns = on_rank.shape
    weight = round_up(rows, alignment) * round_up(columns, alignment) // 2
    scales = round_up(rows, 128) * round_up(columns // _NV_GROUP, 4)
    return (Tensor(weight, "uint8"), Tensor(scales, FP8))


def _marlin(on_rank: LinearOnRank, weight: str, group: int, scale: str) -> Tensors:
    """Return a weight padded for Marlin, its scales and what a padded bias adds.

    `weight` is its dtype: FP8, or int32 for words of eight FP4 numbers.

    Source: vLLM 0.33.0 prepare_fp4_layer_for_marlin, prepare_mxfp8_layer_for_marlin.
    """
    rows, columns = on_rank.shape
    padded_rows, padded_columns = padded_nk(rows, columns, group)
    elements = padded_rows * padded_columns
    tensors = (
        Tensor(elements, FP8) if weight == FP8 else Tensor(elements // 8, "int32"),
        Tensor(padded_rows * (padded_columns // group), scale),
    )
    if on_rank.has_bias and padded_rows != rows:
        return (*tensors, Tensor(padded_rows - rows))
    return tensors


@frozen
class Mxfp4Linear:
    """A weight of 4 bit floats with a power of two for 32 columns."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank."""
        if layout.compute_capability >= DATACENTER_BLACKWELL:
            rows, columns = on_rank.shape
            scales = round_up(rows, 128) * round_up(columns // _MX_GROUP, 4)
            return (Tensor(rows * columns // 2, "uint8"), Tensor(scales, "uint8"))
        if layout.compute_capability == HOPPER and layout.release.has(PREFERS_HUMMING):
            packing = Packing(num_bits=4, group_size=_MX_GROUP, scale_dtype=_MX_SCALE)
            return humming_tensors(packing, on_rank, layout)
        return _marlin(on_rank, "int32", _MX_GROUP, _MX_SCALE)


@frozen
class Mxfp8Linear:
    """A weight in FP8 with a power of two for 32 columns."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank.

        Raises:
            Refused: in vLLM's words, where a scale would be split between two ranks.
        """
        columns = on_rank.input_size_per_partition
        if columns % _MX_GROUP:
            raise Refused(
                f"MXFP8 requires input_size_per_partition ({columns}) to be divisible "
                f"by {_MX_GROUP}."
            )
        if _suits_flashinfer(on_rank, layout):
            return _swizzled(on_rank)
        if layout.compute_capability == HOPPER and layout.release.has(PREFERS_HUMMING):
            packing = Packing(num_bits=8, group_size=_MX_GROUP, scale_dtype=_MX_SCALE)
            return humming_tensors(packing, on_rank, layout)
        return _marlin(on_rank, FP8, _MX_GROUP, _MX_SCALE)


def _suits_flashinfer(on_rank: LinearOnRank, layout: ParallelLayout) -> bool:
    """Whether FlashInfer's kernels take the shape on this GPU."""
    rows, columns = on_rank.shape
    is_workstation = layout.compute_capability[0] == WORKSTATION_BLACKWELL.major
    return (
        layout.compute_capability >= DATACENTER_BLACKWELL
        and rows >= _SMALLEST
        and columns >= _SMALLEST
        and not (is_workstation and rows % _MX_GROUP)
    )


def _swizzled(on_rank: LinearOnRank) -> Tensors:
    """Return a weight and its scales, padded to tiles of 128 rows and four groups."""
    rows, columns = on_rank.shape
    scales = round_up(rows, 128) * round_up(columns // _MX_GROUP, 4)
    return (Tensor(rows * columns, FP8), Tensor(scales, "uint8"))


@frozen
class ModelOptNvFp4Linear:
    """NVFP4, whose input size must be a multiple of 16."""

    has_input_scale: bool
    """False for 16 bit activations (W4A16)."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank.

        Raises:
            Refused: in vLLM's words, for inputs that 16 does not divide.
        """
        if on_rank.input_size_per_partition % _NV_GROUP:
            raise Refused(
                "Unsupported model when in features size is not multiple of 16"
            )
        held = NvFp4Linear(has_input_scale=self.has_input_scale)
        tensors = held.tensors(on_rank, layout)
        if (
            layout.release.has(KEEPS_RAW_NVFP4_SCALES)
            and layout.compute_capability >= DATACENTER_BLACKWELL
        ):
            groups = on_rank.input_size_per_partition // _NV_GROUP
            raw = Tensor(on_rank.output_size_per_partition * groups, FP8)
            return (*tensors, raw)
        return tensors


@frozen
class ModelOptChannelLinear:
    """FP8 with one scale for each row, activations with one for each token."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank."""
        rows = on_rank.output_size_per_partition
        return fp8_kernels.scaled_tensors(on_rank, layout, num_scales=rows)


@frozen
class ModelOptBlockLinear:
    """FP8 with one scale for 128 x 128; rows are padded to whole blocks."""

    model_type: str

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank.

        Raises:
            Refused: in vLLM's words, for inputs that 128 does not divide.
        """
        columns = on_rank.input_size_per_partition
        if columns % fp8_kernels.BLOCK:
            raise Refused(f"FP8_PB_WO requires in divisible by 128, got {columns}")
        rows = round_up(on_rank.output_size_per_partition, fp8_kernels.BLOCK)
        padded = replace(on_rank, output_partition_sizes=(rows,))
        return fp8_kernels.block_tensors(padded, layout, model_type=self.model_type)


def linear_method(algorithm: str, model_type: str) -> LinearMethod | None:
    """Return how a linear layer of an algorithm is held, None for an unknown one.

    `model_type` is the language model's.
    """
    methods: dict[str, LinearMethod] = {
        "FP8": Fp8TensorLinear(has_input_scale=True),
        "FP8_PER_CHANNEL_PER_TOKEN": ModelOptChannelLinear(),
        "FP8_PB_WO": ModelOptBlockLinear(model_type=model_type),
        "NVFP4": ModelOptNvFp4Linear(has_input_scale=True),
        "W4A16_NVFP4": ModelOptNvFp4Linear(has_input_scale=False),
        "MXFP8": Mxfp8Linear(),
    }
    return methods.get(algorithm)
