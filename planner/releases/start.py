"""Facts of releases that decide arguments left out, and what they are limited to."""

from __future__ import annotations

from planner.releases.number import Numbered


class StartFacts(Numbered):
    """How a release fills in its arguments."""

    __slots__ = ()

    @property
    def heeds_attention_variable(self) -> bool:
        """Whether VLLM_ATTENTION_BACKEND chooses the kernel.

        Source: vLLM 0.14.0 `config/attention.py`; 0.15.0 `envs.py` (gone).
        """
        return not self.since(0, 15)

    @property
    def gpu_memory_utilization(self) -> float:
        """Share of the GPU's memory that vLLM takes unless told otherwise.

        Source: vLLM `config/cache.py` CacheConfig.gpu_memory_utilization.
        """
        return 0.92 if self.since(0, 20) else 0.90

    @property
    def has_large_gpu_batch(self) -> bool:
        """Whether GPUs from 160 GiB get a batch default of their own.

        Source: vLLM 0.28.0 `engine/arg_utils.py` get_batch_defaults.
        """
        return self.since(0, 28)

    @property
    def fills_in_any_batch(self) -> bool:
        """Whether one rule fills the batch in, whoever starts the engine.

        Source: vLLM 0.11.1 `engine/arg_utils.py`
        _set_default_max_num_seqs_and_batched_tokens_args.
        """
        return self.since(0, 11, 1)

    @property
    def schedules_ahead(self) -> bool:
        """Whether a batch is prepared while one runs, unless told otherwise.

        Source: vLLM 0.14.0 `config/vllm.py` (async_scheduling).
        """
        return self.since(0, 14)

    @property
    def stretches_yarn(self) -> bool:
        """Whether YaRN's factor multiplies the length that the config allows.

        Source: vLLM 0.30.0 `config/model.py` _get_and_verify_max_len.
        """
        return not self.since(0, 30)

    @property
    def limits_requests_to_tokens(self) -> bool:
        """Whether max_num_seqs left out is at most max_num_batched_tokens.

        Source: vLLM 0.10.1 `engine/arg_utils.py` _set_default_args_v1.
        """
        return self.since(0, 10, 1)

    @property
    def heeds_tokens_of_whole_prompts(self) -> bool:
        """Whether max_num_batched_tokens counts where prompts are not split.

        Before, a step then holds max_model_len tokens, whatever the user asked for.

        Source: vLLM 0.10.1 `engine/arg_utils.py` _set_default_args_v1.
        """
        return self.since(0, 10, 1)

    @property
    def limits_tokens_to_requests(self) -> bool:
        """Whether max_num_batched_tokens left out is at most what all requests hold.

        It is then also at least its default where prompts are not split.

        Source: vLLM 0.11.1 `engine/arg_utils.py` _set_default_args.
        """
        return self.since(0, 11, 1)

    @property
    def raises_tokens_for_images(self) -> bool:
        """Whether max_num_batched_tokens left out holds the largest image or video.

        Source: vLLM 0.22.0 `engine/arg_utils.py` _get_min_mm_batched_tokens.
        """
        return self.since(0, 22)

    @property
    def may_keep_prompts_whole(self) -> bool:
        """Whether enable_chunked_prefill=False is heeded by models that generate.

        Source: vLLM 0.11.1 `engine/arg_utils.py` _set_default_args.
        """
        return self.since(0, 11, 1)

    @property
    def keeps_encoder_prompts_whole(self) -> bool:
        """Whether the default batch of encoder-decoder models holds whole prompts.

        Source: vLLM 0.12.0 `config/model.py` is_chunked_prefill_supported.
        """
        return self.since(0, 12)

    @property
    def has_state_prefix_caching(self) -> bool:
        """Whether states may be kept for prompts with the same beginning.

        Source: vLLM 0.11.1 `models/config.py` MambaModelConfig.
        """
        return self.since(0, 11, 1)

    @property
    def aligns_states(self) -> bool:
        """Whether states at the ends of blocks are kept where they are asked for.

        Source: vLLM 0.15.0 `models/config.py` MambaModelConfig.
        """
        return self.since(0, 15)

    @property
    def aligns_all_states(self) -> bool:
        """Whether they are kept so for every kind of state layer.

        Source: vLLM 0.28.0 `models/config.py` MambaModelConfig.
        """
        return self.since(0, 28)

    @property
    def caches_hybrid_prefixes(self) -> bool:
        """Whether models with attention and states do so unless told otherwise.

        Source: vLLM 0.28.0 `config/model.py` is_prefix_caching_supported.
        """
        return self.since(0, 28)

    @property
    def schedules_pooling_ahead(self) -> bool:
        """Whether pooling models prepare a batch while one runs, like others.

        Source: vLLM 0.20.0 `config/vllm.py` (async_scheduling), which ended it.
        """
        return not self.since(0, 20)

    @property
    def schedules_stages_ahead(self) -> bool:
        """Whether that is done with pipeline stages too.

        Source: vLLM 0.15.0 `config/vllm.py` (async_scheduling).
        """
        return self.since(0, 15)

    @property
    def shortens_longrope(self) -> bool:
        """Whether max_model_len left out is the length before LongRoPE's stretching.

        Source: vLLM 0.11.1 `config/model.py` _get_and_verify_max_len.
        """
        return self.since(0, 11, 1)

    @property
    def reads_rope_parameters(self) -> bool:
        """Whether every RoPE has parameters, not only one that is stretched.

        Source: vLLM 0.12.0 `config/model.py` _get_and_verify_max_len.
        """
        return self.since(0, 12)

    @property
    def fits_length(self) -> bool:
        """Whether max_model_len -1 or auto is fitted to the memory.

        Source: vLLM 0.14.0 `v1/core/kv_cache_utils.py` _auto_fit_max_model_len.
        """
        return self.since(0, 14)
