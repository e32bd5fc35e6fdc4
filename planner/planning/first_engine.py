"""Starts that vLLM 0.9.2 to 0.10.2 run with their first engine (V0), not modelled.

Source: vLLM 0.9.2 to 0.10.2 `engine/arg_utils.py` _is_v1_supported_oracle.
"""

from __future__ import annotations

from planner.engine.generations import AMPERE, DATACENTER_BLACKWELL, HOPPER
from planner.engine.gpu import GPU
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings
from planner.errors import UnknownArchitecture
from planner.models.architecture import ModelArchitecture

_BLOOM = "BloomForCausalLM"
_ONLY_V1 = Change(
    since=(0, 11),
    what="V1 is the only engine.",
    source="vLLM 0.9.2 to 0.10.2 `engine/arg_utils.py` _is_v1_supported_oracle",
)
_RUNS_STATES_V1 = Change(
    since=(0, 10, 2),
    what="V1 serves models with states, encoder-decoder models and GPUs before Ampere.",
    source="vLLM 0.9.2 to 0.10.2 `engine/arg_utils.py` _is_v1_supported_oracle",
)
_RUNS_ENCODERS_V1 = Change(
    since=(0, 10, 1),
    what="V1 serves encoders without a KV cache.",
    source="vLLM 0.9.2 to 0.10.2 `engine/arg_utils.py` _is_v1_supported_oracle",
)
_KEEPS_FP8_ON_BLACKWELL = Change(
    since=(0, 10),
    what="V1 supports an FP8 KV cache on B200.",
    source="vLLM 0.10.0 `platforms/cuda.py` is_kv_cache_dtype_supported",
)
_KEEPS_LATENT_FP8 = Change(
    since=(0, 10, 2),
    what="V1 supports an FP8 KV cache of latent attention on every GPU.",
    source="vLLM 0.10.2 `platforms/cuda.py` is_kv_cache_dtype_supported",
)


def check_engine(
    settings: EngineSettings, model: ModelArchitecture, gpu: GPU, release: Release
) -> None:
    """Reject starts that the release runs with V0.

    Raises:
        UnknownArchitecture: naming what V1 did not support yet.
    """
    if release.has(_ONLY_V1):
        return
    reason = _served_by_v0(settings, model, gpu, release)
    if reason is not None:
        raise UnknownArchitecture(
            f"vLLM {release.version} serves {reason} with its first engine (V0), which "
            "is not modelled. Plan vllm_version='0.11.0' or later."
        )


def _served_by_v0(
    settings: EngineSettings, model: ModelArchitecture, gpu: GPU, release: Release
) -> str | None:
    requested = settings.kv_cache_dtype
    if requested not in (None, "auto") and not _keeps_fp8(model, gpu, release):
        return f"kv_cache_dtype={requested!r} on {gpu.name}"
    if model.is_encoder_only and not release.has(_RUNS_ENCODERS_V1):
        return f"{model.architecture} (an encoder)"
    if release.has(_RUNS_STATES_V1):
        return None
    major, minor = gpu.compute_capability
    kinds = (
        (major < AMPERE.major, f"GPUs of compute capability {major}.{minor}"),
        (model.state_layers, f"{model.architecture} (it keeps states)"),
        (model.is_encoder_decoder, model.architecture),
        (model.architecture == _BLOOM, _BLOOM),
    )
    return next((text for is_it, text in kinds if is_it), None)


def _keeps_fp8(model: ModelArchitecture, gpu: GPU, release: Release) -> bool:
    """Whether V1's kernels support an FP8 cache: at first only those of Hopper."""
    if gpu.compute_capability == DATACENTER_BLACKWELL:
        return release.has(_KEEPS_FP8_ON_BLACKWELL)
    if model.has_latent_attention and release.has(_KEEPS_LATENT_FP8):
        return True
    return gpu.compute_capability[0] == HOPPER.major
