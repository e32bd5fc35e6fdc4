"""Schemes of compressed-tensors checkpoints that no other format has.

Source: vLLM 0.33.0 `layers/quantization/compressed_tensors/schemes/`.
"""

from __future__ import annotations

from dataclasses import field

from planner.engine.generations import ADA, HOPPER, TURING, Capability
from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.errors import Refused
from planner.models.quantization import fp8_kernels
from planner.models.quantization.fp8 import check_block_shape
from planner.models.quantization.packed_ints import Kernel, choose, repacked
from planner.models.quantization.padding import Packing, humming_tensors, round_up
from planner.models.tensors import LinearOnRank, Tensor, Tensors
from planner.values import frozen

_SHAPE = Tensor(2, "int64")
"""The weight's shape before it was packed, which is kept with it."""
_FP8_GROUP = 128
_PACKED_SCALES = 8
"""Copies of each FP8 scale that the W4A8 kernel reads side by side."""
_UNPACKS_FP8_WITH_HUMMING = Change(
    since=(0, 25),
    what="Humming serves FP8 weights with 16-bit activations, not Marlin.",
    source="vLLM 0.25.0 `kernels/linear/__init__.py` _POSSIBLE_WFP8A16_KERNELS",
)
_NAMES_SPLIT_GROUPS = Change(
    since=(0, 25),
    what=(
        "Ranks that cut through groups of compressed-tensors' packed weights are "
        "refused before a kernel is chosen, with a message of their own."
    ),
    source=(
        "vLLM 0.24.0 and 0.25.0 `schemes/compressed_tensors_wNa16.py` create_weights"
    ),
)


def check_capability(layout: ParallelLayout, least: Capability) -> None:
    """Refuse a GPU that is too old for a scheme.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 CompressedTensorsConfig._check_scheme_supported.
    """
    if layout.compute_capability < least:
        raise Refused(
            "Quantization scheme is not supported for the current GPU. Min "
            f"capability: {least.number}. Current capability: {layout.capability}."
        )


def check_groups(on_rank: LinearOnRank, group_size: int, layer: str = "") -> None:
    """Refuse ranks that cut through groups of columns.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `distributed/utils.py` verify_group_size_divides_partition.
    """
    columns = on_rank.input_size_per_partition
    if not group_size:
        raise Refused("integer modulo by zero")
    if columns % group_size == 0:
        return
    where = f" for layer '{layer}'" if layer else ""
    raise Refused(
        f"Weight input_size_per_partition={columns}{where} is not divisible by "
        f"group_size={group_size}. This happens when tensor_parallel_size splits the "
        "layer input into shards that are not a whole number of quant groups. Consider "
        "reducing tensor_parallel_size."
    )


def _assert_groups(on_rank: LinearOnRank, group_size: int) -> None:
    columns = on_rank.input_size_per_partition
    if columns % group_size:
        raise Refused(
            f"AssertionError: (vLLM says no more: ranks of {columns} columns cut "
            f"through groups of {group_size})"
        )


@frozen
class PackedLinear:
    """Integers packed into words, 16 bit activations.

    Source: vLLM 0.33.0 `schemes/compressed_tensors_wNa16.py`.
    """

    packing: Packing
    layer: str = field(default="", compare=False)
    """The first layer held so, for refusals."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight, scales and zero points on a rank.

        Raises:
            Refused: in vLLM's words, where the ranks cut through a group.
        """
        check_capability(layout, TURING)
        names_group = layout.release.has(_NAMES_SPLIT_GROUPS)
        if self.packing.group_size != -1 and names_group:
            check_groups(on_rank, self.packing.group_size, self.layer)
        kernel = choose(self.packing, on_rank, layout)
        if self.packing.group_size != -1 and not names_group:
            _assert_groups(on_rank, self.packing.group_size)
        made = repacked(self.packing, on_rank, layout)
        return made if kernel is Kernel.HUMMING else (*made, _SHAPE)


