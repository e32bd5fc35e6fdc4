"""What an attention backend supports, and the interface of a family of caches.

Each backend is a class under vLLM's name that overrides what differs from the defaults
here. The backends of attention are in `attention_backends`, those of other families
beside it.

Source: vLLM 0.33.0 `v1/attention/backend.py` AttentionBackend,
`v1/attention/selector.py` AttentionSelectorConfig.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from planner.engine.generations import ADA, AMPERE
from planner.engine.releases.change import Change
from planner.errors import Refused
from planner.memory.kv_cache.cache_context import BlockSizes, CacheContext
from planner.memory.kv_cache.kv_spec import AttentionSpec, KVCacheSpec, MultipleOf
from planner.memory.kv_cache.layout import KVCacheLayout
from planner.values import frozen

PLAIN = ("auto", "float16", "bfloat16")
"""KV cache dtypes that are not quantised."""
DECODER = "decoder"
ENCODER_ONLY = "encoder_only"
ENCODER_DECODER = "encoder_decoder"


def is_quantized(kv_cache_dtype: str) -> bool:
    """Whether a KV cache dtype is quantised.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` is_quantized_kv_cache.
    """
    return kv_cache_dtype not in PLAIN


@frozen
class AttentionSelectorConfig:
    """What a layer requires of a backend, under vLLM's names.

    Source: vLLM 0.33.0 `v1/attention/selector.py` AttentionSelectorConfig.
    """

    context: CacheContext
    """The deployment of the layer."""
    head_size: int
    dtype: str
    kv_cache_dtype: str
    block_size: int | None = None
    use_mla: bool = False
    has_sink: bool = False
    use_sparse: bool = False
    use_mm_prefix: bool = False
    attn_type: str = DECODER
    has_sliding_window: bool = False
    use_dcp: bool = False

    def __str__(self) -> str:
        """Return the text that vLLM prints for it."""
        return (
            f"AttentionSelectorConfig(head_size={self.head_size}, "
            f"dtype=torch.{self.dtype}, kv_cache_dtype={self.kv_cache_dtype}, "
            f"block_size={self.block_size}, use_mla={self.use_mla}, "
            f"has_sink={self.has_sink}, use_sparse={self.use_sparse}, "
            f"use_mm_prefix={self.use_mm_prefix}, "
            "use_per_head_quant_scales=False, "
            f"attn_type=AttentionType.{self.attn_type.upper()}, "
            f"has_sliding_window={self.has_sliding_window}, use_non_causal=False, "
            "use_batch_invariant=False, use_kv_connector=False, "
            "use_adaptive_verification=False, use_pcp=False, "
            f"use_dcp={self.use_dcp}, use_rswa=False)"
        )


class AttentionBackend:
    """An attention backend; its methods refer to one layer on one GPU."""

    name: ClassVar[str]
    dtypes: ClassVar[tuple[str, ...]] = ("float16", "bfloat16")
    kv_cache_dtypes: ClassVar[tuple[str, ...]] = PLAIN
    head_sizes: ClassVar[tuple[int, ...]] = ()
    """Empty: any."""
    attn_types: ClassVar[tuple[str, ...]] = (DECODER,)
    block_sizes: ClassVar[tuple[int | MultipleOf, ...]] = (MultipleOf(base=1),)
    is_mla: ClassVar[bool] = False
    is_sparse: ClassVar[bool] = False
    is_ssm: ClassVar[bool] = False
    """Whether it serves state-space layers; it then does not affect the block size."""
    change: ClassVar[Change | None] = None
    """When vLLM considers it by default; None: in every release."""
    has_sliding_window: ClassVar[bool] = False
    has_dcp: ClassVar[bool] = False
    has_mm_prefix: ClassVar[bool] = False
    """Whether parts of a prompt may attend in both directions, on any GPU."""
    has_sink: ClassVar[bool] = False
    """Whether it supports a learned sink per head, on any GPU."""
    own_layouts: ClassVar[tuple[KVCacheLayout, ...] | None] = None
    """The layouts that its kernels support, preferred first; None: any."""

    def __eq__(self, other: object) -> bool:
        """Backends of one class are equal."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        """Hash by class."""
        return hash(type(self))

    def supports_head_size(self, head_size: int, context: CacheContext) -> bool:
        """Whether it supports heads of that size."""
        return not self.head_sizes or head_size in self.head_sizes

    def supports_dtype(self, dtype: str) -> bool:
        """Whether it supports activations of that dtype."""
        return dtype in self.dtypes

    def supports_kv_cache_dtype(self, dtype: str, context: CacheContext) -> bool:
        """Whether it reads a KV cache of that dtype."""
        return dtype in self.kv_cache_dtypes

    def kernel_block_sizes(
        self, context: CacheContext, spec: KVCacheSpec | None = None
    ) -> tuple[int | MultipleOf, ...]:
        """Return the block sizes that its kernels support."""
        return self.block_sizes

    def supports_block_size(self, size: int | None, context: CacheContext) -> bool:
        """Whether blocks of that size can be split into its kernels' blocks."""
        sizes = self.kernel_block_sizes(context)
        if size is None or not sizes:
            return True
        return any(size % _base(s) == 0 for s in sizes)

    def preferred_block_size(self, default: int, context: CacheContext) -> int:
        """Return its block size when the user sets none."""
        sizes = self.kernel_block_sizes(context)
        if not sizes or self.supports_block_size(default, context):
            return default
        return min(_base(size) for size in sizes)

    def supports_mm_prefix(self, context: CacheContext) -> bool:
        """Whether parts of a prompt may attend in both directions."""
        return self.has_mm_prefix

    def supports_sink(self, context: CacheContext) -> bool:
        """Whether it supports a learned sink per head."""
        return self.has_sink

    def supports_compute_capability(self, capability: tuple[int, int]) -> bool:
        """Whether it runs on GPUs of that compute capability."""
        return True

    def combination_reason(self, config: AttentionSelectorConfig) -> str | None:
        """Return why it refuses a combination of supported features, or None."""
        return None

    def invalid_reasons(self, config: AttentionSelectorConfig) -> tuple[str, ...]:
        """Return why it refuses a layer, in vLLM's words and order.

        Source: vLLM 0.33.0 `v1/attention/backend.py` validate_configuration.
        """
        context = config.context
        mla = f"{'' if config.use_mla else 'non-'}MLA"
        sparse = f"{'' if config.use_sparse else 'non-'}sparse"
        attn_type = f"attention type AttentionType.{config.attn_type.upper()}"
        supports = {
            "head_size": self.supports_head_size(config.head_size, context),
            "dtype": self.supports_dtype(config.dtype),
            "kv_cache_dtype": self.supports_kv_cache_dtype(
                config.kv_cache_dtype, context
            ),
            "block_size": self.supports_block_size(config.block_size, context),
            "partial multimodal token full attention": (
                not config.use_mm_prefix or self.supports_mm_prefix(context)
            ),
            mla: config.use_mla == self.is_mla,
            "attention sinks": not config.has_sink or self.supports_sink(context),
            sparse: config.use_sparse == self.is_sparse,
            "compute capability": self.supports_compute_capability(
                context.gpu.compute_capability
            ),
            attn_type: config.attn_type in self.attn_types,
            "sliding window": not config.has_sliding_window or self.has_sliding_window,
            "DCP": not config.use_dcp or self.has_dcp,
        }
        reasons = tuple(
            f"{what} not supported" for what in supports if not supports[what]
        )
        reason = self.combination_reason(config)
        return (*reasons, reason) if reason is not None else reasons

    def refuse(self, config: AttentionSelectorConfig) -> None:
        """Refuse what vLLM only detects when it builds the layer.

        Raises:
            Refused: in vLLM's words.
        """

    def customize_spec(self, spec: AttentionSpec) -> AttentionSpec:
        """Return the spec as this backend's kernels store it."""
        return spec

    def stored(self, spec: AttentionSpec, context: CacheContext) -> AttentionSpec:
        """Return the spec as the backend stores it, with the resulting alignment.

        Source: vLLM 0.33.0 `v1/worker/utils.py` customize_attention_spec.
        """
        spec = self.customize_spec(spec)
        sizes = self.kernel_block_sizes(context, spec)
        fixed = [size for size in sizes if isinstance(size, int)]
        if spec.block_stride_alignment is None and sizes and len(fixed) == len(sizes):
            return replace(spec, block_stride_alignment=MultipleOf(base=max(fixed)))
        return spec

    def layouts(self, context: CacheContext) -> tuple[KVCacheLayout, ...] | None:
        """Return the layouts that its kernels support on a GPU, preferred first."""
        return self.own_layouts


def _base(size: int | MultipleOf) -> int:
    return size.base if isinstance(size, MultipleOf) else size


@frozen(kw_only=False)
class CachePlace:
    """Where a layer's cache is: its backend, the deployment, and sizes of blocks."""

    backend: AttentionBackend | Any
    context: CacheContext
    sizes: BlockSizes

    def stored(self, spec: KVCacheSpec | None) -> KVCacheSpec | None:
        """Return the spec as the backend stores it, if there is one."""
        if self.backend is None or not isinstance(spec, AttentionSpec):
            return spec
        return self.backend.stored(spec, self.context)


@frozen
class CacheFamily:
    """The backend and the spec of a class of `planner.models.caches`.

    The first argument of both functions is the layer, an instance of that class.
    """

    backend: Callable[[Any, CacheContext], AttentionBackend | None]
    """Returns the backend or refuses; None: no backend is involved."""
    spec: Callable[[Any, CachePlace], KVCacheSpec | None]
    """Returns what the layer stores, as no backend has changed it; None: nothing."""


def always(
    backend: AttentionBackend,
) -> Callable[[object, CacheContext], AttentionBackend]:
    """Return what answers with one backend for all layers and deployments."""
    return lambda _layer, _context: backend


def refuse_on_older(config: AttentionSelectorConfig, of_fp8: str, of_bf16: str) -> None:
    """Refuse FP8 before Ada and bfloat16 before Ampere, in the words of a backend.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `v1/attention/backends/triton_attn.py` TritonAttentionImpl,
    `v1/attention/backends/mla/triton_mla.py` TritonMLAImpl.
    """
    gpu, dtype = config.context.gpu, config.kv_cache_dtype
    major, minor = gpu.compute_capability
    where = f"{gpu.device_name} (compute capability {major}.{minor})"
    if dtype.startswith("fp8") and gpu.compute_capability < ADA:
        other = "float16" if gpu.compute_capability < AMPERE else "bfloat16"
        raise Refused(
            f"FP8 KV cache is not supported{of_fp8} on {where}; native FP8 (fp8e4nv) "
            f"requires SM89+. Re-run with --kv-cache-dtype {other}."
        )
    if dtype == "bfloat16" and gpu.compute_capability < AMPERE:
        raise Refused(
            f"bfloat16 KV cache is not supported{of_bf16} on {where}; bfloat16 "
            "requires SM80+. Re-run with --kv-cache-dtype float16."
        )
