"""MXFP8 experts: FP8 with a power of two for each 32 inputs.

Source: vLLM 0.33.0 `layers/quantization/online/mxfp8.py`,
`layers/quantization/modelopt.py` ModelOptMxFp8FusedMoE,
`layers/fused_moe/oracle/mxfp8.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.models.quantization.experts import serving
from planner.models.quantization.experts.kernels import (
    Kernel,
    marlin_columns,
    mxfp8_kernel,
)
from planner.models.quantization.experts.serving import (
    HummingWeights,
    biases,
    prefers_humming,
    w13_rows,
    weights,
)
from planner.models.quantization.padding import ceil_div, round_up
from planner.models.tensors import ExpertsOnRank, ServedExperts, Tensor

_GROUP = 32
_HUMMING = HummingWeights(num_bits=8, group_size=_GROUP, scale_dtype="float8_e8m0fnu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mxfp8Experts:
    """FP8 with a power of two for each 32 inputs, a byte each."""

    is_online: bool = False
    """Whether vLLM quantises while loading, which words its refusal differently."""

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
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
            return _HUMMING.tensors(on_rank)
        kept_columns, kept_hidden = columns, hidden
        if kernel is Kernel.TRTLLM:
            kept_columns, kept_hidden = round_up(columns, 128), round_up(hidden, 256)
        elif kernel is Kernel.MARLIN:
            kept_columns = marlin_columns(columns, _GROUP)
        rows = w13_rows(on_rank, kept_columns)
        if kernel is Kernel.DEEPGEMM:
            scale_dtype = "int32"
            scales = (
                round_up(rows, 4) * ceil_div(hidden // _GROUP, 4),
                round_up(hidden, 4) * ceil_div(columns // _GROUP, 4),
            )
        else:
            scale_dtype = "uint8"
            scales = (
                rows * (kept_hidden // _GROUP),
                kept_hidden * (kept_columns // _GROUP),
            )
        return (
            *weights(
                on_rank,
                "float8_e4m3fn",
                intermediate_size=kept_columns,
                hidden_size=kept_hidden,
            ),
            *(Tensor(on_rank.num_experts * n, scale_dtype) for n in scales),
            *biases(on_rank),
        )

    def _check(self, columns: int, hidden: int) -> None:
        if self.is_online:
            if hidden % _GROUP or columns % _GROUP:
                raise Refused(
                    "Online MXFP8 MoE requires hidden/intermediate sizes divisible by "
                    f"{_GROUP}."
                )
            return
        if hidden % _GROUP:
            raise Refused(
                f"MXFP8 MoE requires hidden_size divisible by {_GROUP}, got {hidden}."
            )
        if columns % _GROUP:
            raise Refused(
                "MXFP8 MoE requires intermediate_size_per_partition divisible by "
                f"{_GROUP}, got {columns}."
            )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        return serving.by_mxfp8(on_rank, layout, mxfp8_kernel(on_rank, layout))
