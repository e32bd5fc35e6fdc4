"""What layers keep between steps, from which the KV cache is made.

One class per kind of layer, under the name of vLLM's class; `planner.memory` turns
them into KV cache specs.
"""

from __future__ import annotations

from planner.models.states import StateLayer
from planner.values import frozen


@frozen
class AttentionLayer:
    """The attention of a layer, as far as it keeps a KV cache.

    Source: vLLM 0.33.0 `layers/attention/attention.py` Attention.
    """

    num_heads: int
    num_kv_heads: int
    head_size: int
    head_size_v: int | None = None
    """Of the values, where it differs from that of the keys."""
    sliding_window: int | None = None
    """Tokens that the layer attends to; None: all of them."""
    attention_chunk_size: int | None = None
    """Llama 4: tokens of a chunk, beyond which the layer does not attend."""
    has_sinks: bool = False
    """A learned sink per head, which not every kernel supports."""
    num_sink_tokens: int = 0
    """openPangu's learned tokens, kept once, before those of every request."""
    uses_alibi_sqrt: bool = False
    """Step 1's slopes, which only Triton's kernel computes."""
    reference_window: int | None = None
    """Unlimited-OCR: prompts are kept whole, and so many generated tokens."""
    is_mm_prefix: bool = False
    """Images attend in both directions, which not every kernel supports."""
    is_inkling: bool = False
    """Inkling's own attention, which FlashAttention serves on every GPU."""
    needs_flashinfer: bool = False
    """Flint's class writes pages as FlashInfer does, and takes no other kernel."""
    heeds_kv_cache_dtype: bool = True
    """False where vLLM's class does not pass the cache settings on (Falcon): the KV
    cache then keeps the model's dtype whatever `kv_cache_dtype` says."""


@frozen
class CrossAttentionLayer:
    """Attention of a decoder to its encoder's output.

    Source: vLLM 0.33.0 `layers/attention/cross_attention.py` CrossAttention.
    """

    num_heads: int
    num_kv_heads: int
    head_size: int


@frozen
class EncoderOnlyAttentionLayer:
    """Attention of an encoder: it keeps nothing, but needs a kernel that supports it.

    Source: vLLM 0.33.0 `layers/attention/encoder_only_attention.py`.
    """

    num_heads: int
    num_kv_heads: int
    head_size: int


@frozen
class MLALayer:
    """Multi-head latent attention: one compressed vector per token, for all heads.

    Source: vLLM 0.33.0 `layers/attention/mla_attention.py` MLAAttention.
    """

    num_heads: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    index_topk: int | None = None
    """DeepSeek sparse attention: tokens that the indexer chooses."""
    has_indexer: bool = False
    """Whether the layer chooses itself; others take an earlier layer's choice."""
    choice_width: int | None = None
    """Columns of the buffer of choices where a model pads it; it then also keeps the
    places of what is chosen for all tokens of a step (GLM-5.3-Flash)."""

    @property
    def head_size(self) -> int:
        """Elements kept per token."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    @property
    def num_kv_heads(self) -> int:
        """One for all heads, and not divided over ranks."""
        return 1


@frozen
class IndexerCacheLayer:
    """Keys of DeepSeek's lightning indexer: one row of bytes per token.

    Source: vLLM 0.33.0 `models/deepseek_v2.py` DeepseekV32IndexerCache.
    """

    row_bytes: int


FLASHMLA_HEADS = (64, 128)
FLASHINFER_HEADS = (8, 16, 32, 64, 128)
"""Query heads on a rank that kernels of DeepSeek-V4 read."""


@frozen
class SlidingWindowMLALayer:
    """The last tokens of DeepSeek-V4's attention: one vector each, for all heads.

    Source: vLLM 0.33.0 `v1/attention/backends/mla/sparse_swa.py` DeepseekV4SWACache.
    """

    head_size: int
    window: int


@frozen
class CompressedMLALayer:
    """All tokens of DeepSeek-V4's attention, several of them compressed into one.

    Source: vLLM 0.33.0 `models/deepseek_v4/attention.py` DeepseekV4Attention.
    """

    head_size: int
    compress_ratio: int


@frozen
class CompressorStateLayer:
    """The tokens that a compressor has not compressed yet.

    Source: vLLM 0.33.0 `models/deepseek_v4/compressor.py` CompressorStateCache.
    """

    head_size: int
    compress_ratio: int


@frozen
class CompressedIndexerLayer:
    """Keys of DeepSeek-V4's indexer, one for several tokens.

    Source: vLLM 0.33.0 `models/deepseek_v4/attention.py` DeepseekV4IndexerCache.
    """

    head_size: int
    compress_ratio: int


@frozen
class BlockSparseAttentionLayer:
    """MiniMax-M3's attention to blocks that an indexer chooses.

    Source: vLLM 0.33.0 `models/minimax_m3/nvidia/model.py` MiniMaxM3SparseAttention.
    """

    num_heads: int
    num_kv_heads: int
    head_size: int
    topk_blocks: int


@frozen
class IndexKeysLayer:
    """Keys of MiniMax-M3's indexer: one vector a token, for all heads.

    Source: vLLM 0.33.0 `models/minimax_m3/common/indexer.py` MiniMaxM3IndexerCache.
    """

    head_size: int


@frozen
class PooledIndexerLayer:
    """Keys of GLM-5.3-Flash's indexer: one row of bytes for several tokens.

    Source: vLLM 0.33.0 `models/glm5next/common/attention.py` Glm5NextIndexerCache.
    """

    row_bytes: int
    tokens_per_state: int


@frozen
class IndexerTailLayer:
    """Tokens that GLM-5.3-Flash's indexer has not pooled yet.

    Source: vLLM 0.33.0 `models/glm5next/common/attention.py` Glm5NextTailCache.
    """

    head_size: int
    num_tokens: int


@frozen
class ConvolutionStreamsLayer:
    """Inkling's last inputs of a layer's four short convolutions, in pages.

    Source: vLLM 0.33.0 `models/inkling/nvidia/sconv_swa_attn.py` InklingConvState.
    """

    num_kv_heads: int
    head_size: int
    """Of the attention, whose keys and values are two of the inputs."""
    hidden_size: int
    kernel_size: int


@frozen
class SummarisedAttentionLayer:
    """Step 5's sparse attention, whose indexer summarises regions of eight tokens.

    Source: vLLM 0.33.0 `models/step5/nvidia/sparse_attention.py`.
    """

    num_heads: int
    num_kv_heads: int
    head_size: int


@frozen
class RegionSummaryLayer:
    """Step 5's summaries of regions.

    Source: vLLM 0.33.0 `models/step5/nvidia/sparse_summary_cache.py`.
    """

    width: int


@frozen
class RegionTailLayer:
    """Tokens of Step 5's region that is not full yet, on a page of its attention.

    Source: vLLM 0.33.0 `models/step5/nvidia/csa_tail_ring.py` Step5CSATailRing.
    """

    attention: SummarisedAttentionLayer
    width: int


CacheLayer = (
    AttentionLayer
    | CrossAttentionLayer
    | EncoderOnlyAttentionLayer
    | MLALayer
    | IndexerCacheLayer
    | SlidingWindowMLALayer
    | CompressedMLALayer
    | CompressorStateLayer
    | CompressedIndexerLayer
    | BlockSparseAttentionLayer
    | IndexKeysLayer
    | PooledIndexerLayer
    | IndexerTailLayer
    | ConvolutionStreamsLayer
    | SummarisedAttentionLayer
    | RegionSummaryLayer
    | RegionTailLayer
    | StateLayer
)
