"""Pieces that the methods for experts share: rows, weights, biases."""

from __future__ import annotations

from planner.tensors import ExpertsOnRank, Tensor


def w13_rows(on_rank: ExpertsOnRank, intermediate_size: int | None = None) -> int:
    """Return the rows of gate and up together, or of up alone without a gate.

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
) -> tuple[Tensor, ...]:
    """Return the biases of w13 and w2, none where the model has none."""
    if not on_rank.has_bias:
        return ()
    hidden = on_rank.hidden_size if hidden_size is None else hidden_size
    return (
        Tensor(on_rank.num_experts * w13_rows(on_rank, intermediate_size), dtype),
        Tensor(on_rank.num_experts * hidden, dtype),
    )
