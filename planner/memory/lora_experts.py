"""What adapters keep beside the routed experts of a layer.

Source: vLLM 0.33.0 `lora/layers/fused_moe.py` FusedMoEWithLoRA, FusedMoE3DWithLoRA.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import Refused, UnknownArchitecture
from planner.experts import FusedMoE
from planner.layers import Part
from planner.memory.lora_stacks import LoRAConfig
from planner.parallel import ParallelLayout, divide
from planner.tensors import ExpertsKernel, Tensor

_KERNELS = (ExpertsKernel.TRITON, ExpertsKernel.MARLIN)
"""Those that heed adapters."""
_SHARDED_WITH_EXPERT_PARALLEL = (
    "AssertionError: Fused MoE LoRA does not support enable_expert_parallel=True "
    "together with fully_sharded_loras=True. Disable one of them."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertStacks:
    """Both factors of each adapter for every expert on a rank, and which are in use.

    Gate and up projections have a pair each, unless adapters of the model hold them
    as one ("3D": stacked over experts).
    """

    base: FusedMoE
    config: LoRAConfig
    is_3d: bool = False
    part: Part = Part.LORA

    @property
    def name(self) -> str:
        """Of the experts."""
        return self.base.name

    def tensors(self, layout: ParallelLayout) -> tuple[Tensor, ...]:
        """Return the factors of w13 and w2, then the switches of the adapters.

        Raises:
            Refused: for fully sharded adapters under expert parallelism.
            UnknownArchitecture: for kernels that do not heed adapters.
        """
        config = self.config
        self._check(layout)
        served = self.base.served(layout)
        if served.kernel not in _KERNELS:
            raise UnknownArchitecture(
                f"enable_lora with experts that {served.kernel} computes is not "
                "modelled yet. Leave enable_lora out."
            )
        experts = layout.local_num_experts(self.base.num_experts)
        shared = 1 if config.shares_expert_factors else experts
        on_rank = self.base.on_rank(layout)
        hidden = on_rank.hidden_size
        columns = on_rank.intermediate_size_per_partition
        if served.is_declared:
            hidden, columns = served.hidden_size, served.intermediate_size
        rank, rank_rows, outputs = config.max_lora_rank, config.max_lora_rank, hidden
        if config.is_fully_sharded:
            ranks = layout.experts_tensor_parallel_size
            rank_rows, outputs = divide(rank, ranks), divide(hidden, ranks)
        slices = 1 if self.is_3d or not self.base.is_gated else 2
        rows = 2 * columns if self.is_3d else columns
        sizes = (
            *(shared * rank_rows * hidden,) * slices,
            experts * rank * columns,
            *(experts * rows * rank,) * slices,
            shared * outputs * rank,
        )
        return (
            *(Tensor(config.max_loras * size, config.dtype) for size in sizes),
            Tensor(config.max_loras + 1, "int32"),
        )

    def _check(self, layout: ParallelLayout) -> None:
        shares = layout.enable_expert_parallel and layout.expert_ranks > 1
        if not shares:
            return
        if self.config.is_fully_sharded:
            raise Refused(_SHARDED_WITH_EXPERT_PARALLEL)
        if layout.tensor_parallel_size > 1 and layout.data_parallel_size > 1:
            # vLLM stops with a bare assertion here.
            raise Refused(
                "AssertionError: not moe_config.moe_parallel_config."
                "is_sequence_parallel (enable_lora with enable_expert_parallel, "
                "tensor_parallel_size and data_parallel_size)"
            )
