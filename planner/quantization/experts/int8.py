"""INT8 experts, one scale for each row.

Source: vLLM 0.33.0 `layers/fused_moe/oracle/int8.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.parallel import ParallelLayout
from planner.quantization.experts import serving
from planner.quantization.experts.shapes import biases, w13_rows, weights
from planner.tensors import ExpertsKernel, ExpertsOnRank, ServedExperts, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8ChannelExperts:
    """Weights and activations in INT8, as compressed-tensors publishes them.

    Source: vLLM 0.33.0 `layers/quantization/compressed_tensors/
    compressed_tensors_moe/compressed_tensors_moe_w8a8_int8.py`.
    """

    def tensors(
        self,
        on_rank: ExpertsOnRank,
        layout: ParallelLayout,  # noqa: ARG002
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        return _by_row(on_rank)

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        return serving.served(
            on_rank,
            ExpertsKernel.TRITON,
            keeps_workspace=layout.release.keeps_gptq_workspace,
            input_copy=serving.BY_TOKEN,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8OnlineExperts:
    """Weights made INT8 while loading.

    Source: vLLM 0.33.0 `layers/quantization/online/int8.py` Int8OnlineMoEMethod.
    """

    def tensors(
        self,
        on_rank: ExpertsOnRank,
        layout: ParallelLayout,  # noqa: ARG002
    ) -> tuple[Tensor, ...]:
        """Return weights and scales on a rank."""
        return _by_row(on_rank)

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        return serving.served(
            on_rank,
            ExpertsKernel.TRITON,
            keeps_workspace=layout.release.keeps_gptq_workspace,
        )


def _by_row(on_rank: ExpertsOnRank) -> tuple[Tensor, ...]:
    return (
        *weights(on_rank, "int8"),
        Tensor(on_rank.num_experts * w13_rows(on_rank), "float32"),
        Tensor(on_rank.num_experts * on_rank.hidden_size, "float32"),
        *biases(on_rank),
    )
