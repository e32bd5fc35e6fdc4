"""Facts of releases that decide how the KV cache is divided."""

from __future__ import annotations

from planner.releases.number import Numbered


class KVCacheFacts(Numbered):
    """How a release divides and checks the KV cache."""

    __slots__ = ()

    @property
    def keeps_tokens_in_flight(self) -> bool:
        """Whether windows keep all scheduled batches' tokens, not only one batch's.

        Source: vLLM 0.26.0 `v1/kv_cache_interface.py` SlidingWindowSpec.
        """
        return self.since(0, 26)

    @property
    def counts_tokens_by_concurrency(self) -> bool:
        """Whether "GPU KV cache size" is concurrency x length, not blocks x block size.

        Source: vLLM 0.20.1 `v1/core/kv_cache_utils.py` _report_kv_cache_config.
        """
        return self.since(0, 20, 1)

    @property
    def sets_null_block_aside(self) -> bool:
        """Whether the check of one request leaves the null block out.

        Source: vLLM 0.29.0 `v1/core/kv_cache_utils.py` check_enough_kv_cache_memory.
        """
        return self.since(0, 29)

    @property
    def allows_chunked_local_attention(self) -> bool:
        """Whether chunks of attention have a group of their own unless told otherwise.

        Source: vLLM 0.14.0 `envs.py`
        VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE.
        """
        return self.since(0, 14) or not self.since(0, 10, 1)
