"""The backends of dense multi-head latent attention, where tokens attend to all others.

Source: vLLM 0.33.0 `v1/attention/backends/mla/`, `layers/attention/mla_attention.py`
MLACommonBackend.
"""

from __future__ import annotations

from typing import ClassVar

from planner.engine.generations import DATACENTER_BLACKWELL, HOPPER
from planner.engine.releases.change import Change
from planner.engine.releases.shared import CONSIDERS_CUTLASS, CONSIDERS_FLASHINFER
from planner.memory.kv_cache.backend import (
    PLAIN,
    AttentionBackend,
    AttentionSelectorConfig,
    refuse_on_older,
)
from planner.memory.kv_cache.kv_spec import MultipleOf

_CONSIDERS_TOKENSPEED = Change(
    since=(0, 21),
    what=(
        "vLLM considers TOKENSPEED_MLA for FP8 caches of latent attention with "
        "DeepSeek-R1's sizes on B200."
    ),
)
_TRITON_CHECKS_GPU = Change(
    since=(0, 26),
    what=(
        "TRITON_MLA refuses an FP8 KV cache on GPUs before compute capability 8.9, and "
        "a bfloat16 one before 8.0."
    ),
    source="vLLM 0.26.0 `v1/attention/backends/mla/triton_mla.py` TritonMLAImpl",
)

E4M3 = ("fp8", "fp8_e4m3")
_FLASHINFER_NOPE = (64, 128, 192)
_R1_SIZES = (128, 64, 128)
"""qk_nope_head_dim, qk_rope_head_dim and v_head_dim of DeepSeek-R1."""


class LatentBackend(AttentionBackend):
    """What the backends of latent attention have in common."""

    kv_cache_dtypes: ClassVar[tuple[str, ...]] = (*PLAIN, *E4M3)
    head_sizes: ClassVar[tuple[int, ...]] = (320, 512, 576)
    majors: ClassVar[tuple[int, ...]] = ()
    """Major compute capabilities on which it runs; empty: all."""
    is_mla = True
    has_dcp = True

    def supports_compute_capability(self, capability: tuple[int, int]) -> bool:
        """Whether it runs on GPUs of that compute capability."""
        return not self.majors or capability[0] in self.majors


class FlashAttentionMLA(LatentBackend):
    """FLASH_ATTN_MLA.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/flashattn_mla.py`.
    """

    name = "FLASH_ATTN_MLA"
    kv_cache_dtypes = PLAIN
    block_sizes = (MultipleOf(base=16),)
    majors = (HOPPER.major,)

    def combination_reason(
        self,
        config: AttentionSelectorConfig,
    ) -> str | None:
        """Return why it refuses: FlashAttention 3 runs only on Hopper."""
        if config.context.major == HOPPER.major:
            return None
        return "FlashAttention MLA not supported on this device"


class FlashMLA(LatentBackend):
    """FLASHMLA.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/flashmla.py`,
    `v1/attention/ops/flashmla.py`.
    """

    name = "FLASHMLA"
    block_sizes = (64,)
    majors = (HOPPER.major, DATACENTER_BLACKWELL.major)

    def combination_reason(self, config: AttentionSelectorConfig) -> str | None:
        """Return why it refuses: its kernels run on Hopper, some also on Blackwell."""
        if config.use_sparse and config.context.major not in self.majors:
            return (
                "FlashMLA Sparse is only supported on Hopper and Blackwell DC devices."
            )
        if not config.use_sparse and config.context.major != HOPPER.major:
            return "FlashMLA Dense is only supported on Hopper devices."
        return None


class FlashInferMLA(LatentBackend):
    """FLASHINFER_MLA.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/flashinfer_mla.py`.
    """

    name = "FLASHINFER_MLA"
    change = CONSIDERS_FLASHINFER
    block_sizes = (32, 64)
    majors = (DATACENTER_BLACKWELL.major,)

    def combination_reason(
        self,
        config: AttentionSelectorConfig,
    ) -> str | None:
        """Return why it refuses: it supports three key sizes."""
        layer = config.context.latent
        size = 1 if layer is None else layer.qk_nope_head_dim
        if size in _FLASHINFER_NOPE:
            return None
        return (
            "FlashInfer MLA kernel requires qk_nope_head_dim "
            f"in [64, 128, 192], but got {size}"
        )


class CutlassMLA(LatentBackend):
    """CUTLASS_MLA.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/cutlass_mla.py`.
    """

    name = "CUTLASS_MLA"
    change = CONSIDERS_CUTLASS
    block_sizes = (128,)
    majors = (DATACENTER_BLACKWELL.major,)


class TokenspeedMLA(LatentBackend):
    """TOKENSPEED_MLA.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/tokenspeed_mla.py`.
    """

    name = "TOKENSPEED_MLA"
    change = _CONSIDERS_TOKENSPEED
    kv_cache_dtypes = E4M3
    block_sizes = (32, 64)
    majors = (DATACENTER_BLACKWELL.major,)

    def combination_reason(
        self,
        config: AttentionSelectorConfig,
    ) -> str | None:
        """Return why it refuses: it supports only DeepSeek-R1's sizes."""
        layer = config.context.latent
        sizes = (0, 0, 0)
        if layer is not None:
            sizes = (layer.qk_nope_head_dim, layer.qk_rope_head_dim, layer.v_head_dim)
        if sizes == _R1_SIZES:
            return None
        return (
            "tokenspeed_mla requires DeepSeek R1 MLA dimensions "
            "(qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128), "
            f"got {sizes}"
        )


class TritonMLA(LatentBackend):
    """TRITON_MLA.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/triton_mla.py`.
    """

    name = "TRITON_MLA"
    head_sizes = ()
    block_sizes = (MultipleOf(base=16),)

    def refuse(self, config: AttentionSelectorConfig) -> None:
        """Refuse FP8 before Ada and bfloat16 before Ampere.

        Raises:
            Refused: in vLLM's words.

        Source: vLLM 0.33.0 `v1/attention/backends/mla/triton_mla.py` TritonMLAImpl.
        """
        if config.context.layout.release.has(_TRITON_CHECKS_GPU):
            own = " by the Triton MLA backend"
            refuse_on_older(config, own, own)
