"""Experts of 4 or 8 bit integers with scales by group, and 16 bit activations.

Source: vLLM 0.33.0 `layers/fused_moe/oracle/int_wna16.py`.
"""

from __future__ import annotations

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.engine.releases.shared import (
    KEEPS_AWQ_WORKSPACE,
    KEEPS_GPTQ_WORKSPACE,
    PADS_EXPERTS_FOR_MARLIN,
)
from planner.errors import Refused
from planner.models.quantization.experts import serving
from planner.models.quantization.experts.kernels import (
    is_datacenter_blackwell,
    marlin_columns,
)
from planner.models.quantization.experts.serving import (
    HummingWeights,
    biases,
    prefers_humming,
    w13_rows,
    weights,
)
from planner.models.quantization.padding import WORD_BITS
from planner.models.tensors import (
    ExpertsKernel,
    ExpertsOnRank,
    ServedExperts,
    Tensor,
    Tensors,
)
from planner.values import frozen

_MARLIN_GROUPS = (-1, 32, 64, 128)
_MARLIN_COLUMNS = 64
"""What columns have to fill in releases that do not pad them."""
_MARLIN_HIDDEN = 128
_SMALLEST_GROUP = 32
_TRTLLM_BITS, _TRTLLM_GROUP = 4, 32
_HOLDS_WORDS_OF_ZEROS = Change(
    since=(0, 30),
    what="Zero points of GPTQ experts are words; before, of the model's dtype.",
    source=(
        "vLLM 0.25.1 and 0.30.0 `layers/quantization/auto_gptq.py` AutoGPTQMoEMethod"
    ),
)
_KEEPS_PACKED_WORKSPACE = Change(
    since=(0, 23),
    what="Packed experts of compressed-tensors use the persistent workspace.",
    source="vLLM 0.23.0 `compressed_tensors_moe_wna16_marlin.py`",
)
_KEEPS_WNA16_WORKSPACE = Change(
    since=(0, 27),
    what="Few-bit experts that Marlin cannot serve use the persistent workspace.",
    source="vLLM 0.27.0 `layers/quantization/moe_wna16.py`",
)


