"""Linear layers in MXFP8: one power of two, a byte, for each 32 columns.

Source: vLLM 0.33.0 `kernels/linear/__init__.py` init_mxfp8_linear_kernel and the
kernels of `kernels/linear/mxfp8/`.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import Refused
from planner.parallel import WORKSTATION_BLACKWELL, ParallelLayout
from planner.quantization.capabilities import BLACKWELL, HOPPER
from planner.quantization.fp8_kernels import FP8
from planner.quantization.humming import humming_tensors
from planner.quantization.marlin import padded_nk
from planner.quantization.packing import Packing
from planner.quantization.rounding import round_up
from planner.tensors import LinearOnRank, Tensor

GROUP = 32
SCALE = "float8_e8m0fnu"
_SMALLEST = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Mxfp8Linear:
    """A weight with a byte of scale for each 32 columns."""

    def tensors(
        self, on_rank: LinearOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weight and scales on a rank.

        Raises:
            Refused: in vLLM's words, where a scale would lie on two ranks.
        """
        columns = on_rank.input_size_per_partition
        if columns % GROUP:
            raise Refused(
                f"MXFP8 requires input_size_per_partition ({columns}) to be divisible "
                f"by {GROUP}."
            )
        if _suits_flashinfer(on_rank, layout):
            return _swizzled(on_rank)
        if layout.capability == HOPPER and layout.release.prefers_humming:
            packing = Packing(num_bits=8, group_size=GROUP, scale_dtype=SCALE)
            return humming_tensors(packing, on_rank, layout)
        return _marlin(on_rank)


def _suits_flashinfer(on_rank: LinearOnRank, layout: ParallelLayout) -> bool:
    """Whether FlashInfer's kernels take the shape on this GPU."""
    rows, columns = on_rank.output_size_per_partition, on_rank.input_size_per_partition
    is_workstation = layout.compute_capability[0] == WORKSTATION_BLACKWELL
    return (
        layout.capability >= BLACKWELL
        and rows >= _SMALLEST
        and columns >= _SMALLEST
        and not (is_workstation and rows % GROUP)
    )


def _swizzled(on_rank: LinearOnRank) -> tuple[Tensor, ...]:
    """Scales lie in tiles of 128 rows and four groups."""
    rows, columns = on_rank.output_size_per_partition, on_rank.input_size_per_partition
    scales = round_up(rows, 128) * round_up(columns // GROUP, 4)
    return (Tensor(rows * columns, FP8), Tensor(scales, "uint8"))


def _marlin(on_rank: LinearOnRank) -> tuple[Tensor, ...]:
    """Source: vLLM 0.33.0 prepare_mxfp8_layer_for_marlin."""
    rows, columns = on_rank.output_size_per_partition, on_rank.input_size_per_partition
    padded_rows, padded_columns = padded_nk(rows, columns, GROUP)
    scales = Tensor(padded_rows * (padded_columns // GROUP), SCALE)
    tensors = (Tensor(padded_rows * padded_columns, FP8), scales)
    if on_rank.has_bias and padded_rows != rows:
        return (*tensors, Tensor(padded_rows - rows))
    return tensors
