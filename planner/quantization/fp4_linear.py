"""Linear layers of 4 bit floats: NVFP4 with a scale for 16, MXFP4 for 32 columns.

Source: vLLM 0.33.0 `kernels/linear/__init__.py` init_nvfp4_linear_kernel and
init_mxfp4_linear_kernel, and the kernels of `kernels/linear/nvfp4/` and `mxfp4/`.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.parallel import ParallelLayout
from planner.quantization.capabilities import BLACKWELL, HOPPER
from planner.quantization.fp8_kernels import FP8
from planner.quantization.humming import humming_tensors
from planner.quantization.marlin import padded_nk
from planner.quantization.packing import Packing
from planner.quantization.rounding import round_up
from planner.tensors import LinearOnRank, Tensor

_NV_GROUP, _MX_GROUP = 16, 32
_MX_SCALE = "float8_e8m0fnu"
_CUTEDSL_W4A16 = (100, 103)
"""Capabilities of the kernel for 16 bit activations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvFp4Linear:
    """A weight of 4 bit floats with an FP8 scale for 16 columns and one for all."""

    has_input_scale: bool = True
    """False for 16 bit activations (W4A16)."""

    def tensors(
        self, on_rank: LinearOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weight and scales on a rank."""
        scalar = Tensor(1, "float32")
        # Of activations: their scale, its inverse, and the product with the weight's.
        scalars = (scalar,) * (4 if self.has_input_scale else 1)
        if self._runs_natively(layout):
            alignment = 32 if self.has_input_scale else 64
            if not layout.release.pads_nvfp4:
                alignment = 1
            return (*_tiled(on_rank, alignment), *scalars)
        if layout.capability == HOPPER and layout.release.prefers_humming:
            packing = Packing(num_bits=4, group_size=_NV_GROUP, scale_dtype=FP8)
            kept = (scalar,) * (2 if self.has_input_scale else 1)
            return (*humming_tensors(packing, on_rank, layout), *kept)
        return (*_marlin(on_rank, _NV_GROUP, FP8), *scalars)

    def _runs_natively(self, layout: ParallelLayout) -> bool:
        """Whether a kernel of Blackwell serves it."""
        if self.has_input_scale:
            return layout.capability >= BLACKWELL
        return layout.capability in _CUTEDSL_W4A16


def _tiled(on_rank: LinearOnRank, alignment: int) -> tuple[Tensor, ...]:
    """Weights padded for CUTLASS, scales in tiles of 128 rows and four groups.

    Source: vLLM 0.33.0 `layers/quantization/utils/nvfp4_utils.py`
    pad_nvfp4_weight_for_cutlass and swizzle_blockscale.
    """
    rows, columns = on_rank.output_size_per_partition, on_rank.input_size_per_partition
    weight = round_up(rows, alignment) * round_up(columns, alignment) // 2
    scales = round_up(rows, 128) * round_up(columns // _NV_GROUP, 4)
    return (Tensor(weight, "uint8"), Tensor(scales, FP8))


def _marlin(on_rank: LinearOnRank, group: int, scale: str) -> tuple[Tensor, ...]:
    """Source: vLLM 0.33.0 prepare_fp4_layer_for_marlin."""
    rows, columns = on_rank.output_size_per_partition, on_rank.input_size_per_partition
    padded_rows, padded_columns = padded_nk(rows, columns, group)
    tensors = (
        Tensor(padded_rows * padded_columns // 8, "int32"),
        Tensor(padded_rows * (padded_columns // group), scale),
    )
    if on_rank.has_bias and padded_rows != rows:
        return (*tensors, Tensor(padded_rows - rows))
    return tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class Mxfp4Linear:
    """A weight of 4 bit floats with a power of two for 32 columns."""

    def tensors(
        self, on_rank: LinearOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weight and scales on a rank."""
        if layout.capability >= BLACKWELL:
            rows = on_rank.output_size_per_partition
            columns = on_rank.input_size_per_partition
            scales = round_up(rows, 128) * round_up(columns // _MX_GROUP, 4)
            return (Tensor(rows * columns // 2, "uint8"), Tensor(scales, "uint8"))
        if layout.capability == HOPPER and layout.release.prefers_humming:
            packing = Packing(num_bits=4, group_size=_MX_GROUP, scale_dtype=_MX_SCALE)
            return humming_tensors(packing, on_rank, layout)
        return _marlin(on_rank, _MX_GROUP, _MX_SCALE)
