"""What a layer's cache depends on besides the layer itself."""

from __future__ import annotations

from dataclasses import dataclass

from planner.caches import MLALayer
from planner.gpu import GPU
from planner.parallel import ParallelLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheContext:
    """The deployment, as far as kernels and KV cache specs depend on it."""

    gpu: GPU
    layout: ParallelLayout
    dtype: str
    """Of weights and activations."""
    kv_cache_dtype: str = "auto"
    """As resolved for all layers; a layer may heed another."""
    asked_block_size: int | None = None
    """What the user typed."""
    asked_mamba_block_size: int | None = None
    mamba_cache_dtype: str = "auto"
    """Of the states of recurrent layers; auto: that of the model."""
    mamba_ssm_cache_dtype: str = "auto"
    """Of their recurrence; auto: the model's own choice, else as above."""
    gdn_prefill_backend: str | None = None
    """The engine argument of that name."""
    asked_backend: str | None = None
    """The engine argument attention_backend."""
    flash_attention_version: int | None = None
    """Which release of FlashAttention all layers shall use; None: the GPU's own."""
    skip_layers: tuple[str, ...] = ()
    """The engine argument kv_cache_dtype_skip_layers."""
    max_model_len: int = 0
    max_num_batched_tokens: int = 0
    max_num_seqs: int = 0
    num_speculative_tokens: int = 0
    """Tokens guessed ahead, for which layers with states keep more."""
    has_prefix_caching: bool = True
    head_size: int = 0
    """The model's, as its config declares it."""
    num_heads: int = 1
    """The model's query heads over all ranks."""
    num_kv_heads: int = 1
    has_softcap: bool = False
    """Whether the config caps attention's logits."""
    is_mm_prefix_lm: bool = False
    """Whether images attend in both directions."""
    has_per_head_scales: bool = False
    """Whether the checkpoint scales K and V by head."""
    has_kv_cache_scales: bool = False
    """Whether the checkpoint's method loads scales of the KV cache."""
    hands_blocks_over: bool = False
    """Whether blocks go to host memory as well, which wants heads before tokens."""
    layer_index: int = 0
    """Of the layer in question."""
    latent: MLALayer | None = None
    """The layer in question, where its attention is latent."""

    @property
    def major(self) -> int:
        """Major compute capability."""
        return self.gpu.compute_capability[0]

    @property
    def num_heads_per_rank(self) -> int:
        """The model's query heads on one rank."""
        return self.num_heads // self.layout.tensor_parallel_size

    @property
    def num_kv_heads_per_rank(self) -> int:
        """The model's KV heads on one rank, at least one."""
        return max(1, self.num_kv_heads // self.layout.tensor_parallel_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSizes:
    """Sizes of blocks and pages that all layers of a model agree on."""

    block_size: int
    """Tokens in a block of attention."""
    skip_page_size_padded_bytes: int | None = None
    """Page of layers left out of KV cache quantisation."""
    mamba_block_size: int | None = None
    """Tokens in a block of layers that keep states."""
    mamba_page_size_padded_bytes: int | None = None
    """Page of those layers where it is larger than their states."""
    has_prefill_checkpoints: bool = False
    """Whether prefill kernels save states on their way."""
