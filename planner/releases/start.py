"""Facts of releases that decide arguments left out, and what they are limited to."""

from __future__ import annotations

from planner.releases.number import Numbered


class StartFacts(Numbered):
    """How a release fills in its arguments."""

    __slots__ = ()

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
