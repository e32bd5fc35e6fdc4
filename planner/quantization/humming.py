"""Weights as the Humming kernels hold them, which serve Hopper where others cannot.

Source: vLLM 0.33.0 `layers/quantization/utils/humming/linear.py`
prepare_humming_linear_layer_config, `utils/humming.py` create_humming_locks; the
package humming-kernels 0.1.19, which vLLM requires.
"""

from __future__ import annotations

from planner.parallel import ParallelLayout
from planner.quantization.packing import WORD_BITS, Packing
from planner.quantization.rounding import round_up
from planner.tensors import LinearOnRank, Tensor

_COLUMNS, _ROWS = 128, 256
_LOCKS_PER_SM = 8


def humming_tensors(
    packing: Packing, on_rank: LinearOnRank, layout: ParallelLayout
) -> tuple[Tensor, ...]:
    """Return weight, scales, locks and zero points of a layer padded to a tile.

    A layer with a bias gets a second one of zeros.
    """
    rows, columns = on_rank.output_size_per_partition, on_rank.input_size_per_partition
    padded_rows = round_up(rows, _ROWS)
    padded_columns = round_up(columns, _COLUMNS)
    groups = packing.groups(padded_columns)
    tensors = [
        packing.words(padded_rows * padded_columns),
        Tensor(padded_rows * groups, packing.scale_dtype),
        Tensor(_LOCKS_PER_SM * layout.num_sms, "int32"),
    ]
    if packing.has_zero_points:
        bits = 4 if packing.num_bits <= 4 else 8  # noqa: PLR2004 - of a zero point
        tensors.append(Tensor(groups * padded_rows * bits // WORD_BITS, "int32"))
    if on_rank.has_bias:
        tensors.append(Tensor(2 * padded_rows - rows))
    return tuple(tensors)
