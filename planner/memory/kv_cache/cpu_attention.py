"""The attention backends of vLLM's CPU build, and its block size.

The platform selects the backend without checking what it supports: what a kernel cannot
do shows only when it runs.

Source: vLLM 0.29.0 to 0.33.0 `platforms/cpu.py` get_attn_backend_cls,
check_and_update_config and update_block_size_for_backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from planner.engine.gpu import GPU
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.errors import Refused, UnknownArchitecture
from planner.memory.kv_cache.backend import (
    PLAIN,
    AttentionBackend,
    AttentionSelectorConfig,
)
from planner.memory.kv_cache.cache_context import CacheContext
from planner.memory.kv_cache.kv_spec import MultipleOf
from planner.memory.kv_cache.layout import KVCacheLayout
from planner.memory.kv_cache.mla_backends import LatentBackend
from planner.models.architecture import ModelArchitecture
from planner.models.caches import (
    AttentionLayer,
    CacheLayer,
    CrossAttentionLayer,
    EncoderOnlyAttentionLayer,
    MLALayer,
)
from planner.models.states import (
    GatedDeltaNetState,
    Mamba1State,
    Mamba2State,
    ShortConvolutionState,
)

DEFAULT_BLOCK_SIZE = 128
LATENT_BLOCK_SIZE = 16
"""The only block size of the plain kernel of latent attention."""
FIRST_STATE_BLOCK_SIZE = 16
"""Tokens in a block of states before it is aligned to attention's."""
_FP8 = ("fp8", "fp8_e4m3", "fp8_e5m2")
_AVX512 = ("avx512f", "avx512vl", "avx512bw", "avx512dq")
"""Source: PyTorch `aten/src/ATen/cpu/Utils.cpp` is_avx512_supported."""
_HALVES = ("float16", "bfloat16")
_KNOWN_CACHES = (
    AttentionLayer,
    CrossAttentionLayer,
    EncoderOnlyAttentionLayer,
    MLALayer,
    GatedDeltaNetState,
    Mamba1State,
    Mamba2State,
    ShortConvolutionState,
)
_BLOCK_SIZE_BY_BACKEND = Change(
    since=(0, 33),
    what=(
        "The CPU build sets its default block size after the attention backends are "
        "known."
    ),
    source="vLLM 0.33.0 `platforms/cpu.py` update_block_size_for_backend",
)
_REFUSES_KV_CACHE_DTYPES = Change(
    since=(0, 33),
    what=(
        "The CPU build refuses a KV cache dtype that no kernel supports with a message."
    ),
    source="vLLM 0.33.0 `platforms/cpu.py` get_attn_backend_cls",
)


class CPUAttention(AttentionBackend):
    """CPU_ATTN.

    Source: vLLM 0.33.0 `v1/attention/backends/cpu_attn.py` CPUAttentionBackend.
    """

    name = "CPU_ATTN"
    step: ClassVar = MultipleOf(base=32)
    block_sizes = (step,)
    own_layouts = (KVCacheLayout.LBHNC,)


class CPULatent(LatentBackend):
    """CPU_MLA.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/cpu_mla.py` CPUMLABackend.
    """

    name = "CPU_MLA"
    block_sizes = (LATENT_BLOCK_SIZE,)

    def supports_block_size(self, size: int | None, context: CacheContext) -> bool:
        """Whether blocks have its only size; multiples are not supported."""
        return size in (None, LATENT_BLOCK_SIZE)


class AMXLatent(LatentBackend):
    """AMX_MLA.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/amx_mla.py` AMXMLABackend.
    """

    name = "AMX_MLA"
    block_sizes: ClassVar = (MultipleOf(base=32),)


_NO_FLOAT32 = (
    "expect weight to be bfloat16, float16, int8, fp8_e4m3 or uint8(mxfp4 or int4)."
)
"""vLLM's error when AMX_MLA packs the weights of latent attention.

Source: vLLM 0.32.0 `v1/attention/backends/mla/amx_mla.py`
AMXMLAImpl.process_weights_after_loading, a start of its CPU build.
"""


def select(config: AttentionSelectorConfig) -> AttentionBackend:
    """Return the backend of a layer; the user can only set that of latent attention.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for a quantised KV cache, or where the processor's features
            are not known.
    """
    if config.use_sparse:
        raise Refused("Sparse Attention is not supported on CPU.")
    _check_kv_cache_dtype(config)
    if not config.use_mla:
        return CPUAttention()
    requests_plain = (config.context.requested_backend or "").upper() == CPULatent.name
    if requests_plain or not has_amx(config.context.gpu):
        return CPULatent()
    if config.context.dtype == "float32":
        raise Refused(_NO_FLOAT32)
    return AMXLatent()


