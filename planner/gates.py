"""Routers of mixture-of-experts layers whose dtype depends on the GPU."""

from __future__ import annotations

from dataclasses import dataclass

from planner.layers import Part, ReplicatedLinear
from planner.parallel import DATACENTER_BLACKWELL, HOPPER, ParallelLayout
from planner.tensors import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Float32Gate:
    """A router that computes in float32, in full on every rank and never quantised.

    Where no kernel computes in float32 from narrower weights, vLLM holds them so.

    Source: vLLM 0.33.0 `layers/fused_moe/router/gate_linear.py` GateLinear with
    force_fp32_compute.
    """

    name: str
    num_experts: int
    hidden_size: int
    part: Part = Part.ROUTER

    def tensors(self, layout: ParallelLayout) -> tuple[Tensor, ...]:
        """Return the weight on a rank."""
        major, minor = layout.compute_capability
        has_kernel = (major, minor) == (HOPPER, 0) or major == DATACENTER_BLACKWELL
        elements = self.num_experts * self.hidden_size
        return (Tensor(elements, None if has_kernel else "float32"),)

    def as_linear(
        self,
        layout: ParallelLayout,  # noqa: ARG002 - as others' may depend on it
    ) -> ReplicatedLinear:
        """Return vLLM's layer."""
        return ReplicatedLinear(
            name=self.name,
            part=self.part,
            input_size=self.hidden_size,
            output_sizes=(self.num_experts,),
        )
