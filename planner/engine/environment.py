"""vLLM's environment variables that affect memory."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from planner.engine.releases import NEWEST_RELEASE, Release
from planner.errors import PlannerError, UnknownArchitecture

KNOWN = (
    "VLLM_PP_LAYER_PARTITION",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
    "VLLM_USE_FLASHINFER_SAMPLER",
    "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE",
    "VLLM_USE_V2_MODEL_RUNNER",
    "VLLM_ATTENTION_BACKEND",
    "VLLM_FUSED_MOE_CHUNK_SIZE",
    "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE",
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_CPU_CI_ENV",
    "VLLM_MM_INPUT_CACHE_GIB",
    "VLLM_VIDEO_LOADER_BACKEND",
    "VLLM_RAY_PER_WORKER_GPUS",
)
NOT_MODELLED = (
    "VLLM_BATCH_INVARIANT",
    "VLLM_ENABLE_STARTUP_PLAN",
    "VLLM_MLA_DISABLE",
)
_READS_ATTENTION_VARIABLE_BEFORE = (0, 15)
"""VLLM_ATTENTION_BACKEND chooses the kernel.

Source: vLLM 0.14.0 `config/attention.py`; 0.15.0 `envs.py` (gone).
"""
_ESTIMATES_CUDAGRAPHS_SINCE = (0, 18)
"""vLLM estimates the memory of CUDA graphs before it captures them.

Source: vLLM 0.18.0 `v1/worker/gpu_model_runner.py` profile_cudagraph_memory.
"""
_CHARGES_CUDAGRAPHS_SINCE = (0, 20)
"""That estimate is subtracted from the KV cache by default.

Source: vLLM `envs.py` VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS.
"""
_CHUNKED_LOCAL_SWITCH_SINCE = (0, 10, 1)
"""A variable decides whether models with chunked attention may have several groups.

Source: vLLM 0.10.0 and 0.10.1 `envs.py`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The values of vLLM's environment variables.

    Source: vLLM 0.33.0 `envs.py`.
    """

    pp_layer_partition: str | None = None
    allow_long_max_model_len: bool = False
    estimate_cudagraphs: bool = True
    """Whether the estimate of CUDA graphs is subtracted from the KV cache."""
    use_flashinfer_sampler: bool | None = None
    """Whether FlashInfer samples tokens; None: the release's default."""
    allow_chunked_local_attention: bool = True
    """Whether a model with chunked attention may have several KV cache groups."""
    use_v2_model_runner: bool | None = None
    """Whether the second model runner is used; None: vLLM chooses."""
    attention_backend: str | None = None
    """Attention backend of all layers, in releases without an argument for it."""
    fused_moe_chunk_size: int | None = None
    """Tokens that experts compute at once, in releases that split them."""
    flashinfer_workspace_bytes: int | None = None
    """FlashInfer's workspace; None: its default size."""
    cpu_kv_cache_gib: int | None = None
    """KV cache of vLLM's CPU build; None: the rest of its memory budget."""
    skips_cpu_warm_up: bool = False
    """Whether the CPU build skips compilation and warm-up."""
    mm_input_cache_gib: int | None = None
    """Cache of processed images in older releases; None: its default size."""
    video_loader_backend: str | None = None
    """Library that decodes videos; None: OpenCV."""


def environment_from(
    env: Mapping[str, str] | None, release: Release = NEWEST_RELEASE
) -> Environment:
    """Read vLLM's variables from `env`; those not named VLLM_... are ignored.

    A variable that the release does not know has no effect.

    Raises:
        PlannerError: for a VLLM_ variable the planner does not know.
        UnknownArchitecture: for one whose effect on memory is not modelled yet.
    """
    given = {
        name: value for name, value in (env or {}).items() if name.startswith("VLLM_")
    }
    for name in given:
        if name in NOT_MODELLED:
            raise UnknownArchitecture(f"{name} changes memory and is not modelled yet.")
        if name not in KNOWN:
            near = difflib.get_close_matches(name, (*KNOWN, *NOT_MODELLED), n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise PlannerError(
                f"Environment variable {name} is not known to matter for memory.{hint}"
            )
    return Environment(
        pp_layer_partition=given.get("VLLM_PP_LAYER_PARTITION"),
        allow_long_max_model_len=_is_on(given, "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0"),
        estimate_cudagraphs=release >= _ESTIMATES_CUDAGRAPHS_SINCE
        and _is_on(
            given,
            "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
            "1" if release >= _CHARGES_CUDAGRAPHS_SINCE else "0",
        ),
        use_flashinfer_sampler=_switch(given, "VLLM_USE_FLASHINFER_SAMPLER"),
        allow_chunked_local_attention=release < _CHUNKED_LOCAL_SWITCH_SINCE
        or _is_on(
            given,
            "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE",
            "1" if _allows_chunked_local_attention(release) else "0",
        ),
        use_v2_model_runner=_switch(given, "VLLM_USE_V2_MODEL_RUNNER")
        if release.has_v2_runner
        else None,
        attention_backend=_backend(given, release),
        fused_moe_chunk_size=_number(given, "VLLM_FUSED_MOE_CHUNK_SIZE"),
        flashinfer_workspace_bytes=_number(
            given, "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE"
        ),
        cpu_kv_cache_gib=_number(given, "VLLM_CPU_KVCACHE_SPACE"),
        skips_cpu_warm_up=_is_on(given, "VLLM_CPU_CI_ENV", "0"),
        mm_input_cache_gib=_number(given, "VLLM_MM_INPUT_CACHE_GIB"),
        video_loader_backend=given.get("VLLM_VIDEO_LOADER_BACKEND"),
    )


def _switch(env: Mapping[str, str], name: str) -> bool | None:
    """Return whether a variable is on; None where it is not set."""
    return _is_on(env, name, "0") if name in env else None


def _backend(env: Mapping[str, str], release: Release) -> str | None:
    """Return the backend's current name; older releases appended _VLLM_V1."""
    name = env.get("VLLM_ATTENTION_BACKEND")
    if name is None or release >= _READS_ATTENTION_VARIABLE_BEFORE:
        return None
    return name.strip().upper().removesuffix("_VLLM_V1").removesuffix("_V1")


def _number(env: Mapping[str, str], name: str) -> int | None:
    """Return a whole number from 1; None where the variable is not set.

    Raises:
        PlannerError: for anything else.
    """
    text = env.get(name)
    if text is None:
        return None
    if not text.strip().isdigit() or int(text) < 1:
        raise PlannerError(f"{name}={text!r}: a whole number from 1 is needed.")
    return int(text)


def _is_on(env: Mapping[str, str], name: str, default: str) -> bool:
    return env.get(name, default).strip().lower() in ("1", "true")


def _allows_chunked_local_attention(release: Release) -> bool:
    """Return whether chunked attention has a KV cache group of its own by default.

    Source: vLLM 0.14.0 `envs.py`
    VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE.
    """
    return release >= (0, 14) or release < (0, 10, 1)
