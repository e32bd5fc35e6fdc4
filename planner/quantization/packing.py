"""Weights of few bits packed into words, as any kernel sees them."""

from __future__ import annotations

from dataclasses import dataclass

from planner.quantization.rounding import ceil_div
from planner.tensors import LinearOnRank, Tensor

WORD_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Weights of one layer."""

    num_bits: int
    group_size: int
    """Columns that share a scale; -1: a whole row."""
    has_zero_points: bool = False
    scale_dtype: str | None = None
    """None: the model's dtype."""

    def groups(self, columns: int) -> int:
        """Scales of a row with so many columns."""
        return 1 if self.group_size == -1 else columns // self.group_size

    def words(self, elements: int) -> Tensor:
        """Return a tensor of words that hold so many weights."""
        return Tensor(ceil_div(elements * self.num_bits, WORD_BITS), "int32")

    def zero_points(self, on_rank: LinearOnRank) -> Tensor:
        """Return the zero points as they are published, packed like the weights."""
        rows, columns = (
            on_rank.output_size_per_partition,
            on_rank.input_size_per_partition,
        )
        words = ceil_div(rows * self.num_bits, WORD_BITS)
        return Tensor(words * self.groups(columns), "int32")
