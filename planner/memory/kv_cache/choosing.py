"""Which attention backend vLLM selects for a layer, and what follows from its choice.

vLLM tries the backends in an order of priority. The backend allocates buffers, and its
block sizes have to suit the layers that are excluded from KV cache quantisation too.

Source: vLLM 0.33.0 `platforms/cuda.py` _get_backend_priorities and
get_attn_backend_cls; `platforms/interface.py` _align_heterogeneous_kv_block_size;
`layers/quantization/turboquant/config.py` get_boundary_skip_layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from planner.engine.generations import DATACENTER_BLACKWELL, HOPPER
from planner.engine.gpu import GPU
from planner.errors import Refused, UnknownArchitecture
from planner.memory.kv_cache.attention_backends import (
    FlashAttention,
    FlashInfer,
    FlexAttention,
    TritonAttention,
    TurboQuant,
)
from planner.memory.kv_cache.backend import AttentionBackend, AttentionSelectorConfig
from planner.memory.kv_cache.cache_context import BlockSizes, CacheContext
from planner.memory.kv_cache.kv_spec import FullAttentionSpec, MultipleOf
from planner.memory.kv_cache.layout import kv_element_bytes, quant_mode
from planner.models.architecture import ModelArchitecture
from planner.models.layers import Module, Part, Replicated

_REST = (TritonAttention(), FlexAttention(), TurboQuant())
_BOUNDARY_LAYERS = 2


@cache
def backends_by_name() -> dict[str, AttentionBackend]:
    """Return the backends of attention that may be requested."""
    from planner.memory.kv_cache.composite_backends import (  # noqa: PLC0415 - few need it
        TritonFlashAttention,
        TritonFlashInfer,
    )
    from planner.memory.kv_cache.diffkv_backends import (  # noqa: PLC0415 - few need it
        FlashAttentionDiffKV,
        TritonAttentionDiffKV,
    )

    known = (
        *(FlashAttention(), FlashInfer(), *_REST),
        *(TritonFlashAttention(), TritonFlashInfer()),
        *(FlashAttentionDiffKV(), TritonAttentionDiffKV()),
    )
    return {backend.name: backend for backend in known}


def priorities(config: AttentionSelectorConfig) -> tuple[AttentionBackend, ...]:
    """Return the backends of attention other than MLA, in vLLM's order."""
    own = {DATACENTER_BLACKWELL.major: "TRITON_FLASHINFER"}
    own[HOPPER.major] = "TRITON_FLASH_ATTN"
    first: tuple[AttentionBackend, ...] = ()
    if config.use_mm_prefix and config.context.major in own:
        first = (backends_by_name()[own[config.context.major]],)
    if config.context.major == DATACENTER_BLACKWELL.major:
        return (*first, FlashInfer(), FlashAttention(), *_REST)
    return (*first, FlashAttention(), FlashInfer(), *_REST)


def select_backend(
    config: AttentionSelectorConfig,
    candidates: Sequence[AttentionBackend],
    named: Callable[[], Mapping[str, AttentionBackend]] = backends_by_name,
) -> AttentionBackend:
    """Return the first candidate that supports the layer, or the requested backend.

    `named` returns the backends that may be requested.

    Raises:
        Refused: when none does, with the reasons of each in vLLM's words.
        UnknownArchitecture: for an attention_backend that is not modelled.
    """
    if config.context.gpu.is_cpu:
        from planner.memory.kv_cache import cpu_attention  # noqa: PLC0415 - the CPU build only

        return cpu_attention.select(config)
    if config.context.requested_backend is not None:
        requested = named().get(config.context.requested_backend.upper())
        return _requested(config, requested)
    reasons = {}
    release = config.context.layout.release
    for backend in candidates:
        if backend.change is not None and not release.has(backend.change):
            continue
        found = backend.invalid_reasons(config)
        if not found:
            backend.refuse(config)
            return backend
        reasons[backend.name] = found
    text = ", ".join(f"{name}: [{', '.join(r)}]" for name, r in reasons.items())
    raise Refused(
        f"No valid attention backend found for cuda with {config}. Reasons: {{{text}}}."
    )


def _requested(
    config: AttentionSelectorConfig,
    backend: AttentionBackend | None,
) -> AttentionBackend:
    if backend is None:
        raise UnknownArchitecture(
            f"attention_backend={config.context.requested_backend!r} is not modelled "
            "for this layer yet. Leave it out."
        )
    reasons = backend.invalid_reasons(config)
    if reasons:
        raise Refused(
            f"Selected backend AttentionBackendEnum.{backend.name} is not valid for "
            f"this configuration. Reason: {list(reasons)}"
        )
    backend.refuse(config)
    return backend


