"""DeepSeek-V4's attention: a window, and before it tokens compressed into fewer."""

from __future__ import annotations

from functools import partial

from planner.engine.generations import WORKSTATION_BLACKWELL
from planner.engine.layout import ParallelLayout, divide
from planner.models.caches import (
    FLASHINFER_HEADS,
    FLASHMLA_HEADS,
    CacheLayer,
    CompressedIndexerLayer,
    CompressedMLALayer,
    CompressorStateLayer,
    SlidingWindowMLALayer,
)
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
)
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen

INDEXED = 4
"""Tokens compressed into one in the layers that choose among them."""
_HALF, _SINGLE = 2, 4


@frozen
class CompressedShape:
    """Dimensions of the attention of all layers."""

    hidden_size: int
    num_heads: int
    head_dim: int
    rope_dim: int
    q_lora_rank: int
    o_lora_rank: int
    o_groups: int
    window: int
    index_heads: int
    index_head_dim: int


@frozen
class AttentionSinks:
    """One float32 per query head, for as many heads as the kernel reads.

    Source: vLLM 0.33.0 `models/deepseek_v4/attention.py` DeepseekV4Attention.
    """

    name: str
    shape: CompressedShape
    ratio: int
    part: Part = Part.ATTENTION

    @property
    def is_indexed(self) -> bool:
        """Whether an indexer chooses among compressed tokens."""
        return self.ratio == INDEXED

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the sinks on a rank."""
        return (Tensor(self.padded_heads(layout), "float32"),)

    def padded_heads(self, layout: ParallelLayout) -> int:
        """Return the heads of a rank's queries and outputs."""
        heads = divide(self.shape.num_heads, layout.tensor_parallel_size)
        return _padded_heads(heads, layout)

    def bytes_per_token(self, layout: ParallelLayout) -> int:
        """Return what attention holds of a token in 16 bits, beside its input.

        Padded queries and outputs; the latent projections, and again with their norm;
        what is to be compressed, in 32 bits, twice where two windows overlap; and the
        indexer's: the same, queries in FP8 with a scale, and weights.

        Source: vLLM 0.33.0 `models/deepseek_v4/attention.py` DeepseekV4Attention.
        """
        shape = self.shape
        held = 2 * _HALF * self.padded_heads(layout) * shape.head_dim
        held += 2 * _HALF * (shape.q_lora_rank + shape.head_dim)
        overlap = 2 if self.is_indexed else 1
        if self.ratio:
            held += 2 * _SINGLE * overlap * shape.head_dim
        if not self.is_indexed:
            return held
        held += 2 * _SINGLE * overlap * shape.index_head_dim
        return held + shape.index_heads * (shape.index_head_dim + _SINGLE + _HALF)


def _padded_heads(heads: int, layout: ParallelLayout) -> int:
    """Return the heads that the kernel reads.

    Source: vLLM 0.33.0 `models/deepseek_v4/nvidia/flashmla.py` and
    `flashinfer_sparse.py` get_padded_num_q_heads.
    """
    is_workstation = layout.compute_capability[0] == WORKSTATION_BLACKWELL.major
    offered = FLASHINFER_HEADS if is_workstation else FLASHMLA_HEADS
    return min((size for size in offered if heads <= size), default=heads)


def compressed_caches(shape: CompressedShape, ratio: int) -> tuple[CacheLayer, ...]:
    """Return what a layer keeps, in the order in which vLLM builds it."""
    window = SlidingWindowMLALayer(head_size=shape.head_dim, window=shape.window)
    if not ratio:
        return (window,)
    compressed = (
        window,
        CompressedMLALayer(head_size=shape.head_dim, compress_ratio=ratio),
        CompressorStateLayer(head_size=shape.head_dim, compress_ratio=ratio),
    )
    if ratio != INDEXED:
        return compressed
    return (
        CompressedIndexerLayer(head_size=shape.index_head_dim, compress_ratio=ratio),
        CompressorStateLayer(head_size=shape.index_head_dim, compress_ratio=ratio),
        *compressed,
    )


def compressed_attention(shape: CompressedShape, ratio: int) -> tuple[Module, ...]:
    """Return projections, sinks, norms and compressors of a layer.

    Source: vLLM 0.33.0 `models/deepseek_v4/attention.py` DeepseekV4Attention.
    """
    hidden, heads = shape.hidden_size, shape.num_heads * shape.head_dim
    column = partial(ColumnParallelLinear, part=Part.ATTENTION)
    modules: tuple[Module, ...] = (
        AttentionSinks(name="attn.attn_sink", shape=shape, ratio=ratio),
        ReplicatedLinear(
            "attn.fused_wqa_wkv",
            Part.ATTENTION,
            hidden,
            (shape.q_lora_rank, shape.head_dim),
            shards=("wq_a", "wkv"),
        ),
        column(name="attn.wq_b", input_size=shape.q_lora_rank, output_sizes=(heads,)),
        column(
            name="attn.wo_a",
            input_size=heads // shape.o_groups,
            output_sizes=(shape.o_groups * shape.o_lora_rank,),
        ),
        RowParallelLinear(
            "attn.wo_b", Part.ATTENTION, shape.o_groups * shape.o_lora_rank, hidden
        ),
        Replicated("attn.norm", Part.NORMS, ((shape.q_lora_rank,), (shape.head_dim,))),
    )
    if ratio:
        modules += _compressor(hidden, shape.head_dim, ratio, "attn.compressor")
    return modules + (_indexer(shape, ratio) if ratio == INDEXED else ())


def _indexer(shape: CompressedShape, ratio: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/deepseek_v4/attention.py` DeepseekV4Indexer."""
    linear = partial(ReplicatedLinear, part=Part.ATTENTION)
    name = "attn.indexer"
    return (
        linear(
            name=f"{name}.wq_b",
            input_size=shape.q_lora_rank,
            output_sizes=(shape.index_heads * shape.index_head_dim,),
        ),
        linear(
            name=f"{name}.weights_proj",
            input_size=shape.hidden_size,
            output_sizes=(shape.index_heads,),
            is_quantizable=False,
        ),
        *_compressor(
            shape.hidden_size, shape.index_head_dim, ratio, f"{name}.compressor"
        ),
    )


def _compressor(
    hidden_size: int, head_size: int, ratio: int, name: str
) -> tuple[Module, ...]:
    """Return what makes one key of several; the lighter kind overlaps by one group.

    Source: vLLM 0.33.0 `models/deepseek_v4/compressor.py` DeepseekCompressor.
    """
    width = head_size * (2 if ratio == INDEXED else 1)
    return (
        Replicated(f"{name}.ape", Part.ATTENTION, ((ratio, width),), dtype="float32"),
        ReplicatedLinear(
            f"{name}.fused_wkv_wgate",
            Part.ATTENTION,
            hidden_size,
            (width, width),
            shards=("wkv", "wgate"),
            is_quantizable=False,
        ),
        Replicated(f"{name}.norm", Part.NORMS, ((head_size,),)),
    )
