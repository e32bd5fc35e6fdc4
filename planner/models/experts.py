"""The routed experts of a mixture-of-experts layer, as one rank holds them."""

from __future__ import annotations

from planner.engine.generations import DATACENTER_BLACKWELL
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.releases.shared import KEEPS_EXPERT_WORKSPACE
from planner.errors import Refused
from planner.models.layers import Part
from planner.models.tensors import (
    ExpertsKernel,
    ExpertsMethod,
    ExpertsOnRank,
    ServedExperts,
    Tensor,
    Tensors,
)
from planner.values import frozen

_FLASHINFER_ACTIVATIONS = ("silu", "relu2_no_mul", "gelu_tanh")
"""Of unquantised experts that FlashInfer's CUTLASS kernel is used for."""
_PREFERS_TRTLLM_FOR_PLAIN_EXPERTS = Change(
    since=(0, 20),
    what="TRT-LLM serves unquantised experts by default.",
    source=(
        "vLLM 0.20.0 `layers/fused_moe/oracle/unquantized.py` _get_priority_backends"
    ),
)
_PADS_PLAIN_EXPERTS = Change(
    since=(0, 24),
    what="Unquantised experts are padded for TRT-LLM, gated or not.",
    source=(
        "vLLM 0.24.0 `layers/fused_moe/oracle/unquantized.py` (min_alignment), "
        "`layers/fused_moe/experts/trtllm_bf16_moe.py`"
    ),
)
_FLASHINFER_SERVES_PLAIN_EXPERTS = Change(
    since=(0, 20),
    what="FlashInfer's kernels serve unquantised experts on Hopper and Blackwell.",
    source=(
        "vLLM 0.20.0 `layers/fused_moe/oracle/unquantized.py` _get_priority_backends"
    ),
)
_TRITON_SERVES_PLAIN_EXPERTS_ON_HOPPER = Change(
    since=(0, 23),
    what="Triton serves unquantised experts on Hopper. Before, FlashInfer did.",
    source=(
        "vLLM 0.23.0 `layers/fused_moe/oracle/unquantized.py` _get_priority_backends"
    ),
)

_MAY_BE_TRTLLM = ("auto", "flashinfer_trtllm")
_ASKED = {
    "triton": ExpertsKernel.TRITON,
    "flashinfer_cutlass": ExpertsKernel.FLASHINFER_CUTLASS,
}
"""Kernels that moe_backend may name for unquantised experts."""


