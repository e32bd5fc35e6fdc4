"""FP8 experts: one scale an expert, a row or a block, or powers of two (MXFP8).

Source: vLLM 0.33.0 `layers/quantization/fp8.py` Fp8MoEMethod,
`layers/quantization/online/fp8.py`, `layers/fused_moe/oracle/fp8.py`; of MXFP8
`layers/quantization/online/mxfp8.py`, `layers/quantization/modelopt.py`
ModelOptMxFp8FusedMoE, `layers/fused_moe/oracle/mxfp8.py`.
"""

from __future__ import annotations

from math import gcd
from typing import ClassVar

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.errors import Refused
from planner.models.quantization.experts import serving
from planner.models.quantization.experts.kernels import (
    Kernel,
    fp8_block_kernel,
    fp8_tensor_kernel,
    marlin_columns,
    mxfp8_kernel,
)
from planner.models.quantization.experts.mxfp4 import Mxfp4Experts
from planner.models.quantization.experts.serving import (
    HummingWeights,
    prefers_humming,
)
from planner.models.quantization.padding import ceil_div, round_up
from planner.models.tensors import (
    ExpertsMethod,
    ExpertsOnRank,
    ServedExperts,
    Tensor,
    Tensors,
)
from planner.values import frozen

_FP8 = "float8_e4m3fn"
_FINEST_BLOCK = 32
_NO_KERNEL = "No FP8 MoE backend supports the deployment configuration."
_NO_CHANNEL_SCALES = (
    "FP8 PTPC online MoE quant is not supported with the MARLIN backend, which does "
    "not implement per-output-channel weight scales."
)
_REFINES_FP8_BLOCKS = Change(
    since=(0, 29),
    what="Ranks may cut through blocks of FP8 experts, whose scales repeat.",
    source="vLLM 0.29.0 `layers/fused_moe/oracle/fp8.py` refine_fp8_moe_block_shape",
)
_MX_GROUP = 32
_MX_HUMMING = HummingWeights(
    num_bits=8, group_size=_MX_GROUP, scale_dtype="float8_e8m0fnu"
)


