"""vLLM's environment variables, as far as they decide memory."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from planner.errors import PlannerError, UnknownArchitecture
from planner.releases import NEWEST_RELEASE, Release

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Environment variables with their meaning.

    Source: vLLM 0.33.0 `envs.py`.
    """

    pp_layer_partition: str | None = None
    allow_long_max_model_len: bool = False
    estimate_cudagraphs: bool = True
    """Whether the estimate of CUDA graphs is taken off the KV cache."""
    use_flashinfer_sampler: bool | None = None
    """Whether FlashInfer draws tokens; None: as the release does."""
    allow_chunked_local_attention: bool = True
    """Whether groups may differ in a model with chunks of attention."""
    use_v2_model_runner: bool | None = None
    """Which model runner serves the model; None: vLLM chooses."""
    attention_backend: str | None = None
    """Kernel for all layers, in releases that have no argument for it."""
    fused_moe_chunk_size: int | None = None
    """Tokens that experts compute at once, in releases that do so."""
    flashinfer_workspace_bytes: int | None = None
    """FlashInfer's workspace; None: its usual size."""
    cpu_kv_cache_gib: int | None = None
    """KV cache of vLLM's CPU build; None: what is left of its share."""
    skips_cpu_warm_up: bool = False
    """Whether the CPU build neither compiles nor warms up."""
    mm_input_cache_gib: int | None = None
    """Cache of processed images in older releases; None: its usual size."""
    video_loader_backend: str | None = None
    """What reads videos; None: OpenCV."""


def environment_from(
    env: Mapping[str, str] | None, release: Release = NEWEST_RELEASE
) -> Environment:
    """Read vLLM's variables from `env`; others than VLLM_... are no concern of ours.

    A variable that a release does not know changes nothing there.

    Raises:
        PlannerError: for a VLLM_ variable the planner does not know.
        UnknownArchitecture: for one whose memory is not modelled yet.
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
        estimate_cudagraphs=release.estimates_cudagraphs
        and _is_on(
            given,
            "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
            "1" if release.charges_cudagraphs else "0",
        ),
        use_flashinfer_sampler=_switch(given, "VLLM_USE_FLASHINFER_SAMPLER"),
        allow_chunked_local_attention=not release.has_chunked_local_switch
        or _is_on(
            given,
            "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE",
            "1" if release.allows_chunked_local_attention else "0",
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
    """Return the kernel's name of today; older releases wrote _VLLM_V1 behind it."""
    name = env.get("VLLM_ATTENTION_BACKEND")
    if name is None or not release.heeds_attention_variable:
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