@frozen
class Fp8Linear:
    """FP8 weights with a scale per tensor, row ("channel") or block.

    GPUs without FP8 arithmetic, and checkpoints without scales of activations, have
    their weights unpacked by Humming.

    Source: vLLM 0.33.0 `schemes/compressed_tensors_w8a8_fp8.py` and
    `compressed_tensors_w8a16_fp8.py`.
    """

    strategy: str
    is_static: bool
    """Whether activations have published scales."""
    is_weight_only: bool
    model_type: str

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank.

        Raises:
            Refused: in vLLM's words, where the ranks cut through a block.
        """
        check_capability(layout, TURING)
        is_block = self.strategy == "block"
        if is_block:
            check_block_shape(on_rank, layout)
        if self.is_weight_only or layout.compute_capability < ADA:
            return _unpacked_fp8(on_rank, layout, is_block=is_block)
        if is_block:
            return fp8_kernels.block_tensors(
                on_rank, layout, model_type=self.model_type
            )
        rows = on_rank.output_size_per_partition
        return fp8_kernels.scaled_tensors(
            on_rank,
            layout,
            num_scales=rows if self.strategy == "channel" else 1,
            is_act_per_tensor=self.is_static,
            has_input_scale=self.is_static,
        )


def _unpacked_fp8(
    on_rank: LinearOnRank, layout: ParallelLayout, *, is_block: bool
) -> Tensors:
    """Return FP8 for 16 bit activations.

    Humming has scales by row, or by block as published; Marlin, which older releases
    take, has them by row.
    """
    if not layout.release.has(_UNPACKS_FP8_WITH_HUMMING):
        group_size = fp8_kernels.BLOCK if is_block else -1
        return fp8_kernels.marlin_tensors(on_rank, group_size=group_size)
    packing = Packing(num_bits=8, group_size=-1)
    weight, scales, *others = humming_tensors(packing, on_rank, layout)
    if is_block:
        block = fp8_kernels.BLOCK
        rows = round_up(on_rank.output_size_per_partition, 2 * block)
        columns = round_up(on_rank.input_size_per_partition, block)
        scales = Tensor((rows // block) * (columns // block), "float32")
    return (weight, scales, *others)


@frozen
class Int8Linear:
    """INT8 weights and activations.

    Source: vLLM 0.33.0 `schemes/compressed_tensors_w8a8_int8.py`,
    `kernels/linear/scaled_mm/cutlass.py` CutlassInt8ScaledMMLinearKernel.
    """

    is_channel: bool
    is_static: bool
    is_symmetric: bool
    """Of activations; otherwise a correction for each row is kept."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank."""
        check_capability(layout, TURING)
        rows = on_rank.output_size_per_partition
        is_fused = len(on_rank.output_partition_sizes) > 1
        scales = rows if self.is_channel or is_fused else 1
        tensors = [
            Tensor(rows * on_rank.input_size_per_partition, "int8"),
            Tensor(scales, "float32"),
        ]
        if self.is_static:
            tensors.append(Tensor(1, "float32"))
        if not self.is_symmetric:
            tensors.append(Tensor(rows, "int32"))
            tensors += [Tensor(1, "int32")] if self.is_static else []
        return tuple(tensors)


@frozen
class W4A8Fp8Linear:
    """INT4 weights in groups of 128, FP8 activations: on Hopper only.

    Source: vLLM 0.33.0 `schemes/compressed_tensors_w4a8_fp8.py`,
    `kernels/linear/mixed_precision/cutlass.py`.
    """

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank.

        Raises:
            Refused: in vLLM's words, on another GPU or for groups cut through.
        """
        if layout.compute_capability != HOPPER:
            raise Refused("No compressed-tensors compatible scheme was found for W4A8.")
        check_groups(on_rank, _FP8_GROUP)
        packing = Packing(num_bits=4, group_size=_FP8_GROUP)
        rows, columns = on_rank.shape
        if rows % _FP8_GROUP or layout.dtype != "bfloat16":
            return humming_tensors(packing, on_rank, layout)
        scales = rows * packing.groups(columns) * _PACKED_SCALES
        return (
            packing.words(rows * columns),
            Tensor(scales, fp8_kernels.FP8),
            Tensor(rows, "float32"),
            _SHAPE,
        )


@frozen
class PackedEmbedding:
    """Word embeddings in packed integers.

    Source: vLLM 0.33.0 `compressed_tensors_embedding.py`.
    """

    packing: Packing

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return rows and scales on a rank."""
        rows, columns = on_rank.shape
        scales = Tensor(rows * self.packing.groups(columns))
        return (self.packing.words(rows * columns), scales, _SHAPE)