def check_kv_scales(kv_cache_dtype: str, context: CacheContext) -> None:
    """Refuse FP8 E5M2 where attention layers load scales of the KV cache.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `layers/attention/attention.py` _init_kv_cache_quant.
    """
    if kv_cache_dtype == "fp8_e5m2" and context.has_kv_cache_scales:
        raise Refused("fp8_e5m2 kv-cache is not supported with fp8 checkpoints.")


def kernel_buffers(
    backend: AttentionBackend, *, max_num_batched_tokens: int, num_heads: int, gpu: GPU
) -> tuple[Module, ...]:
    """Return the buffers that the backend allocates while the model is built.

    FlashInfer has a counter of 4 bytes per token and query head, shared by all layers.

    Source: vLLM 0.33.0 `v1/attention/backends/flashinfer.py` FlashInferImpl.__init__;
    FlashInfer `utils.py` get_trtllm_gen_multi_ctas_kv_counter_bytes.
    """
    if backend.name not in (FlashInfer.name, "TRITON_FLASHINFER"):
        return ()
    counters = max(max_num_batched_tokens * num_heads, gpu.num_sms or 0)
    rounded = -(-counters // 8) * 8
    return (
        Replicated("multi_ctas_kv_counter", Part.BUFFERS, ((rounded,),), dtype="int32"),
    )


def skipped_layers(
    requested: Sequence[str], kv_cache_dtype: str, model: ModelArchitecture
) -> tuple[str, ...]:
    """Return the excluded layers: as requested, and TurboQuant's boundary layers."""
    if not kv_cache_dtype.startswith("turboquant_") or model.state_layers:
        return tuple(requested)
    layers = model.num_hidden_layers
    count = min(_BOUNDARY_LAYERS, layers // 2)
    boundary = (*range(count), *range(layers - count, layers))
    return tuple(sorted({*requested, *map(str, boundary)}))


def suiting_skipped(
    sizes: BlockSizes, backend: AttentionBackend, context: CacheContext
) -> BlockSizes:
    """Return block sizes whose quantised page has room for a block of plain values.

    Raises:
        Refused: where vLLM stops with an assertion.
    """
    packed = _token_bytes(backend, context, context.kv_cache_dtype)
    plain = _token_bytes(backend, context, "auto")
    if plain < packed:
        raise Refused(
            f"padded-spec per-token page ({plain}B) < primary ({packed}B); a "
            "higher-precision padded spec must not be smaller than the quantized "
            "primary."
        )
    if plain == packed:
        return sizes
    smallest = min(
        size.base if isinstance(size, MultipleOf) else size
        for size in backend.kernel_block_sizes(context)
    )
    step = max(smallest, sizes.block_size)
    required = max(plain * smallest, sizes.mamba_page_size_padded_bytes or 0)
    block_size = max(sizes.block_size, step * -(-required // (step * packed)))
    shared = block_size * packed
    mamba = sizes.mamba_page_size_padded_bytes
    return replace(
        sizes,
        block_size=block_size,
        skip_page_size_padded_bytes=shared,
        mamba_page_size_padded_bytes=None if mamba is None else shared,
    )


def check_aligned(
    before: int,
    sizes: BlockSizes,
    backends: Sequence[AttentionBackend],
    context: CacheContext,
) -> None:
    """Refuse an enlarged block size that a backend does not support.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `platforms/interface.py` _check_aligned_block_size.
    """
    size = sizes.block_size
    rejecting = [b.name for b in backends if not b.supports_block_size(size, context)]
    if size != before and rejecting:
        raise Refused(
            f"Aligned KV cache block size {size} is not supported by attention "
            f"backend(s): {', '.join(rejecting)}."
        )


def _token_bytes(
    backend: AttentionBackend, context: CacheContext, kv_cache_dtype: str
) -> int:
    """Return the bytes of one token in one layer as the config declares it."""
    spec = FullAttentionSpec(
        block_size=1,
        num_kv_heads=context.num_kv_heads_per_rank,
        head_size=context.head_size,
        element_bytes=kv_element_bytes(context.dtype, kv_cache_dtype),
        kv_quant_mode=quant_mode(kv_cache_dtype),
    )
    return backend.customize_spec(spec).page_size_bytes
