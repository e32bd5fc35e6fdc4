"""Integer experts: INT8 with one scale a row, and INT4 weights with 8 bit activations.

Source: vLLM 0.33.0 `layers/fused_moe/oracle/int8.py`, `w4a8.py` and `w4a8_int8.py`.
"""

from __future__ import annotations

from typing import ClassVar

from planner.engine.generations import HOPPER
from planner.engine.layout import ParallelLayout
from planner.engine.releases.shared import KEEPS_AWQ_WORKSPACE, KEEPS_GPTQ_WORKSPACE
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.experts import serving
from planner.models.tensors import (
    ExpertsKernel,
    ExpertsOnRank,
    InputCopy,
    ServedExperts,
    Tensors,
)
from planner.values import frozen

_CPU_ONLY = "W4A8 Int8 MoE is only supported on CPU platforms"
_SCALE_COPIES = 8
"""How often the kernel repeats each scale."""


@frozen
class Int8ChannelExperts:
    """Weights and activations in INT8, as compressed-tensors publishes them.

    Source: vLLM 0.33.0 `layers/quantization/compressed_tensors/
    compressed_tensors_moe/compressed_tensors_moe_w8a8_int8.py`.
    """

    input_copy: ClassVar[InputCopy | None] = serving.BY_TOKEN

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights and scales on a rank."""
        return (
            *on_rank.weights("int8"),
            *on_rank.each(on_rank.w13_rows, on_rank.hidden_size, dtype="float32"),
            *on_rank.biases(),
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        return serving.served(
            on_rank,
            layout,
            ExpertsKernel.TRITON,
            workspace=KEEPS_GPTQ_WORKSPACE,
            input_copy=self.input_copy,
        )


@frozen
class Int8OnlineExperts(Int8ChannelExperts):
    """Weights quantised to INT8 while loading.

    Source: vLLM 0.33.0 `layers/quantization/online/int8.py` Int8OnlineMoEMethod.
    """

    input_copy: ClassVar[InputCopy | None] = None


@frozen
class W4A8Fp8Experts:
    """INT4 weights in groups, FP8 activations; kernels exist for Hopper only.

    Source: vLLM 0.33.0 `layers/quantization/compressed_tensors/
    compressed_tensors_moe/compressed_tensors_moe_w4a8_fp8.py`.
    """

    group_size: int = 128

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights and scales on a rank.

        Raises:
            Refused: in vLLM's words, for sizes that 256 does not divide.
            UnknownArchitecture: on GPUs other than Hopper.
        """
        hidden, columns = on_rank.hidden_size, on_rank.intermediate_size_per_partition
        if hidden % 256:
            raise Refused(f"hidden_size={hidden} must be divisible by 256")
        if columns % 256:
            raise Refused(
                f"intermediate_size_per_partition={columns} must be divisible by 256"
            )
        if layout.compute_capability != HOPPER:
            raise UnknownArchitecture(
                "quantization_config: experts of INT4 weights and FP8 activations are "
                "modelled for Hopper GPUs only."
            )
        rows, size = on_rank.w13_rows, self.group_size
        return (
            *on_rank.weights("int32", per_element=8),
            *on_rank.each(
                rows * (hidden // size) * _SCALE_COPIES,
                hidden * (columns // size) * _SCALE_COPIES,
                dtype="float8_e4m3fn",
            ),
            *on_rank.each(rows, hidden, dtype="float32"),
            *on_rank.each(2, 2),
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        return serving.served(
            on_rank,
            layout,
            ExpertsKernel.TRITON,
            workspace=KEEPS_AWQ_WORKSPACE,
            input_copy=serving.BY_TOKEN,
        )


@frozen
class W4A8Int8Experts:
    """INT4 weights, INT8 activations: CPUs only."""

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Refuse, as vLLM does on a GPU.

        Raises:
            Refused: always.
        """
        raise Refused(_CPU_ONLY)

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Refuse, as vLLM does on a GPU.

        Raises:
            Refused: always.
        """
        raise Refused(_CPU_ONLY)
