"""The least memory that layouts take, which rules them out without a plan."""

from __future__ import annotations

from planner.engine.gpu import GPU
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.solve.layouts import Layout
from planner.values import frozen

_FULL_ATTENTION = ("FullAttentionSpec", "MLAAttentionSpec")


@frozen
class Floor:
    """The least memory that any layout of a model takes on GPUs of one generation.

    Spread over several GPUs, the weights take at least as much in total as on one, and
    so do the keys and values of a token: what cannot be cut is copied. A replica of a
    model without experts has all weights; replicas of one with experts may share them.
    """

    weights_bytes: int
    token_bytes: int
    """KV cache of a token of all layers; 0 where it differs by layer or is limited."""
    is_moe: bool
    share: float
    """Of a GPU, that vLLM uses at most for both."""

    @classmethod
    def of(cls, start: Plan) -> Floor:
        """Return the floor, from the plan for one GPU."""
        given, resolved = start.settings, start.resolved
        weights = sum(rank.weights_bytes for rank in start.ranks)
        if given.cpu_offload_gb or start.gpu.is_cpu:
            weights = 0
        is_shared = resolved is not None and not (
            given.kv_cache_memory_bytes or start.gpu.is_cpu or start.gpu.is_integrated
        )
        return cls(
            weights_bytes=weights,
            token_bytes=_token_bytes(start) if weights else 0,
            is_moe=start.model is not None and start.model.is_moe,
            share=resolved.gpu_memory_utilization if resolved and is_shared else 1.0,
        )

    def allows(self, layout: Layout, load: Load, gpu: GPU) -> bool:
        """Whether a layout may have room for the weights and its share of the load."""
        shards = layout.tensor_parallel_size * layout.pipeline_parallel_size
        sharing = layout.gpus if self.is_moe else shards
        share, shared = load.share(layout.data_parallel_size), load.reused_tokens
        own = max(load.held_tokens - shared, 0)
        kept = (shared + share * own) * self.token_bytes
        # A byte more, as vLLM rounds its budget up.
        room = gpu.total_memory_bytes * self.share + 1
        return self.weights_bytes / sharing + kept / shards <= room


def _token_bytes(start: Plan) -> int:
    """Return the KV cache of a token where all layers keep every token."""
    given, groups = start.settings, start.kv_groups
    is_set = given.kv_cache_memory_bytes or given.num_gpu_blocks_override
    if is_set or len(groups) != 1 or groups[0].kind not in _FULL_ATTENTION:
        return 0
    return sum(rank.bytes_per_block for rank in start.ranks) // groups[0].block_size
