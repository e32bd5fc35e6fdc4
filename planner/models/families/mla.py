"""Building blocks of multi-head latent attention, which several families share."""

from __future__ import annotations

from typing import ClassVar

from planner.engine.layout import ParallelLayout, divide
from planner.engine.releases.change import Change
from planner.models.caches import IndexerCacheLayer, MLALayer
from planner.models.families.decoder import attention_scales
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_dict, rotary_dim, yarn_rows
from planner.models.layers import (
    ColumnParallelLinear,
    LinearByLayout,
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
)
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen

_INDEXER_BLOCK = 128
"""Elements of an index key that share a float32 scale."""
_FLOAT32_ROPE = Change(
    since=(0, 14),
    what="FlashInfer may rotate DeepSeek's stretched positions, in float32.",
    source=(
        "vLLM 0.14.0 `layers/rotary_embedding/deepseek_scaling_rope.py` "
        "(use_flashinfer)"
    ),
)


@frozen
class LatentShape:
    """Dimensions of one attention layer, by the names of the config."""

    hidden_size: int
    num_heads: int
    q_lora_rank: int | None
    """None: queries are projected in one step."""
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int

    @property
    def qk_head_dim(self) -> int:
        """Of a query or key before it is compressed."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def kept_size(self) -> int:
        """Elements kept per token: the latent vector and the rotated key."""
        return self.kv_lora_rank + self.qk_rope_head_dim


def latent_shape(facts: Facts) -> LatentShape:
    """Read the usual fields of latent attention."""
    return LatentShape(
        hidden_size=facts.integer("hidden_size"),
        num_heads=facts.integer("num_attention_heads"),
        q_lora_rank=facts.optional_integer("q_lora_rank"),
        kv_lora_rank=facts.integer("kv_lora_rank"),
        qk_nope_head_dim=facts.integer("qk_nope_head_dim"),
        qk_rope_head_dim=facts.integer("qk_rope_head_dim"),
        v_head_dim=facts.integer("v_head_dim"),
    )


@frozen
class KVUpProjection(LinearByLayout):
    """kv_b_proj, and what vLLM absorbs of it into queries and outputs.

    After loading, an unquantised weight is only viewed differently (W_UK_T, W_UV); a
    quantised one is kept and a copy in the model's dtype is put beside it.

    Source: vLLM 0.33.0 `layers/attention/mla_attention.py`
    process_weights_after_loading, split_kv_b_proj.
    """

    kv_lora_rank: int
    num_heads: int
    head_size: int
    """Rows per head: of the key without its rotated part, and of the value."""
    part: Part = Part.ATTENTION

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the weight, and its copy where that is quantised."""
        linear = self.as_linear(layout).tensors(layout)
        if self.method is None:
            return linear
        heads = divide(self.num_heads, layout.tensor_parallel_size)
        return (*linear, Tensor(self.kv_lora_rank * heads * self.head_size))

    def as_linear(
        self,
        layout: ParallelLayout,  # noqa: ARG002 - as others' may depend on it
    ) -> ColumnParallelLinear:
        """Return vLLM's layer."""
        return ColumnParallelLinear(
            self.name,
            self.part,
            self.kv_lora_rank,
            (self.num_heads * self.head_size,),
            method=self.method,
        )


def latent_attention(
    shape: LatentShape, *, name: str = "self_attn"
) -> tuple[Module, ...]:
    """Return the projections, norms and scales of an attention layer.

    Source: vLLM 0.33.0 `models/deepseek_v2.py` DeepseekV2MLAAttention.
    """
    return (
        *_down_projections(shape, name),
        KVUpProjection(
            name=f"{name}.kv_b_proj",
            kv_lora_rank=shape.kv_lora_rank,
            num_heads=shape.num_heads,
            head_size=shape.qk_nope_head_dim + shape.v_head_dim,
        ),
        RowParallelLinear(
            f"{name}.o_proj",
            Part.ATTENTION,
            shape.num_heads * shape.v_head_dim,
            shape.hidden_size,
        ),
        Replicated(f"{name}.layernorm", Part.NORMS, _norm_shapes(shape)),
        attention_scales(),
    )


def _norm_shapes(shape: LatentShape) -> tuple[tuple[int, ...], ...]:
    if shape.q_lora_rank is None:
        return ((shape.kv_lora_rank,),)
    return ((shape.q_lora_rank,), (shape.kv_lora_rank,))


