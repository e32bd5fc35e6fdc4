"""What vLLM refuses of a quantization method, and of the KV cache's dtype."""

from __future__ import annotations

from collections.abc import Mapping

from planner.engine.generations import DATACENTER_BLACKWELL
from planner.engine.gpu import GPU
from planner.engine.releases import NEWEST_RELEASE, Release
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings
from planner.errors import Refused, RefusedArgument, UnknownArchitecture
from planner.models.architecture import ModelArchitecture
from planner.models.caches import MLALayer

_KV_CACHE_DTYPES = (
    "auto",
    "float16",
    "bfloat16",
    "fp8",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp8_inc",
    "fp8_ds_mla",
    "nvfp4_ds_mla",
    "turboquant_k8v4",
    "turboquant_4bit_nc",
    "turboquant_k3v4_nc",
    "turboquant_3bit_nc",
    "octave_k3v4",
    "octave_k3v3",
    "octave_k3v3_compact",
    "ultraquant_4bit",
    "int4_per_token_head",
    "int8_per_token_head",
    "fp8_per_token_head",
    "nvfp4",
    "nvfp4_4over6",
)
"""In vLLM's order (`config/cache.py` CacheDType)."""


_REFUSES_OTHER_16_BITS = Change(
    since=(0, 33),
    what="A 16-bit KV cache has the model's dtype; before, the two may differ.",
    source="vLLM 0.32.0 and 0.33.0 `config/vllm.py` VllmConfig",
)


def check_kv_cache_dtype(
    kv_cache_dtype: str, dtype: str, release: Release = NEWEST_RELEASE
) -> None:
    """Refuse an unknown KV cache dtype, and a 16-bit dtype other than the model's.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `config/cache.py` CacheConfig, `config/vllm.py` VllmConfig.
    """
    if kv_cache_dtype not in _KV_CACHE_DTYPES:
        raise Refused(
            f"Invalid kv_cache_dtype: {kv_cache_dtype!r}. Valid values are: "
            f"{list(_KV_CACHE_DTYPES)}"
        )
    if not release.has(_REFUSES_OTHER_16_BITS):
        return
    if kv_cache_dtype not in ("bfloat16", "float16") or kv_cache_dtype == dtype:
        return
    choice = "`auto`" if dtype == "float32" else f"`auto` or `{dtype}`"
    raise Refused(
        f'kv_cache_dtype="{kv_cache_dtype}" is incompatible with dtype="{dtype}". '
        f"Please set `--kv-cache-dtype` to {choice}."
    )


def check_latent_cache_dtype(kv_cache_dtype: str, model: ModelArchitecture) -> None:
    """Refuse plain NVFP4 for latent attention, which does not support it.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `config/vllm.py` VllmConfig.
    """
    is_latent = any(isinstance(layer, MLALayer) for layer in model.cache_layers)
    is_plain = kv_cache_dtype.startswith("nvfp4") and kv_cache_dtype != "nvfp4_ds_mla"
    if is_latent and is_plain:
        raise Refused(
            "nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) "
            "backends. Please use a different --kv-cache-dtype (e.g., 'fp8', 'auto', "
            "or 'nvfp4_ds_mla' with a sparse MLA backend) for MLA models such as "
            "DeepSeek."
        )


_DEPRECATED: Mapping[str, Change] = {
    method: Change(
        since=(0, 14),
        until=until,
        what=(
            f"The quantization method {method} is refused without "
            "allow_deprecated_quantization."
        ),
        source=(
            "vLLM 0.13.0, 0.14.0, 0.19.1, 0.20.0 and 0.33.0 "
            "`layers/quantization/__init__.py` DEPRECATED_QUANTIZATION_METHODS"
        ),
    )
    for method, until in (
        ("fbgemm_fp8", None),
        ("fp_quant", None),
        ("experts_int8", (0, 20)),
    )
}
"""Methods that vLLM refuses without `allow_deprecated_quantization`, and when."""


def check_quantization_argument(
    model: ModelArchitecture, settings: EngineSettings, release: Release
) -> None:
    """Refuse a method other than the checkpoint's, or one that is deprecated.

    Raises:
        RefusedArgument: in vLLM's words.

    Source: vLLM 0.33.0 `config/model.py` _verify_quantization.
    """
    if model.quantization_limits.mismatch is not None:
        raise RefusedArgument(model.quantization_limits.mismatch)
    deprecated = _DEPRECATED.get(model.quantization or "")
    if deprecated is None or not release.has(deprecated):
        return
    if not dict(settings.others).get("allow_deprecated_quantization"):
        # vLLM raises its text unformatted.
        raise RefusedArgument(
            f"('The quantization method %s is deprecated and will be removed in future "
            "versions of vLLM. To bypass, set `--allow-deprecated-quantization`.', "
            f"'{model.quantization}')"
        )


