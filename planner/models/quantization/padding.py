"""Shapes that GPU kernels give to quantised weights: rounding, packing and padding.

`Packing` describes weights of a few bits packed into 32 bit words; Humming's and
Marlin's kernels pad such weights to their tiles.

Source: vLLM 0.33.0 `layers/quantization/utils/humming/linear.py`
prepare_humming_linear_layer_config, `utils/humming.py` create_humming_locks; the
package humming-kernels 0.1.19, which vLLM requires;
`layers/quantization/utils/marlin_utils.py`.
"""

from __future__ import annotations

from math import lcm

from planner.engine.layout import ParallelLayout
from planner.models.tensors import LinearOnRank, Tensor, Tensors
from planner.values import frozen

WORD_BITS = 32

_HUMMING_COLUMNS, _HUMMING_ROWS = 128, 256
"""The tile to which Humming's kernels pad."""


def ceil_div(value: int, by: int) -> int:
    """Return `value` divided by `by`, rounded up."""
    return -(-value // by)


def round_up(value: int, to: int) -> int:
    """Return the next multiple of `to`."""
    return ceil_div(value, to) * to


@frozen
class Packing:
    """How the weights of one layer are packed into words."""

    num_bits: int
    group_size: int
    """Columns that share a scale; -1: a whole row."""
    has_zero_points: bool = False
    scale_dtype: str | None = None
    """None: the model's dtype."""

    def groups(self, columns: int) -> int:
        """Return the scales of a row with this many columns."""
        return 1 if self.group_size == -1 else columns // self.group_size

    def words(self, elements: int) -> Tensor:
        """Return the tensor of words that holds this many weights."""
        return Tensor(ceil_div(elements * self.num_bits, WORD_BITS), "int32")

    def zero_points(self, on_rank: LinearOnRank) -> Tensor:
        """Return the zero points as published, packed like the weights."""
        rows, columns = on_rank.shape
        words = ceil_div(rows * self.num_bits, WORD_BITS)
        return Tensor(words * self.groups(columns), "int32")


_HUMMING_LOCKS_PER_SM = 8


def humming_tensors(
    packing: Packing, on_rank: LinearOnRank, layout: ParallelLayout
) -> Tensors:
    """Return weight, scales, locks and zero points of a layer, as Humming holds it.

    A layer with a bias gets a second one of zeros.
    """
    rows, columns = on_rank.shape
    padded_rows = round_up(rows, _HUMMING_ROWS)
    padded_columns = round_up(columns, _HUMMING_COLUMNS)
    groups = packing.groups(padded_columns)
    tensors = [
        packing.words(padded_rows * padded_columns),
        Tensor(padded_rows * groups, packing.scale_dtype),
        Tensor(_HUMMING_LOCKS_PER_SM * layout.num_sms, "int32"),
    ]
    if packing.has_zero_points:
        bits = 4 if packing.num_bits <= 4 else 8  # noqa: PLR2004 - of a zero point
        tensors.append(Tensor(groups * padded_rows * bits // WORD_BITS, "int32"))
    if on_rank.has_bias:
        tensors.append(Tensor(2 * padded_rows - rows))
    return tuple(tensors)


def padded_nk(size_n: int, size_k: int, group_size: int = -1) -> tuple[int, int]:
    """Return rows and columns after padding to the cheaper of Marlin's two tiles.

    Tiles are 64 rows by 128 columns or the reverse; columns stay whole groups.

    Source: marlin_padded_nk.
    """
    group = group_size if group_size > 0 else 1
    candidates = (
        (round_up(size_n, 64), round_up(size_k, lcm(128, group))),
        (round_up(size_n, 128), round_up(size_k, lcm(64, group))),
    )
    return min(candidates, key=lambda nk: (nk[0] * nk[1], nk[0] + nk[1]))
