"""Facts of releases about vLLM's CPU build.

Source of all: vLLM 0.28.0 to 0.33.0 `platforms/cpu.py`, `v1/worker/cpu_worker.py`.
"""

from __future__ import annotations

from planner.releases.number import Numbered


class ProcessorFacts(Numbered):
    """How a release shares out a processor's memory."""

    __slots__ = ()

    @property
    def has_known_cpu_build(self) -> bool:
        """Whether the rules of its CPU build were read."""
        return self.since(0, 29)

    @property
    def cpu_asks_backends_for_block_size(self) -> bool:
        """Whether the default size of blocks waits for the attention backends.

        Source: vLLM 0.33.0 `platforms/cpu.py` update_block_size_for_backend.
        """
        return self.since(0, 33)

    @property
    def cpu_refuses_kv_cache_dtypes(self) -> bool:
        """Whether a KV cache dtype that no kernel reads is refused in words.

        Source: vLLM 0.33.0 `platforms/cpu.py` get_attn_backend_cls.
        """
        return self.since(0, 33)

    @property
    def cpu_checks_memory_at_start(self) -> bool:
        """Whether a worker compares its share with what is free before it loads.

        Source: vLLM 0.32.0 `v1/worker/cpu_worker.py` CPUWorker, which ended with it.
        """
        return not self.since(0, 33)

    @property
    def cpu_names_full_share(self) -> bool:
        """Whether a share that the worker fills has an error of its own.

        Source: vLLM 0.33.0 `v1/worker/cpu_worker.py` determine_available_memory.
        """
        return self.since(0, 33)
