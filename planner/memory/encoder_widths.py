"""How many values a row of a tower has at once, from the layers it is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from planner.layers import (
    ColumnParallelLinear,
    Module,
    QKVParallelLinear,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
)
from planner.model import Tower
from planner.parallel import ParallelLayout

Range = tuple[int, int, int]
"""Values at the low end, in the middle and at the high end."""

# Beside what the MLP itself computes a block keeps its input, what attention gave, the
# norm's output and the MLP's: how many of them at once, each as wide as the tower.
_BESIDE_MLP: Range = (2, 5, 8)
# Query, key and value count three; then copies of two for the rotary embedding, and the
# output. In fp32 two copies count four, before and after, and two when cast back.
_ATTENTION: Range = (4, 8, 14)
_ATTENTION_IN_FP32: Range = (9, 15, 18)
_BESIDE_ATTENTION: Range = (2, 2, 4)
_GATES = ("gate_proj", "up_proj")
_BEHIND_POOLING = {"merged_linear": 4}
"""Layers for so many patches as one, though their input is as wide as a patch."""
_QUERIES = ("q_proj", "wq")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Linear:
    """A linear layer of a tower on one rank."""

    name: str
    input_size: int
    output_size: int
    first_output: int
    is_qkv: bool = False


@lru_cache(maxsize=64)
def widths(tower: Tower, layout: ParallelLayout) -> Range:
    """Return how many values a row has at once where the tower is widest.

    Rows are those of its blocks; layers behind them work on several rows as one.

    Source: vLLM 0.33.0 `models/qwen2_5_vl.py` Qwen2_5_VisionMLP, Qwen2_5_VisionBlock,
    Qwen2_5_VisionAttention; `layers/rotary_embedding/common.py` ApplyRotaryEmb.
    """
    linears = [linear for m in tower.modules for linear in _linears(m, layout)]
    if len(linears) <= 1:  # nothing, or a projector behind another tower
        return 0, 0, 0
    size = Counter(linear.input_size for linear in linears).most_common(1)[0][0]
    attention = _ATTENTION_IN_FP32 if tower.rotates_in_fp32 else _ATTENTION
    found = [_width(linear, size, attention) for linear in dict.fromkeys(linears)]
    low, middle, high = (max(range_[end] for range_ in found) for end in range(3))
    return low, middle, high


def _width(linear: _Linear, size: int, attention: Range) -> Range:
    if linear.is_qkv:
        query = linear.first_output
        low, middle, high = (
            own * query + beside * size
            for own, beside in zip(attention, _BESIDE_ATTENTION, strict=True)
        )
        return low, middle, high
    own = linear.output_size + linear.first_output
    if linear.name in _GATES:
        own += linear.output_size
    # A layer behind the blocks takes several rows together.
    together = max(1, linear.input_size // size)
    rows = _BEHIND_POOLING.get(linear.name, together)
    low, middle, high = (own // rows + beside * size for beside in _BESIDE_MLP)
    return low, middle, high


def _linears(module: Module, layout: ParallelLayout) -> Iterator[_Linear]:
    """Return the linear layers that widen what goes in; others give back its size."""
    inner = getattr(module, "layer", module)
    ranks = layout.tensor_parallel_size
    if isinstance(inner, RowParallelLinear):
        return
    if isinstance(inner, QKVParallelLinear):
        query = max(1, inner.num_heads // ranks) * inner.head_size
        yield _Linear(
            name="qkv",
            input_size=inner.input_size,
            output_size=3 * query,
            first_output=query,
            is_qkv=True,
        )
    elif isinstance(inner, ColumnParallelLinear | ReplicatedLinear):
        cut = ranks if isinstance(inner, ColumnParallelLinear) else 1
        name = inner.name.removesuffix(".linear").rpartition(".")[2]
        yield _Linear(
            name=name,
            input_size=inner.input_size,
            output_size=sum(inner.output_sizes) // cut,
            first_output=inner.output_sizes[0] // cut,
            is_qkv=name in _QUERIES,
        )
    elif isinstance(inner, Replicated):
        yield from _whole(inner)


def _whole(module: Replicated) -> Iterator[_Linear]:
    """Return the layers of a module that the class takes as it is.

    A single table is one of embeddings; several are layers one after the other.
    """
    matrices = [shape for shape in module.shapes if len(shape) == 2]  # noqa: PLR2004
    if len(matrices) < 2:  # noqa: PLR2004
        return
    for output_size, input_size in matrices:
        is_square = output_size == input_size
        yield _Linear(
            name="whole",
            input_size=input_size,
            output_size=output_size,
            first_output=output_size,
            is_qkv=is_square and len(matrices) > 3,  # noqa: PLR2004
        )
