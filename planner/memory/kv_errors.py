"""vLLM's words when the KV cache is too small, in each release.

Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` _check_enough_kv_cache_memory; before
0.29.0 `v1/core/kv_cache_utils.py`.
"""

from __future__ import annotations

from planner.releases import Release
from planner.result import VLLMError
from planner.units import GIB, vllm_gib

_SEE = (
    " See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ "
    "for more details."
)


def no_memory(release: Release) -> VLLMError:
    """Return the error of a GPU on which nothing is left."""
    flag = ""
    if release.mentions_cpu_backend:
        flag = (
            " (this flag also controls CPU memory reservation on the CPU backend, "
            "despite its name)"
        )
    return VLLMError(
        kind="no_kv",
        message="No available memory for the cache blocks. Try increasing "
        f"`gpu_memory_utilization` when initializing the engine{flag}."
        f"{_SEE if release.points_to_memory_guide else ''}",
    )


def too_long(
    needed_bytes: int,
    available_bytes: int,
    *,
    max_model_len: int,
    longest: int,
    release: Release,
) -> VLLMError:
    """Return the error of a request that does not fit; `longest` 0: none does."""
    write = vllm_gib if release.rounds_gib else _two_decimals
    estimate = ""
    if longest:
        estimate = (
            "Based on the available memory, the estimated maximum model length is "
            f"{longest}."
        )
    # vLLM once put a space after the estimate whether there was one or not.
    estimate += " " if longest or not release.rounds_gib else ""
    is_newer = release.mentions_cpu_backend
    also = " (which also controls CPU memory on the CPU backend)" if is_newer else ""
    return VLLMError(
        kind="max_model_len",
        message="To serve at least one request with the "
        f"{'model' if is_newer else 'models'}'s max seq len "
        f"({max_model_len}), ({write(needed_bytes)} GiB KV cache is needed, which "
        "is larger than the available KV cache memory "
        f"({write(available_bytes)} GiB). {estimate}Try increasing "
        f"`gpu_memory_utilization`{also} or decreasing `max_model_len` when "
        f"initializing the engine.{_SEE if release.points_to_memory_guide else ''}",
    )


def _two_decimals(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.2f}"
