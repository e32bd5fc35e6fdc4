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
    def has_chunked_local_switch(self) -> bool:
        """Whether a variable decides about groups in models with chunked attention.

        Source: vLLM 0.10.0 and 0.10.1 `envs.py`.
        """
        return self.since(0, 10, 1)

    @property
    def allows_chunked_local_attention(self) -> bool:
        """Whether chunks of attention have a group of their own unless told otherwise.

        Source: vLLM 0.14.0 `envs.py`
        VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE.
        """
        return self.since(0, 14) or not self.since(0, 10, 1)

    @property
    def overrides_blocks_before_check(self) -> bool:
        """Whether num_gpu_blocks_override replaces the memory that is checked.

        Before, it replaces the number of blocks after the check.

        Source: vLLM 0.20.1 `v1/core/kv_cache_utils.py` get_kv_cache_configs.
        """
        return self.since(0, 20, 1)

    @property
    def groups_all_ranks(self) -> bool:
        """Whether layers of all pipeline stages are grouped together.

        Before, each stage groups its own.

        Source: vLLM 0.11.0 `v1/core/kv_cache_utils.py` get_kv_cache_configs.
        """
        return self.since(0, 11)

    @property
    def mixes_sizes_of_a_kind(self) -> bool:
        """Whether layers of one kind and several sizes can share a group.

        Source: vLLM 0.11.0 `v1/kv_cache_interface.py` UniformTypeKVCacheSpecs.
        """
        return self.since(0, 11)

    @property
    def projects_sizes_of_a_kind(self) -> bool:
        """Whether a stage then counts the pages of its own layers alone.

        Source: vLLM 0.17.0 `v1/core/kv_cache_utils.py`
        _project_kv_cache_groups_to_worker.
        """
        return self.since(0, 17)

    @property
    def enlarges_blocks(self) -> bool:
        """Whether blocks are enlarged until all pages are alike.

        Source: vLLM 0.12.0 `v1/core/kv_cache_utils.py` unify_kv_cache_spec_page_size.
        """
        return self.since(0, 12)

    @property
    def pads_attention_pages(self) -> bool:
        """Whether pages of attention are padded where enlarging does not do.

        Source: vLLM 0.24.0 `v1/core/kv_cache_utils.py` unify_kv_cache_spec_page_size.
        """
        return self.since(0, 24)

    @property
    def pads_state_pages(self) -> bool:
        """Whether pages of states are padded to those of their neighbours.

        Source: vLLM 0.26.0 `v1/core/kv_cache_utils.py` unify_kv_cache_spec_page_size.
        """
        return self.since(0, 26)

    @property
    def merges_kinds(self) -> bool:
        """Whether layers with specs that can be one are split into groups together.

        And whether layers are kept in full where their pages cannot be made alike.

        Source: vLLM 0.27.0 `v1/core/kv_cache_utils.py`
        _get_kv_cache_groups_uniform_page_size.
        """
        return self.since(0, 27)

    @property
    def packs_pages(self) -> bool:
        """Whether pages of several sizes can lie side by side in a block.

        Source: vLLM 0.29.0 `v1/core/kv_cache_utils.py` _get_packed_kv_cache_groups.
        """
        return self.since(0, 29)

    @property
    def much_larger(self) -> float:
        """From this ratio of layers on, two kinds are not padded to one size.

        Source: vLLM 0.12.0 and 0.18.0 `v1/core/kv_cache_utils.py`
        _get_kv_cache_groups_uniform_page_size.
        """
        if self.since(0, 18):
            return 1.5
        return 1.25 if self.since(0, 12) else 1.0

    @property
    def checks_groups(self) -> bool:
        """Whether one request is reckoned by groups of layers, padding included.

        Before, the needs of all layers add up, as they are without the others.

        Source: vLLM 0.14.0 `v1/core/kv_cache_utils.py`
        _max_memory_usage_bytes_from_groups.
        """
        return self.since(0, 14)

    @property
    def checks_all_groups(self) -> bool:
        """Whether all groups count for it, not the first alone.

        Source: vLLM 0.19.0 `v1/core/kv_cache_utils.py`
        _max_memory_usage_bytes_from_groups.
        """
        return self.since(0, 19)

    @property
    def checks_each_stage(self) -> bool:
        """Whether each stage is checked with its layers, or the smallest with all.

        Source: vLLM 0.17.0 `v1/core/kv_cache_utils.py` get_kv_cache_configs.
        """
        return self.since(0, 17) or not self.since(0, 14)

    @property
    def limits_requests_to_states(self) -> bool:
        """Whether more requests than states are refused where graphs are captured.

        Source: vLLM 0.20.0 `config/compilation.py`.
        """
        return self.since(0, 20)

    @property
    def has_chunked_specs(self) -> bool:
        """Whether chunks of attention are kept as such.

        Source: vLLM 0.10.0 `v1/kv_cache_interface.py` ChunkedLocalAttentionSpec.
        """
        return self.since(0, 10)

    @property
    def sizes_values_apart(self) -> bool:
        """Whether values may be of another size than keys.

        Source: vLLM 0.14.0 `v1/kv_cache_interface.py` FullAttentionSpec.
        """
        return self.since(0, 14)

    @property
    def sizes_window_values_apart(self) -> bool:
        """Whether they may be so in windows too.

        Source: vLLM 0.20.0 `v1/kv_cache_interface.py` SlidingWindowSpec.
        """
        return self.since(0, 20)

    @property
    def sizes_windows_apart(self) -> bool:
        """Whether windows choose blocks of their own.

        Source: vLLM 0.25.0 `layers/attention/attention.py` get_kv_cache_spec.
        """
        return self.since(0, 25)

    @property
    def fills_pages_of_windows(self) -> bool:
        """Whether they choose the largest that fit in a page of full attention.

        Source: vLLM 0.30.0 `layers/attention/attention.py`
        _largest_kernel_block_within.
        """
        return self.since(0, 30)