@frozen
class FusedMoE:
    """The routed experts of a layer: w13 (gate and up) and w2 (down).

    Source: vLLM 0.33.0 `layers/fused_moe/routed_experts.py` and
    `layers/fused_moe/unquantized_fused_moe_method.py` create_weights.
    """

    name: str
    num_experts: int
    top_k: int
    hidden_size: int
    intermediate_size: int
    is_renormalized: bool = True
    """Whether the chosen experts' weights are scaled to add up to one."""
    bias: bool = False
    is_gated: bool = True
    """False: w13 is the up projection only."""
    activation: str = "silu"
    part: Part = Part.EXPERTS
    dtype: str | None = None
    shards: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")
    """The checkpoint's names of an expert's three layers."""
    is_quantizable: bool = True
    method: ExpertsMethod | None = None
    router_dtype: str | None = None
    """Of the router's inputs where the layer's code keeps them beside the experts."""

    def uses_trtllm(self, layout: ParallelLayout) -> bool:
        """Whether FlashInfer's TRT-LLM kernel serves unquantised experts.

        Source: vLLM 0.33.0 `layers/fused_moe/oracle/unquantized.py`;
        `layers/fused_moe/experts/trtllm_bf16_moe.py`.
        """
        if layout.enable_lora or layout.moe_backend not in _MAY_BE_TRTLLM:
            return False
        is_blackwell = layout.compute_capability[0] == DATACENTER_BLACKWELL.major
        release = layout.release
        is_padded = release.has(_PADS_PLAIN_EXPERTS)
        known = ("silu", "relu2_no_mul") if is_padded else ("silu",)
        return (
            is_blackwell
            and release.has(_PREFERS_TRTLLM_FOR_PLAIN_EXPERTS)
            and self.activation in known
            and self.is_renormalized
        )

    def intermediate_size_per_rank(self, layout: ParallelLayout) -> int:
        """Columns of one unquantised expert on a rank, padded as its kernel needs them.

        Raises:
            Refused: when the ranks do not divide the intermediate size.
        """
        columns = self._columns(layout)
        if self.uses_trtllm(layout) and layout.release.has(_PADS_PLAIN_EXPERTS):
            return -(-columns // 128) * 128
        return columns

    def _columns(self, layout: ParallelLayout) -> int:
        """Columns of one expert on a rank, before any padding.

        Raises:
            Refused: when the ranks do not divide the intermediate size.
        """
        ranks = layout.experts_tensor_parallel_size
        if self.intermediate_size % ranks:
            # vLLM stops with a bare assertion here (fused_moe/config.py).
            raise Refused(
                f"AssertionError: intermediate_size {self.intermediate_size} "
                f"% tp_size {ranks} == 0"
            )
        return self.intermediate_size // ranks

    def served(self, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts on a rank, and its sizes."""
        if self.method is not None:
            return self.method.served(self.on_rank(layout), layout)
        return ServedExperts(
            kernel=self._unquantised_kernel(layout),
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size_per_rank(layout),
            keeps_workspace=layout.release.has(KEEPS_EXPERT_WORKSPACE),
        )

    def _unquantised_kernel(self, layout: ParallelLayout) -> ExpertsKernel:
        """Return the kernel of unquantised experts.

        Source: vLLM 0.33.0 `layers/fused_moe/oracle/unquantized.py`
        select_unquantized_moe_backend.
        """
        majors = _flashinfer_expert_majors(layout.release)
        if layout.moe_backend in _ASKED:
            return _ASKED[layout.moe_backend]
        if layout.compute_capability[0] not in majors or layout.enable_lora:
            return ExpertsKernel.TRITON
        if self.uses_trtllm(layout):
            return ExpertsKernel.TRTLLM
        is_alone = layout.data_parallel_size == 1
        if is_alone and self.activation in _FLASHINFER_ACTIVATIONS:
            return ExpertsKernel.FLASHINFER_CUTLASS
        return ExpertsKernel.TRITON

    def on_rank(self, layout: ParallelLayout) -> ExpertsOnRank:
        """Return the experts as one rank sees them.

        Raises:
            Refused: when the ranks do not divide the intermediate size.
        """
        return ExpertsOnRank(
            name=self.name,
            num_experts=layout.local_num_experts(self.num_experts),
            global_num_experts=layout.physical_experts(self.num_experts),
            top_k=self.top_k,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            intermediate_size_per_partition=self._columns(layout),
            is_gated=self.is_gated,
            has_bias=self.bias,
            is_renormalized=self.is_renormalized,
            activation=self.activation,
            uses_expert_parallel=layout.enable_expert_parallel,
        )

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return w13 and w2 (and scales and biases) on a rank."""
        on_rank = self.on_rank(layout)
        if self.method is None:
            held = self._unquantised(on_rank, layout)
        else:
            held = self.method.tensors(on_rank, layout)
        return (*held, *self._expert_map(layout))

    def _expert_map(self, layout: ParallelLayout) -> Tensors:
        """Return the table of where each expert is, kept by ranks that share experts.

        Source: vLLM 0.33.0 `layers/fused_moe/expert_map_manager.py`
        determine_expert_map.
        """
        is_shared = layout.enable_expert_parallel and layout.expert_ranks > 1
        count = layout.physical_experts(self.num_experts)
        return (Tensor(count, "int32"),) if is_shared else ()

    def _unquantised(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        columns = self.intermediate_size_per_rank(layout)
        rows = (2 if self.is_gated else 1) * columns
        elements = [rows * self.hidden_size, self.hidden_size * columns]
        if self.bias:
            elements += [rows, self.hidden_size]
        return tuple(Tensor(on_rank.num_experts * n, self.dtype) for n in elements)


def _flashinfer_expert_majors(release: Release) -> tuple[int, ...]:
    """Return the GPU generations whose unquantised experts FlashInfer serves."""
    if not release.has(_FLASHINFER_SERVES_PLAIN_EXPERTS):
        return ()
    is_later = release.has(_TRITON_SERVES_PLAIN_EXPERTS_ON_HOPPER)
    return (10, 12) if is_later else (9, 10, 12)
