"""Experts of 4 or 8 bit integers with scales by group, and 16 bit activations.

Source: vLLM 0.33.0 `layers/fused_moe/oracle/int_wna16.py`.
"""

from __future__ import annotations

from typing import ClassVar

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
    prefers_humming,
)
from planner.models.quantization.padding import WORD_BITS
from planner.models.tensors import (
    ExpertsKernel,
    ExpertsOnRank,
    ServedExperts,
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
    has_zero_points: bool = False
    """Whether zero points matter: weights are not symmetric."""
    workspace: ClassVar[Change]
    """Since when results of Marlin's kernel are in the shared workspace."""

    def packed(
        self,
        on_rank: ExpertsOnRank,
        *,
        has_zero_points: bool,
        zeros: str | None = "int32",
    ) -> Tensors:
        """Return weights, scales and zero points.

        `zeros` is the dtype of the zero points; None: the model's.
        """
        rows, hidden = on_rank.w13_rows, on_rank.hidden_size
        packed = WORD_BITS // self.num_bits
        of_w13 = self.groups(hidden)
        of_w2 = self.groups(on_rank.intermediate_size_per_partition)
        held = (
            *on_rank.weights("int32", per_element=packed),
            *on_rank.each(of_w13 * rows, of_w2 * hidden),
        )
        if not has_zero_points:
            return held
        counts = of_w13 * (rows // packed), of_w2 * (hidden // packed)
        return (*held, *on_rank.each(*counts, dtype=zeros))

    def for_humming(self, on_rank: ExpertsOnRank) -> Tensors:
        """Return the same as Humming holds it, zero points only where they matter."""
        held = HummingWeights(
            num_bits=self.num_bits,
            group_size=self.group_size,
            has_zero_points=self.has_zero_points,
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

    def for_marlin(self, on_rank: ExpertsOnRank) -> ExpertsOnRank:
        """Return the experts with the sizes to which Marlin's kernel pads them."""
        columns = on_rank.intermediate_size_per_partition
        return on_rank.padded(marlin_columns(columns, self.group_size))

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights, scales and zero points on a rank."""
        if not self.suits_marlin(on_rank, layout):
            return self._in_bytes.tensors(on_rank, layout)
        if prefers_humming(layout):
            return self.for_humming(on_rank)
        padded = self.for_marlin(on_rank)
        return (*self.packed(padded, has_zero_points=True), *padded.biases())

    @property
    def _in_bytes(self) -> MoeWNA16Experts:
        """What holds experts that Marlin's kernel does not take."""
        return MoeWNA16Experts(
            num_bits=self.num_bits,
            group_size=self.group_size,
            has_zero_points=self.has_zero_points,
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        if not self.suits_marlin(on_rank, layout):
            return self._in_bytes.served(on_rank, layout)
        size = self.group_size
        return serving.by_marlin(
            on_rank, layout, workspace=self.workspace, group_size=size
        )


@frozen
class GPTQExperts(_Grouped):
    """As `auto_gptq` checkpoints publish them; zero points stay, needed or not.

    Biases that no checkpoint fills are dropped after loading.

    Source: vLLM 0.33.0 `layers/quantization/auto_gptq.py` AutoGPTQMoEMethod.
    """

    desc_act: bool = False
    workspace: ClassVar[Change] = KEEPS_GPTQ_WORKSPACE

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights, scales, zero points and orders on a rank."""
        is_older = not layout.release.has(_HOLDS_WORDS_OF_ZEROS)
        if is_older and self.suits_marlin(on_rank, layout):
            return self._older(on_rank)
        return _Grouped.tensors(self, on_rank, layout)

    def _older(self, on_rank: ExpertsOnRank) -> Tensors:
        """Return what Marlin's kernel holds in releases that take desc_act.

        In the order of their activations, every rank holds the scales of all groups of
        w2, and the order and its inverse for each expert.

        Source: vLLM 0.25.1 `layers/quantization/auto_gptq.py` AutoGPTQMoEMethod,
        `layers/fused_moe/oracle/int_wna16.py` _process_weights_marlin.
        """
        padded = on_rank if self.desc_act else self.for_marlin(on_rank)
        held = (
            *self.packed(padded, has_zero_points=True, zeros=None),
            *padded.biases(),
        )
        if not self.desc_act:
            return held
        columns, hidden = on_rank.intermediate_size_per_partition, on_rank.hidden_size
        missing = self.groups(on_rank.intermediate_size) - self.groups(columns)
        packed = WORD_BITS // self.num_bits
        more = on_rank.each(missing * (hidden + hidden // packed))
        orders = on_rank.each(hidden, columns, dtype="int32")
        return (*held, *more, *orders, *orders)


@frozen
class AWQExperts(_Grouped):
    """As `auto_awq` checkpoints publish them.

    Source: vLLM 0.33.0 `layers/quantization/auto_awq.py` AutoAWQMoEMethod.
    """

    has_zero_points: bool = True
    workspace: ClassVar[Change] = KEEPS_AWQ_WORKSPACE


@frozen
class PackedExperts(_Grouped):
    """As compressed-tensors checkpoints of format pack-quantized publish them.

    Source: vLLM 0.33.0 `layers/quantization/compressed_tensors/
    compressed_tensors_moe/compressed_tensors_moe_wna16.py`. FlashInfer's kernel for
    B200 computes them with VLLM_USE_FLASHINFER_MOE_INT4 only, off by default
    (`layers/quantization/utils/flashinfer_mxint4_moe.py`).
    """

    workspace: ClassVar[Change] = _KEEPS_PACKED_WORKSPACE

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights, scales, zero points and shapes on a rank.

        Raises:
            Refused: in vLLM's words, where the ranks cut through a group, and for one
                scale a row on Hopper.
        """
        self._check(on_rank)
        if prefers_humming(layout):
            if self.group_size == -1:
                # vLLM stops with a bare assertion where Marlin's kernel is not taken.
                raise Refused("AssertionError: weight_quant.strategy == 'group'")
            return self.for_humming(on_rank)
        is_trtllm = self._uses_trtllm(on_rank, layout)
        if self.suits_marlin(on_rank, layout) and not is_trtllm:
            on_rank = self.for_marlin(on_rank)
        return (
            *self.packed(on_rank, has_zero_points=self.has_zero_points),
            *on_rank.each(2, 2),
            *on_rank.biases(),
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
            and not self.has_zero_points
            and on_rank.is_gated
            and on_rank.is_renormalized
            and on_rank.activation in ("silu", "swigluoai")
        )


@frozen
class MoeWNA16Experts:
    """As `moe_wna16` holds GPTQ and AWQ checkpoints: bytes, in groups that fit.

    Source: vLLM 0.33.0 `layers/quantization/moe_wna16.py` MoeWNA16Method.
    """

    num_bits: int
    group_size: int
    has_zero_points: bool = False

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights, scales and zero points on a rank.

        Raises:
            Refused: where no group of 32 or more fits; vLLM stops without words.
        """
        columns, hidden = on_rank.intermediate_size_per_partition, on_rank.hidden_size
        size = self.group_size
        while columns % size or hidden % size:
            size //= 2
            if size < _SMALLEST_GROUP:
                raise Refused("AssertionError: ")
        if prefers_humming(layout):
            fitting = _Grouped(
                num_bits=self.num_bits,
                group_size=size,
                has_zero_points=self.has_zero_points,
            )
            return fitting.for_humming(on_rank)
        packed, rows = 8 // self.num_bits, on_rank.w13_rows
        groups = hidden // size, columns // size
        held = (
            *on_rank.weights("uint8", per_element=packed),
            *on_rank.each(rows * groups[0], hidden * groups[1]),
        )
        if not self.has_zero_points:
            return held
        zeros = (rows // packed) * groups[0], (hidden // packed) * groups[1]
        return (*held, *on_rank.each(*zeros, dtype="uint8"))

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        is_humming = prefers_humming(layout)
        kernel = ExpertsKernel.HUMMING if is_humming else ExpertsKernel.TRITON
        workspace = _KEEPS_WNA16_WORKSPACE
        return serving.served(on_rank, layout, kernel, workspace=workspace)
