"""Facts of releases that decide for which batch sizes CUDA graphs are captured."""

from __future__ import annotations

from planner.releases.number import Numbered

_BREAKABLE = frozenset(
    """
    AliceAIForCausalLM BeamForCausalLM DeepseekV32ForCausalLM DeepseekV41ForCausalLM
    DeepseekV4ForCausalLM DeepseekV4ForConditionalGeneration Dots3NoteForCausalLM
    Glm5NextForCausalLM Glm5NextForConditionalGeneration GlmMoeDsaForCausalLM
    HYV4ForCausalLM InklingForCausalLM InklingForConditionalGeneration
    KimiK3ForConditionalGeneration KimiLinearForCausalLM MiniMaxM3SparseForCausalLM
    MiniMaxM3SparseForConditionalGeneration MuseSpark1xForCausalLM
    MuseSparkForConditionalGeneration Qwen4ExpForCausalLM
    Qwen4ExpForConditionalGeneration Step5ForCausalLM Step5ForConditionalGeneration
    """.split()
)


class GraphFacts(Numbered):
    """The batch sizes that a release captures.

    Source: vLLM `config/vllm.py` _set_cudagraph_sizes.
    """

    __slots__ = ()

    @property
    def captures_by_requests(self) -> bool:
        """Whether the largest size is twice max_num_seqs, not always 512.

        Source: vLLM 0.10.0 `config.py` SchedulerConfig.cuda_graph_sizes.
        """
        return self.since(0, 10)

    @property
    def widens_capture_steps(self) -> bool:
        """Whether sizes from 256 on are sixteen apart, and each is at most the largest.

        Source: vLLM 0.11.1 `config/vllm.py` _set_cudagraph_sizes.
        """
        return self.since(0, 11, 1)

    @property
    def captures_the_largest_step(self) -> bool:
        """Whether max_num_batched_tokens is a size where it is a small one.

        Source: vLLM 0.20.1 `config/vllm.py` _set_cudagraph_sizes.
        """
        return self.since(0, 20, 1)

    @property
    def captures_more_on_blackwell(self) -> bool:
        """Whether sizes reach 1,024 on B200 and its kin.

        Source: vLLM 0.28.0 `config/vllm.py` _set_cudagraph_sizes.
        """
        return self.since(0, 28)

    @property
    def captures_all_requests(self) -> bool:
        """Whether max_num_seqs itself is a size.

        Source: vLLM 0.31.0 `config/vllm.py` _set_cudagraph_sizes.
        """
        return self.since(0, 31)

    @property
    def gpt_oss_capture_size(self) -> int:
        """The largest size for gpt-oss; 0 where it is that of other models.

        Source: vLLM 0.10.1 `models/config.py` GptOssForCausalLMConfig.
        """
        if self.number[:2] == (0, 11) and not self.since(0, 11, 1):
            return 992
        return 1024 if self.since(0, 10, 1) else 0

    @property
    def captures_by_query_length(self) -> bool:
        """Whether the largest size counts the tokens of a draft in each request.

        Source: vLLM 0.13.0 `config/vllm.py` _set_cudagraph_sizes.
        """
        return self.since(0, 13)

    @property
    def captures_decode_steps(self) -> bool:
        """Whether steps of whole requests with their drafts are sizes of their own.

        Source: vLLM 0.29.0 `config/vllm.py` _set_cudagraph_sizes.
        """
        return self.since(0, 29)

    @property
    def has_optimization_levels(self) -> bool:
        """Whether graphs follow from optimization_level, as they do today.

        Source: vLLM 0.13.0 `config/vllm.py` OPTIMIZATION_LEVEL_TO_CONFIG.
        """
        return self.since(0, 13)

    @property
    def keeps_full_graphs(self) -> bool:
        """Whether graphs of whole steps stay where there can be none of pieces.

        Source: vLLM 0.30.0 `config/vllm.py` _normalize_piecewise_cudagraph_mode.
        """
        return self.since(0, 30)

    @property
    def captures_decoding_of_encoders(self) -> bool:
        """Whether encoder-decoder models have graphs of whole decode steps.

        Source: vLLM 0.13.0 `config/vllm.py` VllmConfig.__post_init__.
        """
        return self.since(0, 13)

    def breaks_graphs(self, architecture: str) -> bool:
        """Whether an architecture is captured in pieces without being compiled.

        Source: vLLM 0.33.0 `config/vllm.py` DEFAULT_BREAKABLE_CUDAGRAPH_ARCHITECTURES,
        which came with 0.29.0.
        """
        return self.since(0, 29) and architecture in _BREAKABLE
