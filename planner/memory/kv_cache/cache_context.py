"""The deployment, as far as a layer's cache depends on it."""

from __future__ import annotations

from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.models.caches import MLALayer
from planner.values import frozen


@frozen
class CacheContext:
    """The deployment, as far as kernels and KV cache specs depend on it."""

    gpu: GPU
    layout: ParallelLayout
    dtype: str
    """Of weights and activations."""
    kv_cache_dtype: str = "auto"
    """As resolved for all layers; single layers may use another."""
    requested_block_size: int | None = None
    """As set by the user."""
    requested_mamba_block_size: int | None = None
    mamba_cache_dtype: str = "auto"
    """Dtype of the states of recurrent layers; auto: the model's."""
    mamba_ssm_cache_dtype: str = "auto"
    """Dtype of their recurrence; auto: the model's own choice, otherwise as above."""
    gdn_prefill_backend: str | None = None
    """The engine argument of that name."""
    requested_backend: str | None = None
    """The engine argument attention_backend."""
    flash_attention_version: int | None = None
    """Version of FlashAttention for all layers; None: the GPU's default."""
    skip_layers: tuple[str, ...] = ()
    """The engine argument kv_cache_dtype_skip_layers."""
    max_model_len: int = 0
    max_num_batched_tokens: int = 0
    max_num_seqs: int = 0
    num_speculative_tokens: int = 0
    """Draft tokens per step, for which layers with states store more."""
    has_prefix_caching: bool = True
    head_size: int = 0
    """The model's head size, as its config declares it."""
    num_heads: int = 1
    """The model's query heads over all ranks."""
    num_kv_heads: int = 1
    has_softcap: bool = False
    """Whether the config caps attention's logits."""
    is_mm_prefix_lm: bool = False
    """Whether images attend in both directions."""
    has_kv_cache_scales: bool = False
    """Whether the checkpoint's quantisation loads scales of the KV cache."""
    offloads_blocks: bool = False
    """Whether blocks are also moved to CPU memory, which needs heads before tokens."""
    layer_index: int = 0
    """Index of the current layer."""
    latent: MLALayer | None = None
    """The current layer, where its attention is latent."""

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


@frozen
class BlockSizes:
    """Sizes of blocks and pages, common to all layers of a model."""

    block_size: int
    """Tokens in a block of attention."""
    skip_page_size_padded_bytes: int | None = None
    """Page of layers that are excluded from KV cache quantisation."""
    mamba_block_size: int | None = None
    """Tokens in a block of layers with states."""
    mamba_page_size_padded_bytes: int | None = None
    """Page of those layers where it is larger than their states."""
    has_prefill_checkpoints: bool = False
    """Whether prefill kernels save intermediate states."""
