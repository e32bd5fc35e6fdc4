"""Which version of FlashAttention serves a layer, and what each version supports.

Source: vLLM 0.33.0 `v1/attention/backends/fa_utils.py`.
"""

from __future__ import annotations

from dataclasses import replace

from planner.engine.generations import AMPERE, DATACENTER_BLACKWELL, HOPPER
from planner.engine.releases.change import Change
from planner.memory.kv_cache.cache_context import CacheContext
from planner.values import frozen

V2, V3, V4 = 2, 3, 4
HEAD_256_PAGE = 128
"""Tokens per page of FlashAttention 4's kernel for heads of 256."""
HEAD_512 = 512
_HEAD_256 = 256
_HAS_V4 = (9, 10, 11)
_HAS_HEAD_256_KERNEL = (10, 11)
_LARGEST_ON_BLACKWELL = 128
_MIXED_HEADS = Change(
    since=(0, 24),
    what="FlashAttention 4 serves heads of several sizes (Gemma 4), where it runs.",
    source="vLLM 0.24.0 `models/config.py` Gemma4Config",
)


@frozen
class Heads:
    """The properties of a layer that determine the version; by default of no layer."""

    size: int | None = None
    size_v: int | None = None
    """Head size of the values; None: that of the keys."""
    has_sinks: bool = False
    block_size: int | None = None
    may_use_head_256: bool = True
    """Whether the caller supports the pages of the kernel for heads of 256."""


NO_HEADS = Heads()


def has_v4(context: CacheContext) -> bool:
    """Whether FlashAttention 4 runs on the GPU."""
    return context.major in _HAS_V4


def uses_head_256_kernel(context: CacheContext, heads: Heads) -> bool:
    """Whether FlashAttention 4 would use its kernel for heads of 256."""
    return (
        heads.size == _HEAD_256
        and heads.size_v in (None, _HEAD_256)
        and context.major in _HAS_HEAD_256_KERNEL
    )


def version(context: CacheContext, heads: Heads = NO_HEADS) -> int | None:
    """Return the version of FlashAttention for a layer; None where none runs.

    Source: vLLM 0.33.0 `v1/attention/backends/fa_utils.py` get_flash_attn_version.
    """
    if context.gpu.compute_capability < AMPERE:
        return None
    if context.kv_cache_dtype.startswith("turboquant_"):
        return V2  # vLLM always uses it beside TurboQuant
    requested = context.flash_attention_version
    if context.major == HOPPER.major:
        return requested or _on_hopper(heads)
    if context.major != DATACENTER_BLACKWELL.major and requested != V4:
        return V2
    if uses_head_256_kernel(context, heads):
        is_served = heads.may_use_head_256 and not _leaves_head_256(context, heads)
        return V4 if is_served else V2
    is_small = (heads.size or 0) <= _LARGEST_ON_BLACKWELL
    return V4 if is_small or (heads.size, heads.size_v) == (192, 128) else V2


def for_mixed_head_sizes(context: CacheContext) -> CacheContext:
    """Return the deployment of a model whose layers have heads of several sizes.

    All layers use FlashAttention 4 where it runs, Triton elsewhere, unless the user
    sets a backend.

    Source: vLLM 0.33.0 `models/config.py` Gemma4Config.
    """
    if not (has_v4(context) and context.layout.release.has(_MIXED_HEADS)):
        backend = context.requested_backend or "TRITON_ATTN"
        return replace(context, requested_backend=backend)
    is_flash = context.requested_backend in (None, "FLASH_ATTN")
    chooses = context.major == HOPPER.major and context.kv_cache_dtype.startswith("fp8")
    if not is_flash or chooses:
        return context
    return replace(context, flash_attention_version=V4)


def reads_fp8(context: CacheContext, heads: Heads = NO_HEADS) -> bool:
    """Whether FlashAttention reads a KV cache of FP8 E4M3.

    Source: vLLM 0.33.0 `v1/attention/backends/fa_utils.py`
    flash_attn_supports_kv_cache_dtype.
    """
    found = version(context, heads)
    if context.major == HOPPER.major:
        return found == V3 or (found == V4 and heads.size in (None, HEAD_512))
    return context.major == DATACENTER_BLACKWELL.major and found == V4


def _on_hopper(heads: Heads) -> int:
    is_diff = heads.size_v is not None and heads.size_v != heads.size
    is_large = (heads.size or 0) > _HEAD_256
    return V4 if is_large or (heads.has_sinks and is_diff) else V3


def _leaves_head_256(context: CacheContext, heads: Heads) -> bool:
    has_other_pages = heads.block_size is not None and heads.block_size % HEAD_256_PAGE
    return (
        heads.has_sinks
        or context.has_softcap
        or context.kv_cache_dtype not in ("auto", "float16", "bfloat16")
        or bool(has_other_pages)
        or context.is_mm_prefix_lm
        or context.layout.decode_context_parallel_size > 1
    )