def _down_projections(shape: LatentShape, name: str) -> tuple[Module, ...]:
    """Return what leads to queries and to the latent vector, on every rank in full."""
    queries = shape.num_heads * shape.qk_head_dim
    if shape.q_lora_rank is None:
        return (
            ReplicatedLinear(
                f"{name}.kv_a_proj_with_mqa",
                Part.ATTENTION,
                shape.hidden_size,
                (shape.kept_size,),
            ),
            ColumnParallelLinear(
                f"{name}.q_proj", Part.ATTENTION, shape.hidden_size, (queries,)
            ),
        )
    return (
        ReplicatedLinear(
            f"{name}.fused_qkv_a_proj",
            Part.ATTENTION,
            shape.hidden_size,
            (shape.q_lora_rank, shape.kept_size),
            shards=("q_a_proj", "kv_a_proj_with_mqa"),
        ),
        ColumnParallelLinear(
            f"{name}.q_b_proj", Part.ATTENTION, shape.q_lora_rank, (queries,)
        ),
    )


@frozen
class IndexerShape:
    """Dimensions of DeepSeek's lightning indexer."""

    num_heads: int
    head_size: int
    topk: int
    """Tokens that it chooses for each query."""

    @property
    def cache(self) -> IndexerCacheLayer:
        """What it keeps: a key of bytes with a float32 scale for each block."""
        scales = self.head_size // _INDEXER_BLOCK
        return IndexerCacheLayer(row_bytes=self.head_size + 4 * scales)


def indexer_shape(facts: Facts) -> IndexerShape:
    """Read the indexer's fields."""
    return IndexerShape(
        num_heads=facts.integer("index_n_heads"),
        head_size=facts.integer("index_head_dim"),
        topk=facts.integer("index_topk"),
    )


def indexer(
    shape: LatentShape, index: IndexerShape, *, name: str = "self_attn.indexer"
) -> tuple[Module, ...]:
    """Return the indexer's projections and its float32 norm, which no rank divides.

    Source: vLLM 0.33.0 `models/deepseek_v32/attention.py` DeepseekV32Indexer.
    """
    return (
        ReplicatedLinear(
            f"{name}.wq_b",
            Part.ATTENTION,
            shape.q_lora_rank or 0,
            (index.num_heads * index.head_size,),
        ),
        ReplicatedLinear(
            f"{name}.wk_weights_proj",
            Part.ATTENTION,
            shape.hidden_size,
            (index.head_size, index.num_heads),
            is_quantizable=False,
        ),
        Replicated(
            f"{name}.k_norm",
            Part.NORMS,
            ((index.head_size,), (index.head_size,)),
            dtype="float32",
        ),
    )


def mla_layer(
    shape: LatentShape,
    *,
    index_topk: int | None = None,
    has_indexer: bool = False,
) -> MLALayer:
    """Return what an attention layer keeps."""
    return MLALayer(
        num_heads=shape.num_heads,
        kv_lora_rank=shape.kv_lora_rank,
        qk_nope_head_dim=shape.qk_nope_head_dim,
        qk_rope_head_dim=shape.qk_rope_head_dim,
        v_head_dim=shape.v_head_dim,
        index_topk=index_topk,
        has_indexer=has_indexer,
    )


def declared_heads(facts: Facts, shape: LatentShape) -> dict[str, int]:
    """Return the heads as vLLM's checks see them, by their fields of a model."""
    return {
        "num_attention_heads": shape.num_heads,
        "num_kv_heads": facts.integer("num_key_value_heads", default=shape.num_heads),
        "head_size": shape.kept_size,
    }


def is_plain_rope(facts: Facts) -> bool:
    """Whether positions are rotated as they are, without scaling."""
    return str(rope_dict(facts)["rope_type"]) == "default"


@frozen
class StretchedRotaryCache:
    """Tables of positions that YaRN stretches, DeepSeek's way.

    They stay in float32 where FlashInfer rotates, which compiled models do not let it.

    Source: vLLM 0.33.0 `layers/rotary_embedding/deepseek_scaling_rope.py`.
    """

    rows: int
    columns: int
    count: int
    name: str = "rotary_emb.cos_sin_cache"
    part: Part = Part.BUFFERS
    is_scaled: ClassVar[bool] = True

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the tables."""
        is_flashinfer = layout.release.has(_FLOAT32_ROPE) and layout.enforce_eager
        dtype = "float32" if is_flashinfer else None
        return (Tensor(self.rows * self.columns, dtype),) * self.count


def latent_rope_cache(
    facts: Facts, dim: int, *, max_position: int, count: int = 1
) -> tuple[Module, ...]:
    """Return the rotary tables; vLLM scales them its own way.

    Whatever scaling the config names, vLLM treats it as YaRN with as many rows as the
    original length times the factor.

    Source: vLLM 0.33.0 `models/deepseek_v2.py` (rope_type deepseek_yarn),
    `layers/rotary_embedding/deepseek_scaling_rope.py`.
    """
    columns = rotary_dim(facts, dim)
    if not is_plain_rope(facts):
        rows = yarn_rows(facts, rope_dict(facts))
        return (StretchedRotaryCache(rows=rows, columns=columns, count=count),)
    return (
        Replicated(
            "rotary_emb.cos_sin_cache", Part.BUFFERS, ((max_position, columns),) * count
        ),
    )
