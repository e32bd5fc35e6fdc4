"""Which attention backend vLLM picks for a layer, and the order it tries them in.

Source: vLLM 0.33.0 `platforms/cuda.py` _get_backend_priorities and
get_attn_backend_cls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.errors import Refused, UnknownArchitecture
from planner.gpu import GPU
from planner.layers import Module, Part, Replicated
from planner.memory import cpu_attention
from planner.memory.attention_backends import (
    FlashAttention,
    FlashAttentionDiffKV,
    FlashInfer,
    FlexAttention,
    TritonAttention,
    TritonAttentionDiffKV,
    TurboQuant,
)
from planner.memory.backend import AttentionBackend, AttentionSelectorConfig
from planner.memory.cache_context import CacheContext
from planner.memory.composite_backends import TritonFlashAttention, TritonFlashInfer
from planner.parallel import DATACENTER_BLACKWELL, HOPPER

_REST = (TritonAttention(), FlexAttention(), TurboQuant())
BACKENDS_BY_NAME: dict[str, AttentionBackend] = {
    backend.name: backend
    for backend in (
        FlashAttention(),
        FlashInfer(),
        *_REST,
        TritonFlashAttention(),
        TritonFlashInfer(),
        FlashAttentionDiffKV(),
        TritonAttentionDiffKV(),
    )
}


def priorities(
    config: AttentionSelectorConfig, context: CacheContext
) -> tuple[AttentionBackend, ...]:
    """Return the backends of attention that is not MLA, in vLLM's order."""
    if context.major == DATACENTER_BLACKWELL:
        first = (TritonFlashInfer(),) if config.use_mm_prefix else ()
        return (*first, FlashInfer(), FlashAttention(), *_REST)
    composite = context.major == HOPPER and config.use_mm_prefix
    before = (TritonFlashAttention(),) if composite else ()
    return (*before, FlashAttention(), FlashInfer(), *_REST)


def select_backend(
    config: AttentionSelectorConfig,
    context: CacheContext,
    candidates: Sequence[AttentionBackend],
    named: Mapping[str, AttentionBackend] = BACKENDS_BY_NAME,
) -> AttentionBackend:
    """Return the first candidate that accepts the layer, or the one asked for.

    `named` are the backends that may be asked for.

    Raises:
        Refused: when none does, with each one's reasons in vLLM's words.
        UnknownArchitecture: for an attention_backend that is not modelled.
    """
    if context.gpu.is_cpu:
        return cpu_attention.select(config, context)
    if context.asked_backend is not None:
        return _asked(config, context, named.get(context.asked_backend.upper()))
    reasons = {}
    release = context.layout.release
    for backend in candidates:
        if not release.since(*backend.came_with):
            continue
        found = backend.invalid_reasons(config, context)
        if not found:
            backend.refuse(config, context)
            return backend
        reasons[backend.name] = found
    text = ", ".join(f"{name}: [{', '.join(r)}]" for name, r in reasons.items())
    raise Refused(
        f"No valid attention backend found for cuda with {config}. Reasons: {{{text}}}."
    )


def _asked(
    config: AttentionSelectorConfig,
    context: CacheContext,
    backend: AttentionBackend | None,
) -> AttentionBackend:
    if backend is None:
        raise UnknownArchitecture(
            f"attention_backend={context.asked_backend!r} is not modelled for this "
            "layer yet. Leave it out."
        )
    reasons = backend.invalid_reasons(config, context)
    if reasons:
        raise Refused(
            f"Selected backend AttentionBackendEnum.{backend.name} is not valid for "
            f"this configuration. Reason: {list(reasons)}"
        )
    backend.refuse(config, context)
    return backend


def check_kv_scales(kv_cache_dtype: str, context: CacheContext) -> None:
    """Refuse the other FP8 where attention layers load scales of the KV cache.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `layers/attention/attention.py` _init_kv_cache_quant.
    """
    if kv_cache_dtype == "fp8_e5m2" and context.has_kv_cache_scales:
        raise Refused("fp8_e5m2 kv-cache is not supported with fp8 checkpoints.")


def kernel_buffers(
    backend: AttentionBackend, *, max_num_batched_tokens: int, num_heads: int, gpu: GPU
) -> tuple[Module, ...]:
    """Return what the backend allocates on a rank while the model is built.

    FlashInfer keeps one counter of 4 bytes per token and query head, for all layers.

    Source: vLLM 0.33.0 `v1/attention/backends/flashinfer.py` FlashInferImpl.__init__;
    FlashInfer `utils.py` get_trtllm_gen_multi_ctas_kv_counter_bytes.
    """
    if not isinstance(backend, FlashInfer | TritonFlashInfer):
        return ()
    counters = max(max_num_batched_tokens * num_heads, gpu.num_sms or 0)
    rounded = -(-counters // 8) * 8
    return (
        Replicated(
            name="multi_ctas_kv_counter",
            part=Part.BUFFERS,
            shapes=((rounded,),),
            dtype="int32",
        ),
    )
