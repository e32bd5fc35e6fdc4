"""Building blocks from which the readers put decoders together."""

from __future__ import annotations

from dataclasses import replace

from planner.models.caches import AttentionLayer, EncoderOnlyAttentionLayer
from planner.models.experts import FusedMoE
from planner.models.families.facts import Facts
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    QKNormPerRank,
    QKVParallelLinear,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
    Sharded,
    VocabParallelEmbedding,
)
from planner.values import frozen


@frozen
class AttentionShape:
    """Dimensions and biases of one attention layer."""

    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    head_size_v: int | None = None
    """Of the values, where it differs from that of the keys."""
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm_sizes: tuple[int, ...] = ()
    """Sizes of the norms on query and key, empty without."""
    heeds_kv_cache_dtype: bool = True
    has_gate: bool = False
    """Whether the queries' projection includes a gate of the same size."""
    has_qk_norm_per_rank: bool = False
    """Norms over all heads at once, of which a rank holds its own heads."""


def attention_shape(
    facts: Facts,
    *,
    qkv_bias: bool = False,
    output_bias: bool = False,
    has_qk_norm: bool = False,
) -> AttentionShape:
    """Read the usual fields of grouped-query attention."""
    hidden_size = facts.integer("hidden_size")
    num_heads = facts.integer("num_attention_heads")
    own = facts.optional_integer("head_dim", "attention_head_dim")
    head_size = own or hidden_size // num_heads
    return AttentionShape(
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=facts.integer("num_key_value_heads", default=num_heads),
        head_size=head_size,
        qkv_bias=qkv_bias,
        output_bias=output_bias,
        qk_norm_sizes=(head_size, head_size) if has_qk_norm else (),
    )


