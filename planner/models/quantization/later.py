"""Methods that a release must know: before, it leaves what they quantise in 16 bits."""

from __future__ import annotations

from math import prod

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.models.quantization.experts.serving import served
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
        return (Tensor(prod(on_rank.shape)),)


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
        return (*on_rank.weights(None), *on_rank.biases())

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        if layout.release.has(self.since):
            return self.method.served(on_rank, layout)
        return served(on_rank, layout, ExpertsKernel.TRITON)
