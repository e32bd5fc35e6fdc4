"""Facts of releases that decide what the memory account holds."""

from __future__ import annotations

from planner.releases.number import Numbered


class MeasuringFacts(Numbered):
    """How a release measures what is left for the KV cache."""

    __slots__ = ()

    @property
    def estimates_cudagraphs(self) -> bool:
        """Whether start-up estimates the memory of CUDA graphs before it takes any.

        Source: vLLM 0.18.0 `v1/worker/gpu_model_runner.py` profile_cudagraph_memory.
        """
        return self.since(0, 18)

    @property
    def charges_cudagraphs(self) -> bool:
        """Whether that estimate is taken off the KV cache unless told otherwise.

        Source: vLLM `envs.py` VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS.
        """
        return self.since(0, 20)

    @property
    def subtracts_consumed(self) -> bool:
        """Whether the budget is closed by what the device lost, not by PyTorch's count.

        Before: weights + increase of PyTorch's peak + increase of other memory.

        Source: vLLM 0.27.0 `utils/mem_utils.py` memory_profiling.
        """
        return self.since(0, 27)
