"""Methods that a release must know: before, it leaves what they quantise in 16 bits."""

from __future__ import annotations

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.engine.releases.shared import KEEPS_EXPERT_WORKSPACE
from planner.models.quantization.experts.serving import biases, weights
from planner.models.tensors import (
    ExpertsKernel,
    ExpertsMethod,
    ExpertsOnRank,
    LinearMethod,
    LinearOnRank,
    ServedExperts,
    Tensor,
    Tensors,
)
from planner.values import frozen


@frozen
class LaterLinear:
    """A linear layer's method, which a release must know."""

    method: LinearMethod
    since: Change

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales.

        Raises:
            Refused: in vLLM's words, for a shape that the method cannot hold.
        """
        if layout.release.has(self.since):
            return self.method.tensors(on_rank, layout)
        return (
            Tensor(
                on_rank.output_size_per_partition * on_rank.input_size_per_partition
            ),
        )


@frozen
class LaterExperts:
    """The method of routed experts, which a release must know.

    Unquantised ones are taken as Triton's: those releases serve others on GPUs with
    other kernels, of the same size unless these pad.
    """

    method: ExpertsMethod
    since: Change

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights, scales and biases of all experts on the rank.

        Raises:
            Refused: in vLLM's words, for a shape that the method cannot hold.
        """
        if layout.release.has(self.since):
            return self.method.tensors(on_rank, layout)
        plain = tuple(Tensor(one.elements) for one in weights(on_rank, "bfloat16"))
        return (*plain, *biases(on_rank))

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        if layout.release.has(self.since):
            return self.method.served(on_rank, layout)
        return ServedExperts(
            kernel=ExpertsKernel.TRITON,
            hidden_size=on_rank.hidden_size,
            intermediate_size=on_rank.intermediate_size_per_partition,
            keeps_workspace=layout.release.has(KEEPS_EXPERT_WORKSPACE),
        )
