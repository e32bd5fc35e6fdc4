"""Facts of releases that decide what vLLM says when it refuses."""

from __future__ import annotations

from planner.releases.number import Numbered


class WordingFacts(Numbered):
    """How a release words its refusals."""

    __slots__ = ()

    @property
    def points_to_memory_guide(self) -> bool:
        """Whether refusals for want of memory name the page about saving it.

        Source: vLLM 0.13.0 `v1/core/kv_cache_utils.py` check_enough_kv_cache_memory.
        """
        return self.since(0, 13)

    @property
    def rounds_gib(self) -> bool:
        """Whether sizes are written without trailing zeros.

        Source: vLLM 0.14.0 `utils/mem_utils.py` format_gib.
        """
        return self.since(0, 14)

    @property
    def mentions_cpu_backend(self) -> bool:
        """Whether refusals for want of memory say what the CPU backend does.

        Source: vLLM 0.22.0 `v1/core/kv_cache_utils.py` _check_enough_kv_cache_memory.
        """
        return self.since(0, 22)

    @property
    def names_the_device(self) -> bool:
        """Whether the refusal of a GPU that is too full says which GPU.

        Source: vLLM 0.14.0 `v1/worker/utils.py` request_memory.
        """
        return self.since(0, 14)

    @property
    def explains_long_max_model_len(self) -> bool:
        """Whether the refusal of a long max_model_len says what happens beyond it.

        Source: vLLM 0.10.2 `config/__init__.py` _get_and_verify_max_len.
        """
        return self.since(0, 10, 2)
