"""What vLLM asks an attention backend before it takes it.

Each backend is a class under vLLM's name with the answers that differ from these; they
lie in `attention_backends`, and those of other families beside them.

Source: vLLM 0.33.0 `v1/attention/backend.py` AttentionBackend,
`v1/attention/selector.py` AttentionSelectorConfig.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from planner.memory.cache_context import CacheContext
from planner.memory.kv_layout import KVCacheLayout
from planner.memory.kv_spec import AttentionSpec, KVCacheSpec, MultipleOf

PLAIN = ("auto", "float16", "bfloat16")
"""KV cache dtypes that change nothing."""
DECODER = "decoder"
ENCODER_ONLY = "encoder_only"
ENCODER_DECODER = "encoder_decoder"


def _printed(attn_type: str) -> str:
    return f"AttentionType.{attn_type.upper()}"


def is_quantized(kv_cache_dtype: str) -> bool:
    """Whether a KV cache dtype packs values.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` is_quantized_kv_cache.
    """
    return kv_cache_dtype not in PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSelectorConfig:
    """What one layer asks of a backend, by vLLM's names.

    Source: vLLM 0.33.0 `v1/attention/selector.py` AttentionSelectorConfig.
    """

    head_size: int
    dtype: str
    kv_cache_dtype: str
    block_size: int | None = None
    use_mla: bool = False
    has_sink: bool = False
    use_sparse: bool = False
    use_mm_prefix: bool = False
    use_per_head_quant_scales: bool = False
    attn_type: str = DECODER
    has_sliding_window: bool = False
    use_dcp: bool = False

    def __str__(self) -> str:
        """Return it as vLLM prints it."""
        return (
            f"AttentionSelectorConfig(head_size={self.head_size}, "
            f"dtype=torch.{self.dtype}, kv_cache_dtype={self.kv_cache_dtype}, "
            f"block_size={self.block_size}, use_mla={self.use_mla}, "
            f"has_sink={self.has_sink}, use_sparse={self.use_sparse}, "
            f"use_mm_prefix={self.use_mm_prefix}, "
            f"use_per_head_quant_scales={self.use_per_head_quant_scales}, "
            f"attn_type=AttentionType.{self.attn_type.upper()}, "
            f"has_sliding_window={self.has_sliding_window}, use_non_causal=False, "
            "use_batch_invariant=False, use_kv_connector=False, "
            "use_adaptive_verification=False, use_pcp=False, "
            f"use_dcp={self.use_dcp}, use_rswa=False)"
        )


class AttentionBackend:
    """A backend, by what it answers; the methods ask about one layer on one GPU."""

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
    """Of a state-space layer: it has no say in the size of blocks."""
    came_with: ClassVar[tuple[int, int, int]] = (0, 0, 0)
    """The first release that tries it unless told otherwise."""
    has_sliding_window: ClassVar[bool] = False
    has_dcp: ClassVar[bool] = False

    def __eq__(self, other: object) -> bool:
        """Two of one class are the same backend."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        """Hash by class."""
        return hash(type(self))

    def supports_head_size(self, head_size: int, context: CacheContext) -> bool:  # noqa: ARG002
        """Whether it takes heads of that size."""
        return not self.head_sizes or head_size in self.head_sizes

    def supports_dtype(self, dtype: str) -> bool:
        """Whether it takes activations of that dtype."""
        return dtype in self.dtypes

    def supports_kv_cache_dtype(self, dtype: str, context: CacheContext) -> bool:  # noqa: ARG002
        """Whether it reads a KV cache of that dtype."""
        return dtype in self.kv_cache_dtypes

    def kernel_block_sizes(
        self,
        context: CacheContext,  # noqa: ARG002
        spec: KVCacheSpec | None = None,  # noqa: ARG002
    ) -> tuple[int | MultipleOf, ...]:
        """Return the sizes of blocks that its kernels take."""
        return self.block_sizes

    def supports_block_size(self, size: int | None, context: CacheContext) -> bool:
        """Whether blocks of that size can be split into its own."""
        sizes = self.kernel_block_sizes(context)
        if size is None or not sizes:
            return True
        return any(size % _base(s) == 0 for s in sizes)

    def preferred_block_size(self, default: int, context: CacheContext) -> int:
        """Return the size it takes when the user gives none."""
        sizes = self.kernel_block_sizes(context)
        if not sizes or self.supports_block_size(default, context):
            return default
        return min(_base(size) for size in sizes)

    def supports_mm_prefix(self, context: CacheContext) -> bool:  # noqa: ARG002
        """Whether parts of a prompt may attend in both directions."""
        return False

    def supports_sink(self, context: CacheContext) -> bool:  # noqa: ARG002
        """Whether it does a learned sink per head."""
        return False

    def supports_per_head_quant_scales(self, context: CacheContext) -> bool:  # noqa: ARG002
        """Whether it reads a KV cache scaled by head."""
        return False

    def supports_compute_capability(self, capability: tuple[int, int]) -> bool:  # noqa: ARG002
        """Whether it runs on GPUs of that compute capability."""
        return True

    def combination_reason(
        self,
        config: AttentionSelectorConfig,  # noqa: ARG002
        context: CacheContext,  # noqa: ARG002
    ) -> str | None:
        """Return why it refuses what it takes piece by piece; None when it does not."""
        return None

    def invalid_reasons(
        self, config: AttentionSelectorConfig, context: CacheContext
    ) -> tuple[str, ...]:
        """Return why it refuses a layer, in vLLM's words and order.

        Source: vLLM 0.33.0 `v1/attention/backend.py` validate_configuration.
        """
        checks = (
            (
                self.supports_head_size(config.head_size, context),
                "head_size not supported",
            ),
            (self.supports_dtype(config.dtype), "dtype not supported"),
            (
                self.supports_kv_cache_dtype(config.kv_cache_dtype, context),
                "kv_cache_dtype not supported",
            ),
            (
                self.supports_block_size(config.block_size, context),
                "block_size not supported",
            ),
            (
                not config.use_mm_prefix or self.supports_mm_prefix(context),
                "partial multimodal token full attention not supported",
            ),
            (
                config.use_mla == self.is_mla,
                f"{'' if config.use_mla else 'non-'}MLA not supported",
            ),
            (
                not config.has_sink or self.supports_sink(context),
                "attention sinks not supported",
            ),
            (
                config.use_sparse == self.is_sparse,
                f"{'' if config.use_sparse else 'non-'}sparse not supported",
            ),
            (
                not config.use_per_head_quant_scales
                or self.supports_per_head_quant_scales(context),
                "per-head quant scales not supported",
            ),
            (
                self.supports_compute_capability(context.gpu.compute_capability),
                "compute capability not supported",
            ),
            (
                config.attn_type in self.attn_types,
                f"attention type {_printed(config.attn_type)} not supported",
            ),
            (
                not config.has_sliding_window or self.has_sliding_window,
                "sliding window not supported",
            ),
            (not config.use_dcp or self.has_dcp, "DCP not supported"),
        )
        reasons = tuple(reason for is_fine, reason in checks if not is_fine)
        reason = self.combination_reason(config, context)
        return (*reasons, reason) if reason is not None else reasons

    def refuse(self, config: AttentionSelectorConfig, context: CacheContext) -> None:
        """Refuse what vLLM only finds out when it builds the layer.

        Raises:
            Refused: in vLLM's words.
        """

    def customize_spec(self, spec: AttentionSpec) -> AttentionSpec:
        """Return the spec as this backend's kernels pack it."""
        return spec

    def layouts(self, context: CacheContext) -> tuple[KVCacheLayout, ...] | None:  # noqa: ARG002
        """Return the layouts its kernels read, most preferred first; None: any."""
        return None


def _base(size: int | MultipleOf) -> int:
    return size.base if isinstance(size, MultipleOf) else size


def customized(
    spec: AttentionSpec, backend: AttentionBackend, context: CacheContext
) -> AttentionSpec:
    """Return the spec as packed by its backend, with the alignment that follows.

    Source: vLLM 0.33.0 `v1/worker/utils.py` customize_attention_spec.
    """
    spec = backend.customize_spec(spec)
    sizes = backend.kernel_block_sizes(context, spec)
    fixed = [size for size in sizes if isinstance(size, int)]
    if spec.block_stride_alignment is None and sizes and len(fixed) == len(sizes):
        return replace(spec, block_stride_alignment=MultipleOf(base=max(fixed)))
    return spec
