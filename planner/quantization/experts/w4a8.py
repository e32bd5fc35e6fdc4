"""Experts of 4 bit weights and 8 bit activations, from compressed-tensors.

Source: vLLM 0.33.0 `layers/fused_moe/oracle/w4a8.py` and `w4a8_int8.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import Refused, UnknownArchitecture
from planner.parallel import ParallelLayout
from planner.quantization.capabilities import HOPPER
from planner.quantization.experts import serving
from planner.quantization.experts.shapes import w13_rows, weights
from planner.tensors import ExpertsKernel, ExpertsOnRank, ServedExperts, Tensor

_CPU_ONLY = "W4A8 Int8 MoE is only supported on CPU platforms"
_COPIES = 8
"""How often the kernel repeats each scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class W4A8Fp8Experts:
    """INT4 weights in groups, FP8 activations; kernels exist for Hopper alone.

    Source: vLLM 0.33.0 `layers/quantization/compressed_tensors/
    compressed_tensors_moe/compressed_tensors_moe_w4a8_fp8.py`.
    """

    group_size: int = 128

    def tensors(
        self, on_rank: ExpertsOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
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
        if layout.capability != HOPPER:
            raise UnknownArchitecture(
                "quantization_config: experts of INT4 weights and FP8 activations are "
                "modelled for Hopper GPUs only."
            )
        experts, rows = on_rank.num_experts, w13_rows(on_rank)
        return (
            *weights(on_rank, "int32", per_element=8),
            Tensor(
                experts * rows * (hidden // self.group_size) * _COPIES, "float8_e4m3fn"
            ),
            Tensor(
                experts * hidden * (columns // self.group_size) * _COPIES,
                "float8_e4m3fn",
            ),
            Tensor(experts * rows, "float32"),
            Tensor(experts * hidden, "float32"),
            *(Tensor(2 * experts),) * 2,
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        return serving.served(
            on_rank,
            ExpertsKernel.TRITON,
            keeps_workspace=layout.release.keeps_awq_workspace,
            input_copy=serving.BY_TOKEN,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class W4A8Int8Experts:
    """INT4 weights, INT8 activations: CPUs only."""

    def tensors(
        self,
        on_rank: ExpertsOnRank,  # noqa: ARG002
        layout: ParallelLayout,  # noqa: ARG002
    ) -> tuple[Tensor, ...]:
        """Refuse, as vLLM does on a GPU.

        Raises:
            Refused: always.
        """
        raise Refused(_CPU_ONLY)

    def served(
        self,
        on_rank: ExpertsOnRank,  # noqa: ARG002
        layout: ParallelLayout,  # noqa: ARG002
    ) -> ServedExperts:
        """Refuse, as vLLM does on a GPU.

        Raises:
            Refused: always.
        """
        raise Refused(_CPU_ONLY)