@frozen
class Fp8TensorExperts:
    """One scale for each expert's w13 and w2, as vLLM makes of gate's and up's."""

    is_static: bool = False
    """Whether activations have scales, published with the weights."""
    is_online: bool = False
    """Whether vLLM quantises while loading; it changes nothing here."""

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights and scales on a rank.

        Source: vLLM 0.33.0 `layers/quantization/utils/flashinfer_utils.py`
        prepare_fp8_moe_layer_for_fi; `layers/fused_moe/oracle/fp8.py`
        make_fp8_moe_quant_config (g1_alphas).
        """
        input_scales = (Tensor(1, "float32"),) * (2 if self.is_static else 0)
        kernel = fp8_tensor_kernel(on_rank, layout, is_static=self.is_static)
        if kernel is Kernel.MARLIN:
            return (*_marlin_by_row(on_rank), *input_scales)
        columns = on_rank.intermediate_size_per_partition
        if kernel in (Kernel.TRTLLM, Kernel.FLASHINFER_CUTLASS):
            columns = round_up(columns, 16 if on_rank.is_gated else 128)
        num_scales = 4 if kernel is Kernel.FLASHINFER_CUTLASS else 2
        return (
            *on_rank.padded(columns).weights(_FP8),
            *on_rank.each(*(1,) * num_scales, dtype="float32"),
            *input_scales,
            *on_rank.biases(),
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        kernel = fp8_tensor_kernel(on_rank, layout, is_static=self.is_static)
        copy = serving.FP8_BY_TENSOR if self.is_static else serving.BY_TOKEN
        return serving.by_fp8(on_rank, layout, kernel, copy)


@frozen
class Fp8ChannelExperts:
    """One scale for each row; activations are scaled token by token."""

    is_online: bool = False
    """Whether vLLM quantises while loading, which it refuses to do for Marlin."""

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights and scales on a rank.

        Raises:
            Refused: for weights quantised while loading, before Ada.
        """
        kernel = fp8_tensor_kernel(on_rank, layout, is_static=False)
        if kernel is Kernel.MARLIN:
            if self.is_online:
                raise Refused(_NO_CHANNEL_SCALES)
            return _marlin_by_row(on_rank)
        return (
            *on_rank.weights(_FP8),
            *on_rank.each(on_rank.w13_rows, on_rank.hidden_size, dtype="float32"),
            *on_rank.biases(),
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        kernel = fp8_tensor_kernel(on_rank, layout, is_static=False)
        return serving.by_fp8(on_rank, layout, kernel, serving.BY_TOKEN)


@frozen
class Fp8BlockExperts:
    """One scale for each block of rows and columns."""

    block: tuple[int, int] = (128, 128)
    model_type: str = ""
    """Of the language model; vLLM leaves DeepGEMM aside for some."""
    is_online: bool = False
    """Whether vLLM quantises while loading, and then pads to whole blocks."""
    keeps_shape_on_hopper: ClassVar[bool] = True
    """Whether its kernels leave weights and scales as they were loaded there."""

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights and scales on a rank.

        Raises:
            Refused: in vLLM's words, where the ranks cut through a block.
        """
        columns, hidden = on_rank.intermediate_size_per_partition, on_rank.hidden_size
        if self.is_online:
            columns = round_up(columns, self.block[0])
            hidden = round_up(hidden, self.block[0])
        refined = None if self.is_online else self._refined_block(on_rank, layout)
        kernel = fp8_block_kernel(
            on_rank,
            layout,
            model_type=self.model_type,
            is_refined=refined is not None or self.block != (128, 128),
        )
        if kernel is Kernel.MARLIN:
            if refined is not None:
                raise Refused(_NO_KERNEL)
            return self._marlin(on_rank.padded(columns, hidden))
        padded = on_rank.padded(columns, hidden)
        if kernel is Kernel.DEEPGEMM:
            scales = [
                _deepgemm_words(padded.w13_rows, hidden),
                _deepgemm_words(hidden, columns),
            ]
            scale_dtype = "int32"
        else:
            block_n, block_k = refined or self.block
            shards = 2 if on_rank.is_gated else 1
            scales = [
                shards * ceil_div(columns, block_n) * ceil_div(hidden, block_k),
                ceil_div(hidden, block_n) * ceil_div(columns, block_k),
            ]
            scale_dtype = "float32"
        return (
            *padded.weights(_FP8),
            *padded.each(*scales, dtype=scale_dtype),
            *padded.biases(),
        )

    def _refined_block(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[int, int] | None:
        """Return the finer block that fits a rank's share, None where none is needed.

        Raises:
            Refused: in vLLM's words, where no block fits.

        Source: vLLM 0.33.0 `layers/fused_moe/oracle/fp8.py`
        refine_fp8_moe_block_shape; `layers/quantization/utils/fp8_utils.py`
        validate_fp8_block_shape_moe.
        """
        block_n, block_k = self.block
        columns = on_rank.intermediate_size_per_partition
        is_split = layout.experts_tensor_parallel_size > 1
        if columns % block_n == 0 and not (is_split and columns % block_k):
            return None
        finer = gcd(block_n, block_k, columns, on_rank.hidden_size)
        can_refine = layout.release.has(_REFINES_FP8_BLOCKS)
        if can_refine and finer >= _FINEST_BLOCK:
            return finer, finer
        if columns % block_n:
            raise Refused(
                f"The output_size of gate's and up's weight = {columns} is not "
                f"divisible by weight quantization block_n = {block_n}."
            )
        raise Refused(
            f"The input_size of down's weight = {columns} is not divisible by weight "
            f"quantization block_k = {block_k}."
        )

    def _marlin(self, on_rank: ExpertsOnRank) -> Tensors:
        """Return what Marlin holds: a scale for each row and group of inputs."""
        group, hidden = self.block[1], on_rank.hidden_size
        columns = marlin_columns(on_rank.intermediate_size_per_partition, group)
        padded = on_rank.padded(columns)
        return (
            *padded.weights(_FP8),
            *on_rank.each(
                padded.w13_rows * ceil_div(hidden, group),
                hidden * ceil_div(columns, group),
            ),
            *on_rank.biases(),
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        refined = None if self.is_online else self._refined_block(on_rank, layout)
        is_refined = refined is not None or self.block != (128, 128)
        kernel = fp8_block_kernel(
            on_rank, layout, model_type=self.model_type, is_refined=is_refined
        )
        return serving.by_fp8_block(on_rank, layout, kernel, is_refined=is_refined)


def _marlin_by_row(on_rank: ExpertsOnRank) -> Tensors:
    """Return what Marlin holds of scales by expert or row: always one a row.

    Source: vLLM 0.33.0 `layers/quantization/utils/marlin_utils_fp8.py`
    prepare_fp8_moe_layer_for_marlin.
    """
    columns = marlin_columns(on_rank.intermediate_size_per_partition)
    padded = on_rank.padded(columns)
    return (
        *padded.weights(_FP8),
        *on_rank.each(padded.w13_rows, on_rank.hidden_size),
        *on_rank.biases(),
    )


def _deepgemm_words(rows: int, columns: int) -> int:
    """Return the 32 bit words of scales by row, four powers of two in each.

    Source: DeepGEMM `csrc/utils/layout.hpp`, which
    `layers/quantization/utils/fp8_utils.py` deepgemm_post_process_weight_scale_block
    calls in vLLM 0.33.0.
    """
    return round_up(rows, 4) * ceil_div(ceil_div(columns, 128), 4)


def fp8_experts(
    *, is_block: bool, is_static: bool, stores_mxfp4: bool, model_type: str
) -> ExpertsMethod:
    """Return how experts of an FP8 checkpoint are held."""
    if stores_mxfp4:
        return Mxfp4Experts()
    if is_block:
        return Fp8BlockExperts(model_type=model_type)
    return Fp8TensorExperts(is_static=is_static)


@frozen
class Mxfp8Experts:
    """FP8 with a power of two for each 32 inputs, a byte each."""

    is_online: bool = False
    """Whether vLLM quantises while loading, which words its refusal differently."""

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights and scales on a rank.

        Raises:
            Refused: in vLLM's words, for sizes that 32 does not divide.

        Source: vLLM 0.33.0 `layers/quantization/utils/flashinfer_utils.py`
        align_mxfp8_moe_weights_for_fi_trtllm.
        """
        columns, hidden = on_rank.intermediate_size_per_partition, on_rank.hidden_size
        self._check(columns, hidden)
        kernel = mxfp8_kernel(on_rank, layout)
        if kernel is Kernel.MARLIN and prefers_humming(layout):
            return _MX_HUMMING.tensors(on_rank)
        kept_columns, kept_hidden = columns, hidden
        if kernel is Kernel.TRTLLM:
            kept_columns, kept_hidden = round_up(columns, 128), round_up(hidden, 256)
        elif kernel is Kernel.MARLIN:
            kept_columns = marlin_columns(columns, _MX_GROUP)
        kept = on_rank.padded(kept_columns, kept_hidden)
        if kernel is Kernel.DEEPGEMM:
            scale_dtype = "int32"
            scales = (
                round_up(kept.w13_rows, 4) * ceil_div(hidden // _MX_GROUP, 4),
                round_up(hidden, 4) * ceil_div(columns // _MX_GROUP, 4),
            )
        else:
            scale_dtype = "uint8"
            scales = (
                kept.w13_rows * (kept_hidden // _MX_GROUP),
                kept_hidden * (kept_columns // _MX_GROUP),
            )
        return (
            *kept.weights(_FP8),
            *on_rank.each(*scales, dtype=scale_dtype),
            *on_rank.biases(),
        )

    def _check(self, columns: int, hidden: int) -> None:
        if self.is_online:
            if hidden % _MX_GROUP or columns % _MX_GROUP:
                raise Refused(
                    "Online MXFP8 MoE requires hidden/intermediate sizes divisible by "
                    f"{_MX_GROUP}."
                )
            return
        if hidden % _MX_GROUP:
            raise Refused(
                f"MXFP8 MoE requires hidden_size divisible by {_MX_GROUP}, "
                f"got {hidden}."
            )
        if columns % _MX_GROUP:
            raise Refused(
                "MXFP8 MoE requires intermediate_size_per_partition divisible by "
                f"{_MX_GROUP}, got {columns}."
            )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        return serving.by_mxfp8(on_rank, layout, mxfp8_kernel(on_rank, layout))
