"""The attention backends of vLLM's CPU build, and the size of its blocks.

The platform names the backend without asking it: what a kernel cannot do shows later,
when it runs.

Source: vLLM 0.29.0 to 0.33.0 `platforms/cpu.py` get_attn_backend_cls,
check_and_update_config and update_block_size_for_backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from planner.caches import (
    AttentionLayer,
    CacheLayer,
    CrossAttentionLayer,
    EncoderOnlyAttentionLayer,
    MLALayer,
)
from planner.errors import Refused, UnknownArchitecture
from planner.gpu import GPU
from planner.memory.backend import (
    PLAIN,
    AttentionBackend,
    AttentionSelectorConfig,
)
from planner.memory.cache_context import CacheContext
from planner.memory.kv_layout import KVCacheLayout
from planner.memory.kv_spec import MultipleOf
from planner.memory.mla_backends import LatentBackend
from planner.model import ModelArchitecture
from planner.releases import Release
from planner.states import (
    GatedDeltaNetState,
    Mamba1State,
    Mamba2State,
    ShortConvolutionState,
)

DEFAULT_BLOCK_SIZE = 128
LATENT_BLOCK_SIZE = 16
"""The one size of blocks that the plain kernel of latent attention takes."""
FIRST_STATE_BLOCK_SIZE = 16
"""Tokens in a block of states before blocks of attention have a say."""
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


class CPUAttention(AttentionBackend):
    """CPU_ATTN.

    Source: vLLM 0.33.0 `v1/attention/backends/cpu_attn.py` CPUAttentionBackend.
    """

    name = "CPU_ATTN"
    step: ClassVar = MultipleOf(base=32)
    block_sizes = (step,)

    def layouts(self, context: CacheContext) -> tuple[KVCacheLayout, ...] | None:  # noqa: ARG002
        """Return the one layout it reads."""
        return (KVCacheLayout.LBHNC,)


class CPULatent(LatentBackend):
    """CPU_MLA.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/cpu_mla.py` CPUMLABackend.
    """

    name = "CPU_MLA"
    block_sizes = (LATENT_BLOCK_SIZE,)

    def supports_block_size(self, size: int | None, context: CacheContext) -> bool:  # noqa: ARG002
        """Whether blocks are of its one size; no multiple will do."""
        return size in (None, LATENT_BLOCK_SIZE)


class AMXLatent(LatentBackend):
    """AMX_MLA.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/amx_mla.py` AMXMLABackend.
    """

    name = "AMX_MLA"
    block_sizes: ClassVar = (MultipleOf(base=32),)


def select(config: AttentionSelectorConfig, context: CacheContext) -> AttentionBackend:
    """Return the backend of a layer: a user's wish counts for latent attention only.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for a packed KV cache, or where it is not known what the
            processor can do.
    """
    if config.use_sparse:
        raise Refused("Sparse Attention is not supported on CPU.")
    _check_kv_cache_dtype(config, context)
    if not config.use_mla:
        return CPUAttention()
    asks_plain = (context.asked_backend or "").upper() == CPULatent.name
    return CPULatent() if asks_plain or not has_amx(context.gpu) else AMXLatent()


def _check_kv_cache_dtype(
    config: AttentionSelectorConfig, context: CacheContext
) -> None:
    """Refuse a packed KV cache that the kernels cannot read.

    Source: vLLM 0.33.0 `v1/attention/backends/cpu_attn.py` _get_attn_isa and
    supports_kv_cache_dtype.
    """
    dtype, release = config.kv_cache_dtype, context.layout.release
    if dtype in PLAIN:
        return
    told = release.cpu_refuses_kv_cache_dtypes
    if config.use_mla and told:
        raise Refused(
            f"--kv-cache-dtype {dtype} is not supported by MLA attention on CPU."
        )
    is_read = not config.use_mla and dtype in _FP8
    if not is_read and not told:
        raise UnknownArchitecture(
            f"kv_cache_dtype={dtype!r} with gpu='CPU' is not modelled for this layer. "
            "Leave it out."
        )
    if told and not (is_read and _has_wide_vectors(context.gpu)):
        raise Refused(
            f"--kv-cache-dtype {dtype} is not supported by the CPU attention backend "
            "on this host."
        )
    if config.head_size % 32 and not config.head_size % 16:
        raise Refused("FP8 KV cache requires head_size divisible by 32 on CPU.")
    if not _has_wide_vectors(context.gpu):
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
            "planner.GPU(..., processor=planner.gpu.Processor(flags=(...,))) its flags "
            "as /proc/cpuinfo lists them."
        )
    return has


def serves_latent_plainly(
    model: ModelArchitecture, gpu: GPU, asked_backend: str | None
) -> bool:
    """Return whether the plain kernel serves latent attention: prompts stay whole."""
    if not any(isinstance(layer, MLALayer) for layer in model.cache_layers):
        return False
    asks_plain = (asked_backend or "").upper() == CPULatent.name
    return asks_plain or not has_amx(gpu)


def check_caches(model: ModelArchitecture, release: Release) -> None:
    """Leave out layers that keep what is not modelled on a processor.

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
            f"{model.architecture}: latent attention beside layers with states on "
            f"gpu='CPU' is not modelled (vLLM {release.version})."
        )


def first_block_size(
    backends: Sequence[AttentionBackend], context: CacheContext
) -> int:
    """Return the tokens of a block before layers with states have a say."""
    if any(isinstance(backend, CPULatent) for backend in backends):
        return LATENT_BLOCK_SIZE
    default = DEFAULT_BLOCK_SIZE
    if not backends and context.layout.release.cpu_asks_backends_for_block_size:
        default = FIRST_STATE_BLOCK_SIZE
    return context.asked_block_size or default


def state_dtype(asked: str, model: ModelArchitecture, gpu: GPU) -> str:
    """Return mamba_ssm_cache_dtype: float32 where the processor's own kernels run.

    Those of gated delta networks take halves as well, where the user asks for them.

    Source: vLLM 0.33.0 `platforms/cpu.py` check_and_update_config and
    _cpu_mamba_backend.
    """
    if not model.state_layers or asked == "float32":
        return asked
    if not _has(gpu, "avx512_bf16", "the states of recurrent layers"):
        return asked
    is_gdn = all(isinstance(layer, GatedDeltaNetState) for layer in model.state_layers)
    return asked if asked in _HALVES and is_gdn else "float32"
