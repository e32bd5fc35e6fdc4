"""What vLLM 0.9.2 to 0.10.2 still ran with its first engine, V0, which is not modelled.

Source of all rules: vLLM 0.9.2 to 0.10.2 `engine/arg_utils.py` _is_v1_supported_oracle.
"""

from __future__ import annotations

from planner.engine import EngineSettings
from planner.errors import UnknownArchitecture
from planner.gpu import GPU
from planner.model import ModelArchitecture
from planner.parallel import DATACENTER_BLACKWELL, HOPPER
from planner.releases import Release

_AMPERE = 8
_BLOOM = "BloomForCausalLM"


def check_engine(
    settings: EngineSettings, model: ModelArchitecture, gpu: GPU, release: Release
) -> None:
    """Leave out what the first engine serves.

    Raises:
        UnknownArchitecture: naming what the second one did not do yet.
    """
    if release.has_only_v1:
        return
    reason = _reason(settings, model, gpu, release)
    if reason is not None:
        raise UnknownArchitecture(
            f"vLLM {release.version} serves {reason} with its first engine (V0), which "
            "is not modelled. Plan vllm_version='0.11.0' or later."
        )


def _reason(
    settings: EngineSettings, model: ModelArchitecture, gpu: GPU, release: Release
) -> str | None:
    asked = settings.kv_cache_dtype
    if asked not in (None, "auto") and not _keeps_fp8(model, gpu, release):
        return f"kv_cache_dtype={asked!r} on {gpu.name}"
    if model.is_encoder_only and not release.runs_encoders_v1:
        return f"{model.architecture} (an encoder)"
    if release.runs_states_v1:
        return None
    major, minor = gpu.compute_capability
    kinds = (
        (major < _AMPERE, f"GPUs of compute capability {major}.{minor}"),
        (model.state_layers, f"{model.architecture} (it keeps states)"),
        (model.is_encoder_decoder, model.architecture),
        (model.architecture == _BLOOM, _BLOOM),
    )
    return next((text for is_it, text in kinds if is_it), None)


def _keeps_fp8(model: ModelArchitecture, gpu: GPU, release: Release) -> bool:
    """Whether the second engine's kernels keep FP8: those of Hopper at first.

    Source: vLLM 0.10.0 and 0.10.2 `platforms/cuda.py` is_kv_cache_dtype_supported.
    """
    if gpu.compute_capability == (DATACENTER_BLACKWELL, 0):
        return release.keeps_fp8_on_blackwell
    if model.has_latent_attention and release.keeps_latent_fp8:
        return True
    return gpu.compute_capability[0] == HOPPER
