"""Backends and KV cache specs of attention with keys and values per head.

Source: vLLM 0.33.0 `layers/attention/attention.py`, `chunked_local_attention.py`,
`cross_attention.py`, `encoder_only_attention.py`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from planner.engine.releases.change import Change
from planner.errors import Refused, UnknownArchitecture
from planner.memory.kv_cache import flash_attention
from planner.memory.kv_cache.attention_backends import FlashAttention, FlashInfer
from planner.memory.kv_cache.backend import (
    ENCODER_DECODER,
    ENCODER_ONLY,
    AttentionBackend,
    AttentionSelectorConfig,
    CacheFamily,
    CachePlace,
)
from planner.memory.kv_cache.cache_context import CacheContext
from planner.memory.kv_cache.choosing import (
    backends_by_name,
    check_kv_scales,
    priorities,
    select_backend,
)
from planner.memory.kv_cache.flash_attention import V3, V4, Heads
from planner.memory.kv_cache.kv_spec import (
    AttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MultipleOf,
)
from planner.memory.kv_cache.layout import kv_element_bytes, quant_mode
from planner.memory.kv_cache.specs_of_states import (
    ChunkedLocalAttentionSpec,
    CrossAttentionSpec,
    RSWASpec,
    SinkFullAttentionSpec,
    SlidingWindowSpec,
)
from planner.models.caches import (
    AttentionLayer,
    CrossAttentionLayer,
    EncoderOnlyAttentionLayer,
)
from planner.models.layers import kv_heads_per_rank

Layer = AttentionLayer | CrossAttentionLayer | EncoderOnlyAttentionLayer
_COMPUTES_ALIBI_SQRT = "TRITON_ATTN"
_CHUNKED_SPECS = Change(
    since=(0, 10),
    what="Layers with chunked attention have a KV cache spec of their own.",
    source="vLLM 0.10.0 `v1/kv_cache_interface.py` ChunkedLocalAttentionSpec",
)
_SIZES_VALUES_APART = Change(
    since=(0, 14),
    what="The KV cache may hold values of another size than keys.",
    source="vLLM 0.14.0 `v1/kv_cache_interface.py` FullAttentionSpec",
)
_SIZES_WINDOW_VALUES_APART = Change(
    since=(0, 20),
    what="Layers with a sliding window may store values of another size than keys.",
    source="vLLM 0.20.0 `v1/kv_cache_interface.py` SlidingWindowSpec",
)
_SIZES_WINDOWS_APART = Change(
    since=(0, 25),
    what="Layers with a sliding window have their own block size.",
    source="vLLM 0.25.0 `layers/attention/attention.py` get_kv_cache_spec",
)
_FILLS_PAGES_OF_WINDOWS = Change(
    since=(0, 30),
    what=(
        "Layers with a sliding window use the largest blocks that fit in a page of "
        "full attention."
    ),
    source="vLLM 0.30.0 `layers/attention/attention.py` _largest_kernel_block_within",
)


def is_skipped(layer: Layer, context: CacheContext) -> bool:
    """Whether kv_cache_dtype_skip_layers leaves a layer unquantised.

    Source: vLLM 0.33.0 `layers/attention/attention.py` Attention.__init__.
    """
    has_window = isinstance(layer, AttentionLayer) and layer.sliding_window is not None
    return str(context.layer_index) in context.skip_layers or (
        has_window and "sliding_window" in context.skip_layers
    )


def _dtype_of(layer: Layer, context: CacheContext) -> str:
    if isinstance(layer, AttentionLayer) and not layer.heeds_kv_cache_dtype:
        return "auto"
    return "auto" if is_skipped(layer, context) else context.kv_cache_dtype


def _config(layer: Layer, context: CacheContext) -> AttentionSelectorConfig:
    return AttentionSelectorConfig(
        context=context,
        head_size=layer.head_size,
        dtype=context.dtype,
        kv_cache_dtype=_dtype_of(layer, context),
        block_size=context.requested_block_size,
        use_dcp=context.layout.decode_context_parallel_size > 1,
    )


def attention_backend(layer: AttentionLayer, context: CacheContext) -> AttentionBackend:
    """Return the backend of a decoder's attention.

    Raises:
        Refused: when none supports the layer, or the checkpoint's scales do not fit
            the KV cache dtype; before, when ranks and KV heads do not divide.
    """
    kv_heads_per_rank(layer.num_kv_heads, context.layout)
    config = _config(layer, context)
    if layer.is_inkling:
        return FlashAttention()
    if layer.head_size_v not in (None, layer.head_size):
        backend = _diff_kv_backend(layer, context)
        backend.refuse(config)
    else:
        if layer.attention_chunk_size is None:
            # Chunked attention selects a backend before these are known.
            config = replace(
                config,
                has_sink=layer.has_sinks,
                use_mm_prefix=context.is_mm_prefix_lm,
                has_sliding_window=layer.sliding_window is not None,
            )
        backend = select_backend(config, priorities(config))
    is_quantised = quant_mode(config.kv_cache_dtype) != "none"
    if layer.reference_window is not None and is_quantised:
        raise UnknownArchitecture(
            f"kv_cache_dtype={config.kv_cache_dtype!r}: the kernels that keep prompts "
            "whole and forget what was generated are known for plain caches only."
        )
    if layer.needs_flashinfer and backend.name != FlashInfer.name:
        raise Refused("Flint requires FlashInfer attention")
    if layer.uses_alibi_sqrt and backend.name != _COMPUTES_ALIBI_SQRT:
        raise Refused(f"use_alibi_sqrt is not supported by backend {backend.name}.")
    check_kv_scales(config.kv_cache_dtype, context)
    return backend


def _diff_kv_backend(layer: AttentionLayer, context: CacheContext) -> AttentionBackend:
    """Return the backend of values of another size than keys.

    Source: vLLM 0.33.0 `models/mimo_v2.py` MiMoV2Attention.
    """
    heads = Heads(
        size=layer.head_size,
        size_v=layer.head_size_v,
        has_sinks=layer.has_sinks,
        may_use_head_256=False,
    )
    found = flash_attention.version(context, heads)
    name = "FLASH_ATTN_DIFFKV" if found in (V3, V4) else "TRITON_ATTN_DIFFKV"
    return backends_by_name()[name]


def other_backend(
    layer: CrossAttentionLayer | EncoderOnlyAttentionLayer,
    context: CacheContext,
    *,
    attn_type: str,
) -> AttentionBackend:
    """Return the backend of attention other than a decoder's to its own tokens."""
    config = replace(_config(layer, context), attn_type=attn_type)
    backend = select_backend(config, priorities(config))
    check_kv_scales(config.kv_cache_dtype, context)
    return backend