@frozen
class _Grouped:
    """Integers in groups along the inputs, packed in 32 bit words."""

    num_bits: int
    group_size: int
    """-1: one group holds all inputs of a row."""

    def packed(
        self,
        on_rank: ExpertsOnRank,
        columns: int,
        *,
        has_zero_points: bool,
        zeros: str | None = "int32",
    ) -> Tensors:
        """Return weights, scales and zero points with `columns` for each expert.

        `zeros` is the dtype of the zero points; None: the model's.
        """
        experts, hidden = on_rank.num_experts, on_rank.hidden_size
        packed = 32 // self.num_bits
        rows = w13_rows(on_rank, columns)
        groups = (self.groups(hidden), self.groups(columns))
        held = (
            *weights(on_rank, "int32", intermediate_size=columns, per_element=packed),
            Tensor(experts * groups[0] * rows),
            Tensor(experts * groups[1] * hidden),
        )
        if not has_zero_points:
            return held
        return (
            *held,
            Tensor(experts * groups[0] * (rows // packed), zeros),
            Tensor(experts * groups[1] * (hidden // packed), zeros),
        )

    def for_humming(self, on_rank: ExpertsOnRank, *, has_zero_points: bool) -> Tensors:
        """Return the same as Humming holds it, zero points only where they matter."""
        held = HummingWeights(
            num_bits=self.num_bits,
            group_size=self.group_size,
            has_zero_points=has_zero_points,
        )
        return held.tensors(on_rank)

    def groups(self, inputs: int) -> int:
        """Return the groups of a row of `inputs`."""
        return 1 if self.group_size == -1 else inputs // self.group_size

    def suits_marlin(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> bool:
        """Whether Marlin's kernel takes the experts, after padding if it pads them.

        Source: vLLM 0.33.0 `layers/quantization/utils/marlin_utils.py`
        check_moe_marlin_supports_config.
        """
        columns = on_rank.intermediate_size_per_partition
        is_padded = layout.release.has(PADS_EXPERTS_FOR_MARLIN)
        if columns % _MARLIN_COLUMNS and not is_padded:
            return False
        return (
            on_rank.hidden_size % _MARLIN_HIDDEN == 0
            and self.group_size in _MARLIN_GROUPS
            and (self.group_size <= 0 or columns % self.group_size == 0)
        )


@frozen
class GPTQExperts(_Grouped):
    """As `auto_gptq` checkpoints publish them; zero points stay, needed or not.

    Biases that no checkpoint fills are dropped after loading.

    Source: vLLM 0.33.0 `layers/quantization/auto_gptq.py` AutoGPTQMoEMethod.
    """

    desc_act: bool = False
    is_sym: bool = True

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights, scales, zero points and orders on a rank."""
        is_older = not layout.release.has(_HOLDS_WORDS_OF_ZEROS)
        if is_older and self.suits_marlin(on_rank, layout):
            return self._older(on_rank)
        return _marlin_or_not(on_rank, layout, self, has_zero_points=not self.is_sym)

    def _older(self, on_rank: ExpertsOnRank) -> Tensors:
        """Return what Marlin's kernel holds in releases that take desc_act.

        In the order of their activations, every rank holds the scales of all groups of
        w2, and the order and its inverse for each expert.

        Source: vLLM 0.25.1 `layers/quantization/auto_gptq.py` AutoGPTQMoEMethod,
        `layers/fused_moe/oracle/int_wna16.py` _process_weights_marlin.
        """
        columns = on_rank.intermediate_size_per_partition
        padded = columns
        if not self.desc_act:
            padded = marlin_columns(columns, self.group_size)
        held = (
            *self.packed(on_rank, padded, has_zero_points=True, zeros=None),
            *biases(on_rank, intermediate_size=padded),
        )
        if not self.desc_act:
            return held
        experts, hidden = on_rank.num_experts, on_rank.hidden_size
        missing = self.groups(on_rank.intermediate_size) - self.groups(columns)
        packed = WORD_BITS // self.num_bits
        more = experts * missing * (hidden + hidden // packed)
        orders = (Tensor(experts * hidden, "int32"), Tensor(experts * columns, "int32"))
        return (*held, Tensor(more), *orders, *orders)

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        return _served_by_marlin_or_not(
            on_rank,
            layout,
            self,
            keeps_workspace=layout.release.has(KEEPS_GPTQ_WORKSPACE),
        )


@frozen
class AWQExperts(_Grouped):
    """As `auto_awq` checkpoints publish them.

    Source: vLLM 0.33.0 `layers/quantization/auto_awq.py` AutoAWQMoEMethod.
    """

    has_zero_point: bool = True

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights, scales and zero points on a rank."""
        return _marlin_or_not(
            on_rank, layout, self, has_zero_points=self.has_zero_point
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        return _served_by_marlin_or_not(
            on_rank,
            layout,
            self,
            keeps_workspace=layout.release.has(KEEPS_AWQ_WORKSPACE),
        )


def _marlin_or_not(
    on_rank: ExpertsOnRank,
    layout: ParallelLayout,
    grouped: _Grouped,
    *,
    has_zero_points: bool,
) -> Tensors:
    if not grouped.suits_marlin(on_rank, layout):
        other = MoeWNA16Experts(
            num_bits=grouped.num_bits,
            group_size=grouped.group_size,
            has_zero_point=has_zero_points,
        )
        return other.tensors(on_rank, layout)
    if prefers_humming(layout):
        return grouped.for_humming(on_rank, has_zero_points=has_zero_points)
    columns = marlin_columns(
        on_rank.intermediate_size_per_partition, grouped.group_size
    )
    return (
        *grouped.packed(on_rank, columns, has_zero_points=True),
        *biases(on_rank, intermediate_size=columns),
    )


@frozen
class PackedExperts(_Grouped):
    """As compressed-tensors checkpoints of format pack-quantized publish them.

    Source: vLLM 0.33.0 `layers/quantization/compressed_tensors/
    compressed_tensors_moe/compressed_tensors_moe_wna16.py`.
    """

    is_sym: bool = True

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights, scales, zero points and shapes on a rank.

        Raises:
            Refused: in vLLM's words, where the ranks cut through a group, and for one
                scale a row on Hopper.
        """
        self._check(on_rank)
        columns = on_rank.intermediate_size_per_partition
        if prefers_humming(layout):
            if self.group_size == -1:
                # vLLM stops with a bare assertion where Marlin's kernel is not taken.
                raise Refused("AssertionError: weight_quant.strategy == 'group'")
            return self.for_humming(on_rank, has_zero_points=not self.is_sym)
        if self.suits_marlin(on_rank, layout) and not self._uses_trtllm(
            on_rank, layout
        ):
            columns = marlin_columns(columns, self.group_size)
        return (
            *self.packed(on_rank, columns, has_zero_points=not self.is_sym),
            *(Tensor(2 * on_rank.num_experts),) * 2,
            *biases(on_rank, intermediate_size=columns),
        )

    def _check(self, on_rank: ExpertsOnRank) -> None:
        size, hidden = self.group_size, on_rank.hidden_size
        columns = on_rank.intermediate_size_per_partition
        if size > 0 and hidden % size:
            raise Refused(
                f"CompressedTensors WNA16 MoE requires hidden_size ({hidden}) to be "
                f"divisible by group_size ({size})."
            )
        if size > 0 and columns % size:
            raise Refused(
                "CompressedTensors WNA16 MoE with static group scales requires the MoE "
                f"intermediate size per tensor-parallel partition ({columns}) to be "
                f"divisible by group_size ({size}). Scale groups would otherwise cross "
                "TP shard boundaries; use a compatible TP size or enable expert "
                "parallelism."
            )

    def _uses_trtllm(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> bool:
        """Whether FlashInfer's kernel for 4 bits in groups of 32 takes them.

        Source: vLLM 0.33.0 `layers/fused_moe/experts/trtllm_mxint4_moe.py`.
        """
        return (
            is_datacenter_blackwell(layout)
            and (self.num_bits, self.group_size) == (_TRTLLM_BITS, _TRTLLM_GROUP)
            and self.is_sym
            and on_rank.is_gated
            and on_rank.is_renormalized
            and on_rank.activation in ("silu", "swigluoai")
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes.

        FlashInfer's kernel for B200 needs VLLM_USE_FLASHINFER_MOE_INT4, off by default.

        Source: vLLM 0.33.0 `layers/quantization/utils/flashinfer_mxint4_moe.py`
        is_flashinfer_mxint4_moe_available.
        """
        return _served_by_marlin_or_not(
            on_rank,
            layout,
            self,
            keeps_workspace=layout.release.has(_KEEPS_PACKED_WORKSPACE),
        )


@frozen
class MoeWNA16Experts:
    """As `moe_wna16` holds GPTQ and AWQ checkpoints: bytes, in groups that fit.

    Source: vLLM 0.33.0 `layers/quantization/moe_wna16.py` MoeWNA16Method.
    """

    num_bits: int
    group_size: int
    has_zero_point: bool = False

    def tensors(
        self,
        on_rank: ExpertsOnRank,
        layout: ParallelLayout,
    ) -> Tensors:
        """Return weights, scales and zero points on a rank.

        Raises:
            Refused: where no group of 32 or more fits; vLLM stops without words.
        """
        experts, hidden = on_rank.num_experts, on_rank.hidden_size
        columns, rows = on_rank.intermediate_size_per_partition, w13_rows(on_rank)
        size = self.group_size
        while columns % size or hidden % size:
            size //= 2
            if size < _SMALLEST_GROUP:
                raise Refused("AssertionError: ")
        if prefers_humming(layout):
            grouped = _Grouped(num_bits=self.num_bits, group_size=size)
            return grouped.for_humming(on_rank, has_zero_points=self.has_zero_point)
        packed = 8 // self.num_bits
        held = (
            *weights(on_rank, "uint8", per_element=packed),
            Tensor(experts * rows * (hidden // size)),
            Tensor(experts * hidden * (columns // size)),
        )
        if not self.has_zero_point:
            return held
        return (
            *held,
            Tensor(experts * (rows // packed) * (hidden // size), "uint8"),
            Tensor(experts * (hidden // packed) * (columns // size), "uint8"),
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        keeps_workspace = layout.release.has(_KEEPS_WNA16_WORKSPACE)
        is_humming = prefers_humming(layout)
        kernel = ExpertsKernel.HUMMING if is_humming else ExpertsKernel.TRITON
        return serving.served(on_rank, kernel, keeps_workspace=keeps_workspace)


def _served_by_marlin_or_not(
    on_rank: ExpertsOnRank,
    layout: ParallelLayout,
    grouped: _Grouped,
    *,
    keeps_workspace: bool,
) -> ServedExperts:
    if grouped.suits_marlin(on_rank, layout):
        return serving.by_marlin(
            on_rank,
            layout,
            keeps_workspace=keeps_workspace,
            group_size=grouped.group_size,
        )
    other = MoeWNA16Experts(num_bits=grouped.num_bits, group_size=grouped.group_size)
    return other.served(on_rank, layout)
