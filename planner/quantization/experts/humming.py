"""Experts as the Humming kernels hold them, which serve Hopper instead of Marlin's.

Source: vLLM 0.33.0 `layers/quantization/utils/humming/moe.py`
convert_to_humming_moe_kernel_format and `priority.py` prioritize_humming; the package
humming-kernels 0.1.19, which vLLM requires.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.parallel import ParallelLayout
from planner.quantization.capabilities import HOPPER
from planner.quantization.experts.shapes import w13_rows
from planner.quantization.rounding import round_up
from planner.tensors import ExpertsOnRank, Tensor

_ROWS, _COLUMNS = 256, 128
"""Tiles to which both weights are padded."""
_WORD_BITS = 32
_SMALL_ZERO_POINT_BITS, _ZERO_POINT_BITS = 4, 8


def prefers_humming(layout: ParallelLayout) -> bool:
    """Whether vLLM takes Humming where it would take Marlin on other GPUs."""
    is_hopper = layout.capability == HOPPER
    return is_hopper and layout.release.prefers_humming and not layout.enable_lora


@dataclass(frozen=True, slots=True, kw_only=True)
class HummingWeights:
    """Numbers of a few bits in groups along the inputs."""

    num_bits: int
    group_size: int
    """-1: one group holds all inputs of a row."""
    scale_dtype: str | None = None
    """None: the model's."""
    has_zero_points: bool = False
    has_expert_scale: bool = False
    """Whether each expert has a scale of its own on top."""

    def tensors(
        self, on_rank: ExpertsOnRank, columns: int | None = None
    ) -> tuple[Tensor, ...]:
        """Return what a rank holds of w13 and w2; old tensors are dropped.

        `columns`: of an expert, where its method pads them first.
        """
        inputs = on_rank.intermediate_size_per_partition if columns is None else columns
        rows, hidden = w13_rows(on_rank, inputs), on_rank.hidden_size
        return (
            *self._sublayer(on_rank, rows, hidden),
            *self._sublayer(on_rank, hidden, inputs),
        )

    def _sublayer(
        self, on_rank: ExpertsOnRank, rows: int, inputs: int
    ) -> tuple[Tensor, ...]:
        experts = on_rank.num_experts
        rows, inputs = round_up(rows, _ROWS), round_up(inputs, _COLUMNS)
        groups = 1 if self.group_size == -1 else inputs // self.group_size
        held = [
            Tensor(experts * rows * inputs * self.num_bits // _WORD_BITS, "int32"),
            Tensor(experts * rows * groups, self.scale_dtype),
        ]
        if self.has_zero_points:
            is_small = self.num_bits <= _SMALL_ZERO_POINT_BITS
            bits = _SMALL_ZERO_POINT_BITS if is_small else _ZERO_POINT_BITS
            held.append(Tensor(experts * rows * groups * bits // _WORD_BITS, "int32"))
        if self.has_expert_scale:
            held.append(Tensor(experts, "float32"))
        if on_rank.has_bias:
            held.append(Tensor(experts * rows))
        return tuple(held)