def _check_kv_cache_dtype(config: AttentionSelectorConfig) -> None:
    """Refuse a quantised KV cache that the kernels cannot read.

    Source: vLLM 0.33.0 `v1/attention/backends/cpu_attn.py` _get_attn_isa and
    supports_kv_cache_dtype.
    """
    dtype, release = config.kv_cache_dtype, config.context.layout.release
    if dtype in PLAIN:
        return
    is_reported = release.has(_REFUSES_KV_CACHE_DTYPES)
    if config.use_mla and is_reported:
        raise Refused(
            f"--kv-cache-dtype {dtype} is not supported by MLA attention on CPU."
        )
    is_read = not config.use_mla and dtype in _FP8
    if not is_read and not is_reported:
        raise UnknownArchitecture(
            f"kv_cache_dtype={dtype!r} with gpu='CPU' is not modelled for this layer. "
            "Leave it out."
        )
    if is_reported and not (is_read and _has_wide_vectors(config.context.gpu)):
        raise Refused(
            f"--kv-cache-dtype {dtype} is not supported by the CPU attention backend "
            "on this host."
        )
    if config.head_size % 32 and not config.head_size % 16:
        raise Refused("FP8 KV cache requires head_size divisible by 32 on CPU.")
    if not _has_wide_vectors(config.context.gpu):
        raise Refused("FP8 KV cache on CPU requires x86 with AVX-512 or AMX.")


def _has_wide_vectors(gpu: GPU) -> bool:
    what = "kernels of an FP8 KV cache"
    return all(_has(gpu, flag, what) for flag in _AVX512) or has_amx(gpu)


def has_amx(gpu: GPU) -> bool:
    """Return whether the processor has AMX tiles.

    Raises:
        UnknownArchitecture: where that is not known.
    """
    return _has(gpu, "amx_tile", "the KV cache blocks of latent attention")


def _has(gpu: GPU, flag: str, what: str) -> bool:
    has = None if gpu.processor is None else gpu.processor.has(flag)
    if has is None:
        raise UnknownArchitecture(
            f"gpu='CPU': {what} depend on whether the processor has {flag}. Give "
            "planner.GPU(..., processor=planner.engine.gpu.Processor(flags=(...,))) "
            "its flags as /proc/cpuinfo lists them."
        )
    return has


def serves_latent_plainly(
    model: ModelArchitecture, gpu: GPU, requested_backend: str | None
) -> bool:
    """Return whether the plain kernel serves latent attention: no chunked prefill."""
    if not any(isinstance(layer, MLALayer) for layer in model.cache_layers):
        return False
    requests_plain = (requested_backend or "").upper() == CPULatent.name
    return requests_plain or not has_amx(gpu)


def check_caches(model: ModelArchitecture, release: Release) -> None:
    """Leave out layers whose caches are not modelled on a CPU.

    Raises:
        UnknownArchitecture: naming the kind of layer.
    """
    caches: tuple[CacheLayer, ...] = (*model.cache_layers, *model.state_layers)
    for cache in caches:
        if not isinstance(cache, _KNOWN_CACHES):
            raise UnknownArchitecture(
                f"{model.architecture}: {type(cache).__name__} with gpu='CPU' is not "
                "modelled."
            )
        if isinstance(cache, AttentionLayer) and cache.head_size_v not in (
            None,
            cache.head_size,
        ):
            raise UnknownArchitecture(
                f"{model.architecture}: values of another size than keys with "
                "gpu='CPU' are not modelled."
            )
    latent = any(isinstance(layer, MLALayer) for layer in model.cache_layers)
    if latent and model.state_layers:
        raise UnknownArchitecture(
            f"{model.architecture}: latent attention with layers with states on "
            f"gpu='CPU' is not modelled (vLLM {release.version})."
        )


def first_block_size(
    backends: Sequence[AttentionBackend], context: CacheContext
) -> int:
    """Return the tokens of a block before it is aligned to states."""
    if any(isinstance(backend, CPULatent) for backend in backends):
        return LATENT_BLOCK_SIZE
    default = DEFAULT_BLOCK_SIZE
    if not backends and context.layout.release.has(_BLOCK_SIZE_BY_BACKEND):
        default = FIRST_STATE_BLOCK_SIZE
    return context.requested_block_size or default


def state_dtype(requested: str, model: ModelArchitecture, gpu: GPU) -> str:
    """Return mamba_ssm_cache_dtype: float32 where the CPU build's own kernels run.

    Those of gated delta networks also support 16-bit floats, where the user sets them.

    Source: vLLM 0.33.0 `platforms/cpu.py` check_and_update_config and
    _cpu_mamba_backend.
    """
    if not model.state_layers or requested == "float32":
        return requested
    if not _has(gpu, "avx512_bf16", "the states of recurrent layers"):
        return requested
    is_gdn = all(isinstance(layer, GatedDeltaNetState) for layer in model.state_layers)
    return requested if requested in _HALVES and is_gdn else "float32"