def check_quantization(
    model: ModelArchitecture, dtype: str, gpu: GPU, release: Release = NEWEST_RELEASE
) -> None:
    """Refuse settings, a GPU or a dtype that the quantisation does not support.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: where only later releases refuse.

    Source: vLLM 0.33.0 `config/vllm.py` _get_quantization_config.
    """
    limits, method = model.quantization_limits, model.quantization
    refused = limits.refused_since
    if limits.refusal is not None and (refused is None or release.has(refused)):
        raise Refused(limits.refusal)
    if limits.refusal is not None and not limits.was_taken:
        raise UnknownArchitecture(
            f"quantization={method!r}: vLLM {release.version} still takes a "
            f"checkpoint that is not modelled, as later ones say: {limits.refusal}"
        )
    major, minor = gpu.compute_capability
    capability = 10 * major + minor
    least = least_capability(method, limits.min_capability, release)
    if capability < least:
        raise Refused(
            f"The quantization method {method} is not supported for the current GPU. "
            f"Minimum capability: {least}. Current capability: "
            f"{capability}."
        )
    _check_gguf(model, capability, dtype, release)
    if limits.supported_dtypes and dtype not in limits.supported_dtypes:
        supported = ", ".join(f"torch.{name}" for name in limits.supported_dtypes)
        raise Refused(
            f"torch.{dtype} is not supported for quantization method {method}. "
            f"Supported dtypes: [{supported}]"
        )


_GGUF_ON_HUB = Change(
    since=(0, 12),
    what="GGUF files may be named on the Hub; before, only a file on disk.",
    source="vLLM 0.11.2 and 0.12.0 `transformers_utils/config.py` get_config",
)
_GGUF_NEEDS_HALF = Change(
    since=(0, 13),
    until=(0, 24),
    what="Blackwell refuses bfloat16 for GGUF files.",
    source=(
        "vLLM 0.12.0, 0.13.0 and 0.23.0 `layers/quantization/gguf.py` "
        "get_supported_act_dtypes; vllm-gguf-plugin 0.0.5, which has no such rule"
    ),
)


def _check_gguf(
    model: ModelArchitecture, capability: int, dtype: str, release: Release
) -> None:
    """Refuse what some releases refuse of GGUF files.

    Raises:
        Refused: in vLLM's words.
    """
    if model.quantization != "gguf":
        return
    if not release.has(_GGUF_ON_HUB) and not model.name.endswith(".gguf"):
        raise Refused(
            "Loading GGUF from a remote repo directly is not yet supported: pass the "
            "local path of the GGUF checkpoint."
        )
    is_refused = capability >= DATACENTER_BLACKWELL.number and dtype == "bfloat16"
    if is_refused and release.has(_GGUF_NEEDS_HALF):
        raise Refused(
            "torch.bfloat16 is not supported for quantization method gguf. Supported "
            "dtypes: [torch.float16, torch.float32]"
        )


_ONLINE_FP8 = Change(
    since=(0, 31),
    what=(
        'The argument quantization="fp8" is one of the online methods, without KV '
        "scales."
    ),
    source="vLLM 0.30.0 and 0.31.0 `layers/quantization/fp8.py` Fp8Config",
)
_KNOWS_SCHEME = Change(
    since=(0, 24),
    what="compressed-tensors loads KV scales only where the checkpoint has them.",
    source=(
        "vLLM 0.23.0 and 0.24.0 `layers/attention/attention.py` _init_kv_cache_quant"
    ),
)


def has_kv_scales(model: ModelArchitecture, release: Release) -> bool:
    """Whether attention layers load scales of the KV cache."""
    leaves_out = {"fp8": _ONLINE_FP8, "compressed-tensors": _KNOWS_SCHEME}
    change = leaves_out.get(model.quantization or "")
    had_scales = change is not None and not release.has(change)
    return model.quantization_limits.has_kv_scales or had_scales


_LEAST_BEFORE: Mapping[str, tuple[Change, int]] = {
    method: (
        Change(
            until=until,
            what=(
                f"The quantization method {method} needs a GPU of compute capability "
                f"{least / 10} or later."
            ),
            source="vLLM 0.19.1 to 0.33.0 get_min_capability of the config classes",
        ),
        least,
    )
    for method, until, least in (
        ("auto_gptq", (0, 22), 75),
        ("modelopt", (0, 27), 89),
        ("modelopt_mixed", (0, 24), 89),
        ("modelopt_mxfp8", (0, 20), 100),
    )
}
"""The least compute capability of a method up to a release."""


def least_capability(method: str | None, newest: int, release: Release) -> int:
    """Return the least compute capability of a quantization method, such as 89."""
    change, before = _LEAST_BEFORE.get(method or "", (None, newest))
    return newest if change is None or not release.has(change) else before
