"""Facts of releases that decide for which batch sizes CUDA graphs are captured."""

from __future__ import annotations

from planner.releases.number import Numbered


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