def attention_spec(layer: AttentionLayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of a decoder's attention.

    Raises:
        Refused: when KV heads and tensor parallel size do not divide each other.
    """
    kv_dtype = _dtype_of(layer, place.context)
    release = place.context.layout.release
    size_v = None if layer.head_size_v == layer.head_size else layer.head_size_v
    may_differ = release.has(_SIZES_VALUES_APART)
    if layer.sliding_window is not None:
        may_differ = release.has(_SIZES_WINDOW_VALUES_APART)
    full = FullAttentionSpec(
        block_size=place.sizes.block_size,
        num_kv_heads=kv_heads_per_rank(layer.num_kv_heads, place.context.layout),
        head_size=layer.head_size,
        head_size_v=size_v if may_differ else None,
        element_bytes=kv_element_bytes(place.context.dtype, kv_dtype),
        kv_quant_mode=quant_mode(kv_dtype),
    )
    if layer.attention_chunk_size is not None:
        if not release.has(_CHUNKED_SPECS):
            return full
        return ChunkedLocalAttentionSpec(
            **_fields(full), attention_chunk_size=layer.attention_chunk_size
        )
    if layer.reference_window is not None:
        full = RSWASpec(**_fields(full), rswa_window=layer.reference_window)
    if layer.num_sink_tokens:
        full = SinkFullAttentionSpec(**_fields(full), sink_len=layer.num_sink_tokens)
    if layer.num_sink_tokens or layer.sliding_window is None:
        return full
    window = SlidingWindowSpec(**_fields(full), sliding_window=layer.sliding_window)
    return _resized(window, place)


def _fields(spec: FullAttentionSpec) -> dict[str, Any]:
    """Return the fields that all attention specs have in common."""
    names = (
        "block_size",
        "num_kv_heads",
        "head_size",
        "head_size_v",
        "element_bytes",
        "kv_quant_mode",
    )
    return {name: getattr(spec, name) for name in names}


def _resized(window: SlidingWindowSpec, place: CachePlace) -> SlidingWindowSpec:
    """Return the window with the largest blocks that fit in a page of full attention.

    Source: vLLM 0.33.0 `layers/attention/attention.py` get_kv_cache_spec,
    _largest_kernel_block_within.
    """
    backend, sizes = place.backend, place.sizes
    release = place.context.layout.release
    if not release.has(_SIZES_WINDOWS_APART):
        return window
    shared = sizes.skip_page_size_padded_bytes
    token: AttentionSpec = backend.customize_spec(replace(window, block_size=1))
    token_bytes = token.unpadded_page_size_bytes
    budget = shared or token_bytes * sizes.block_size
    fitting = budget // token_bytes
    if not release.has(_FILLS_PAGES_OF_WINDOWS):
        fitting = 0 if shared is None else fitting
    allowed = [
        max(s.base, fitting // s.base * s.base) if isinstance(s, MultipleOf) else s
        for s in backend.kernel_block_sizes(place.context, token)
    ]
    if not allowed:
        size = sizes.block_size
    else:
        size = max((s for s in allowed if s <= fitting), default=min(allowed))
    return replace(window, block_size=size, page_size_padded_bytes=shared)


def cross_attention_spec(layer: CrossAttentionLayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of a decoder's cross-attention."""
    kv_dtype = _dtype_of(layer, place.context)
    return CrossAttentionSpec(
        block_size=place.sizes.block_size,
        num_kv_heads=kv_heads_per_rank(layer.num_kv_heads, place.context.layout),
        head_size=layer.head_size,
        element_bytes=kv_element_bytes(place.context.dtype, kv_dtype),
        kv_quant_mode=quant_mode(kv_dtype),
    )


def no_spec(*_: object) -> None:
    """Return None: an encoder's attention stores nothing between steps."""
    return


FAMILIES = {
    AttentionLayer: CacheFamily(backend=attention_backend, spec=attention_spec),
    CrossAttentionLayer: CacheFamily(
        backend=partial(other_backend, attn_type=ENCODER_DECODER),
        spec=cross_attention_spec,
    ),
    EncoderOnlyAttentionLayer: CacheFamily(
        backend=partial(other_backend, attn_type=ENCODER_ONLY), spec=no_spec
    ),
}