def even_shape(facts: Facts) -> AttentionShape:
    """Return grouped-query attention whose heads share the model's width evenly."""
    shape = attention_shape(facts)
    return replace(shape, head_size=shape.hidden_size // shape.num_heads)


def attention(
    shape: AttentionShape, *, name: str = "self_attn.", output: str = "o_proj"
) -> tuple[Module, ...]:
    """Return the projections, scales and query/key norms of an attention layer.

    `name` is put before those of its modules, and `output` is that of the last one.
    """
    modules: tuple[Module, ...] = (
        QKVParallelLinear(
            name=f"{name}qkv_proj",
            input_size=shape.hidden_size,
            # A gate on the output is projected with the queries, and as wide.
            num_heads=shape.num_heads * (2 if shape.has_gate else 1),
            num_kv_heads=shape.num_kv_heads,
            head_size=shape.head_size,
            head_size_v=shape.head_size_v,
            bias=shape.qkv_bias,
        ),
        RowParallelLinear(
            f"{name}{output}",
            Part.ATTENTION,
            shape.num_heads * (shape.head_size_v or shape.head_size),
            shape.hidden_size,
            bias=shape.output_bias,
        ),
        attention_scales(f"{name}attn"),
    )
    if shape.has_qk_norm_per_rank:
        return (*modules, _qk_norm_per_rank(shape))
    if not shape.qk_norm_sizes:
        return modules
    norms = tuple((size,) for size in shape.qk_norm_sizes)
    return (*modules, Replicated(f"{name}qk_norm", Part.NORMS, norms))


def query_attention(shape: AttentionShape) -> tuple[Module, ...]:
    """Return the output and norm of a layer that reads another's keys and values."""
    own = replace(shape, qk_norm_sizes=())
    norm = Replicated("self_attn.q_norm", Part.NORMS, ((shape.head_size,),))
    return (*attention(own)[1:], norm)


def attention_gate(shape: AttentionShape, columns: int) -> ColumnParallelLinear:
    """Return the projection whose output scales that of the attention."""
    return ColumnParallelLinear(
        "self_attn.g_proj", Part.ATTENTION, shape.hidden_size, (columns,)
    )


def _qk_norm_per_rank(shape: AttentionShape) -> QKNormPerRank:
    return QKNormPerRank(
        name="self_attn.qk_norm",
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_size=shape.head_size,
    )


def attention_scales(name: str = "self_attn.attn") -> Replicated:
    """Return the four scales of an attention layer: key, value, query, softmax.

    Source: vLLM 0.33.0 `layers/attention/attention.py` set_default_quant_scales.
    """
    return Replicated(name, Part.BUFFERS, ((), (), (), ()), dtype="float32")


def kv_of(shape: AttentionShape) -> AttentionLayer:
    """Return what the KV cache needs to know of an attention layer."""
    return AttentionLayer(
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_size=shape.head_size,
        head_size_v=shape.head_size_v,
        heeds_kv_cache_dtype=shape.heeds_kv_cache_dtype,
    )


def encoder_only(shape: AttentionShape) -> EncoderOnlyAttentionLayer:
    """Return what a kernel needs to know of attention in both directions."""
    return EncoderOnlyAttentionLayer(
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_size=shape.head_size,
    )


def gated_mlp(
    hidden_size: int,
    intermediate_size: int,
    *,
    bias: bool = False,
    part: Part = Part.MLP,
    name: str = "mlp",
) -> tuple[Module, ...]:
    """Return an MLP with a gate: gate and up merged, then down."""
    return (
        ColumnParallelLinear(
            f"{name}.gate_up_proj",
            part,
            hidden_size,
            (intermediate_size, intermediate_size),
            bias=bias,
            shards=("gate_proj", "up_proj"),
        ),
        RowParallelLinear(
            f"{name}.down_proj", part, intermediate_size, hidden_size, bias=bias
        ),
    )


def plain_mlp(
    hidden_size: int, intermediate_size: int, *, bias: bool = True
) -> tuple[Module, ...]:
    """Return an MLP without a gate: up, then down."""
    return (
        ColumnParallelLinear(
            "mlp.up_proj", Part.MLP, hidden_size, (intermediate_size,), bias=bias
        ),
        RowParallelLinear(
            "mlp.down_proj", Part.MLP, intermediate_size, hidden_size, bias=bias
        ),
    )


def sinks(num_heads: int) -> Sharded:
    """Return a learned sink for each head."""
    return Sharded("self_attn.sinks", Part.ATTENTION, ((num_heads,),))


@frozen
class ExpertsShape:
    """Dimensions of a mixture-of-experts block."""

    hidden_size: int
    num_experts: int
    top_k: int
    intermediate_size: int
    shared_intermediate_size: int = 0
    has_shared_gate: bool = False
    router_dtype: str | None = None
    has_correction_bias: bool = False
    is_renormalized: bool = True
    shared_bias: bool = False
    name: str = "mlp"
    """Of the block, as vLLM's class passes it to the quantisation."""
    shared_name: str = "shared_experts"
    router_name: str = "gate"
    is_router_quantizable: bool = False
    """Whether vLLM's class passes the quantisation on to the router."""
    correction_bias_name: str = "gate.e_score_correction_bias"
    bias: bool = False
    """Of the router and of the routed experts."""
    activation: str = "silu"
    shards: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")
    """The checkpoint's names of an expert's layers, ckpt_names in vLLM."""


def experts(shape: ExpertsShape) -> tuple[Module, ...]:
    """Return router, routed experts and shared experts of a block."""
    modules: list[Module] = [
        ReplicatedLinear(
            f"{shape.name}.{shape.router_name}",
            Part.ROUTER,
            shape.hidden_size,
            (shape.num_experts,),
            bias=shape.bias,
            dtype=shape.router_dtype,
            is_quantizable=shape.is_router_quantizable,
        ),
        FusedMoE(
            name=f"{shape.name}.experts",
            num_experts=shape.num_experts,
            top_k=shape.top_k,
            hidden_size=shape.hidden_size,
            intermediate_size=shape.intermediate_size,
            is_renormalized=shape.is_renormalized,
            bias=shape.bias,
            activation=shape.activation,
            shards=shape.shards,
        ),
    ]
    if shape.has_correction_bias:
        name = f"{shape.name}.{shape.correction_bias_name}"
        modules.append(correction_bias(shape.num_experts, name))
    if shape.shared_intermediate_size:
        modules += gated_mlp(
            shape.hidden_size,
            shape.shared_intermediate_size,
            bias=shape.shared_bias,
            part=Part.SHARED_EXPERTS,
            name=f"{shape.name}.{shape.shared_name}",
        )
    if shape.has_shared_gate:
        modules.append(
            ReplicatedLinear(
                f"{shape.name}.shared_expert_gate",
                Part.SHARED_EXPERTS,
                shape.hidden_size,
                (1,),
                is_quantizable=False,
            )
        )
    return tuple(modules)


def hyper_connections(streams: int, hidden_size: int) -> Replicated:
    """Return what mixes a layer's residual streams, before each of its halves.

    Source: vLLM 0.33.0 `models/deepseek_v4/nvidia/model.py` DeepseekV4DecoderLayer;
    `models/glm5next/common/model.py` Glm5NextDecoderLayer.
    """
    mixes = (2 + streams) * streams
    half = ((mixes, streams * hidden_size), (mixes,), (3,))
    part = Part.HYPER_CONNECTIONS
    return Replicated("hyper_connections", part, half * 2, dtype="float32")


def correction_bias(
    num_experts: int, name: str = "mlp.gate.e_score_correction_bias"
) -> Replicated:
    """Return the bias by which a router balances experts."""
    return Replicated(name, Part.ROUTER, ((num_experts,),), dtype="float32")


def norms(hidden_size: int, *, count: int = 2, bias: bool = False) -> Replicated:
    """Return the norms of a layer, each with a bias where configured."""
    shapes = ((hidden_size,),) * (count * (2 if bias else 1))
    return Replicated("layernorm", Part.NORMS, shapes)


def embeddings(
    vocab_size: int, hidden_size: int, name: str = "model.embed_tokens"
) -> VocabParallelEmbedding:
    """Return the word embeddings."""
    return VocabParallelEmbedding(name, vocab_size, hidden_size)


def lm_head(
    vocab_size: int, hidden_size: int, *, bias: bool = False
) -> VocabParallelEmbedding:
    """Return the LM head of a model whose head is not tied."""
    return VocabParallelEmbedding(
        "lm_head", vocab_size, hidden_size, part=Part.LM_HEAD, bias=bias
    )


def learned_positions(rows: int, hidden_size: int, name: str) -> Replicated:
    """Return position embeddings that every rank holds in full."""
    return Replicated(name, Part.EMBEDDINGS, ((rows, hidden_size),))
