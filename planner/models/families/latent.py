"""DeepSeek's latent attention with other experts or norms.

openPangu's experts, with latent attention or with keys held as sinks, A.X-K1, Sarvam,
and LongCat-Flash-Lite's n-grams.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Label
from planner.models.families.decoder import (
    ExpertsShape,
    attention_scales,
    experts,
    gated_mlp,
    norms,
)
from planner.models.families.deepseek import read_latent, read_longcat_flash
from planner.models.families.facts import Facts
from planner.models.families.layered import Frame, decoder
from planner.models.families.rope import RotaryCache
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
    Sharded,
    VocabParallelEmbedding,
)
from planner.models.tensors import Tensor
from planner.values import frozen


def _pangu_experts(facts: Facts) -> ExpertsShape:
    width = facts.integer("moe_intermediate_size")
    return ExpertsShape(
        hidden_size=facts.integer("hidden_size"),
        num_experts=facts.integer("n_routed_experts"),
        top_k=facts.integer("num_experts_per_tok"),
        intermediate_size=width,
        shared_intermediate_size=width
        * (facts.optional_integer("n_shared_experts") or 0),
        has_correction_bias=facts.flag("router_enable_expert_bias"),
        is_renormalized=facts.flag("norm_topk_prob"),
    )


def _axk1_experts(facts: Facts) -> ExpertsShape:
    has_bias = facts.value("topk_method") in (None, "noaux_tc")
    return replace(_pangu_experts(facts), has_correction_bias=has_bias)


def read_pangu_moe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return openPangu Ultra MoE: latent attention, and two more norms a layer.

    Source: vLLM 0.33.0 `models/openpangu.py` OpenPanguMLAAttention.
    """
    if facts.value("kv_lora_rank") is None:
        return read_pangu_sinks(facts, label)
    extra = 2 if facts.flag("sandwich_norm") else 0
    model = read_latent(facts, label, _pangu_experts)
    return _with_norms(model, extra)


def read_pangu_sinks(facts: Facts, label: Label) -> ModelArchitecture:
    """Return openPangu with learned keys and values before those of every request.

    Source: vLLM 0.33.0 `models/openpangu.py` OpenPanguSinkAttention;
    `layers/attention/static_sink_attention.py`.
    """
    if not facts.optional_integer("param_sink_number"):
        raise facts.unsupported(
            "param_sink_number", "latent attention or keys held as sinks are."
        )
    cache, own = _sink_attention(facts)
    size = facts.integer("hidden_size")
    extra = norms(size, count=4 if facts.flag("sandwich_norm") else 2)
    layers = (
        LayerKind(caches=(cache,), modules=(*own, *mlp, extra))
        for mlp in _pangu_mlps(facts)
    )
    rope = RotaryCache(
        rows=facts.integer("max_position_embeddings", default=8192),
        rows_of_images=facts.integer("max_position_embeddings", default=8192),
        columns=facts.integer("qk_rope_dim"),
    )
    return decoder(facts, label, Frame(hidden_size=size, rope=(rope,)), layers)


def _pangu_mlps(facts: Facts) -> Iterator[tuple[Module, ...]]:
    """Return the MLP of each layer: plain in the first ones, experts in the others."""
    plain = gated_mlp(
        facts.integer("hidden_size"),
        facts.integer("intermediate_size"),
        bias=facts.flag("mlp_bias"),
    )
    has_experts = facts.value("n_routed_experts") is not None
    sparse = experts(_pangu_experts(facts)) if has_experts else plain
    num_layers = facts.integer("num_hidden_layers")
    first = facts.integer("first_k_dense_replace") if has_experts else num_layers
    for layer in range(num_layers):
        yield sparse if layer >= first else plain


def _sink_attention(facts: Facts) -> tuple[AttentionLayer, tuple[Module, ...]]:
    heads = facts.integer("num_attention_heads")
    kv_heads = facts.integer("num_key_value_heads", default=heads)
    wide, narrow = _sink_head_sizes(facts)
    size, count = facts.integer("hidden_size"), facts.integer("param_sink_number")
    has_bias = facts.flag("attention_bias") or facts.flag("bias")
    own_bias = facts.value("qkv_bias")
    modules = (
        WholeKVHeads(name="self_attn", num_kv_heads=kv_heads),
        ColumnParallelLinear(
            name="self_attn.qkv_proj",
            part=Part.ATTENTION,
            input_size=size,
            output_sizes=(heads * wide, kv_heads * wide, kv_heads * narrow),
            bias=has_bias if own_bias is None else bool(own_bias),
            shards=("q_proj", "k_proj", "v_proj"),
        ),
        RowParallelLinear(
            name="self_attn.o_proj",
            part=Part.ATTENTION,
            input_size=heads * narrow,
            output_size=size,
            bias=has_bias,
        ),
        attention_scales(),
        Replicated(name="self_attn.k_layernorm", part=Part.NORMS, shapes=((wide,),)),
        Sharded(
            name="self_attn.param_sink",
            part=Part.ATTENTION,
            shapes=((kv_heads, count, wide), (kv_heads, count, narrow)),
        ),
    )
    cache = AttentionLayer(
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_size=wide,
        head_size_v=narrow,
        num_sink_tokens=count,
    )
    return cache, modules


@frozen
class WholeKVHeads:
    """KV heads that the ranks have to divide, as the class copies none of them."""

    name: str
    num_kv_heads: int
    part: Part = Part.ATTENTION

    def tensors(self, layout: ParallelLayout) -> tuple[Tensor, ...]:
        """Return nothing.

        Raises:
            Refused: in vLLM's words, when there are more ranks than heads.
        """
        ranks = layout.tensor_parallel_size
        if self.num_kv_heads < ranks:
            raise Refused(
                f"Number of KV heads {self.num_kv_heads} is less than TP size {ranks}, "
                "KV heads replication is not support yet."
            )
        return ()


def _sink_head_sizes(facts: Facts) -> tuple[int, int]:
    """Return how wide a head's key and value are."""
    key = facts.integer("qk_rope_dim") + facts.integer("qk_nope_dim")
    return key, facts.integer("v_channels")


def read_axk1(facts: Facts, label: Label) -> ModelArchitecture:
    """Return A.X-K1: DeepSeek-V3's layers with one more norm.

    Source: vLLM 0.33.0 `models/AXK1.py`.
    """
    return _with_norms(read_latent(facts, label, _axk1_experts), 1)


def _with_norms(model: ModelArchitecture, count: int) -> ModelArchitecture:
    if not count:
        return model
    extra = norms(model.hidden_size, count=count)
    kinds = tuple(
        replace(kind, modules=(*kind.modules, extra)) for kind in model.layer_kinds
    )
    return replace(model, layer_kinds=kinds)


def read_sarvam_mla(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Sarvam's latent attention with experts.

    Source: vLLM 0.33.0 `models/sarvam.py` SarvamMLAForCausalLM.
    """
    named = {
        "n_routed_experts": facts.value("num_experts"),
        "first_k_dense_replace": facts.integer("first_k_dense_replace", default=1),
        "intermediate_size": facts.integer("intermediate_size", default=16384),
    }
    inner = Facts({**facts.config, **named}, facts.model_type)
    return read_latent(inner, label, _sarvam_experts)


def _sarvam_experts(facts: Facts) -> ExpertsShape:
    width = facts.integer("moe_intermediate_size")
    shared = facts.optional_integer("moe_shared_expert_intermediate_size") or width
    return ExpertsShape(
        hidden_size=facts.integer("hidden_size"),
        num_experts=facts.integer("num_experts"),
        top_k=facts.integer("num_experts_per_tok"),
        intermediate_size=width,
        shared_intermediate_size=shared
        * facts.integer("num_shared_experts", default=1),
        has_correction_bias=facts.flag("moe_router_enable_expert_bias", default=True),
        is_renormalized=facts.flag("norm_topk_prob", default=True),
    )


def read_longcat_ngram(facts: Facts, label: Label) -> ModelArchitecture:
    """Return LongCat-Flash-Lite.

    Source: vLLM 0.33.0 `models/longcat_flash_ngram.py`.
    """
    model = read_longcat_flash(facts, label)
    if facts.value("ngram_vocab_size_ratio") is None:
        return model
    return replace(model, first_stage=(*model.first_stage, *_tables(facts)))


def _tables(facts: Facts) -> tuple[Module, ...]:
    """Return one table of all n-grams, its projections, and what they hash by."""
    size, vocabulary = facts.integer("hidden_size"), facts.integer("vocab_size")
    rows = facts.integer("ngram_vocab_size_ratio") * vocabulary
    splits, reach = facts.integer("emb_split_num"), facts.integer("emb_neighbor_num")
    count = splits * (reach - 1)
    width = size // count
    return (
        VocabParallelEmbedding(
            name="ngram_embeddings.oe_embedder",
            num_embeddings=sum(rows + 2 * i + 1 for i in range(count)),
            embedding_dim=width,
            is_quantizable=False,
        ),
        Replicated(
            name="ngram_embeddings.oe_projection",
            part=Part.EMBEDDINGS,
            shapes=((count, width, size),),
        ),
        Replicated(
            name="ngram_embeddings.hashes",
            part=Part.BUFFERS,
            shapes=((reach - 1, splits, reach), (reach - 1, splits), (count + 1,)),
            dtype="int32",
        ),
    )


READERS = {
    "PanguUltraMoEForCausalLM": read_pangu_moe,
    "PanguProMoEV2ForCausalLM": read_pangu_moe,
    "AXK1ForCausalLM": read_axk1,
    "SarvamMLAForCausalLM": read_sarvam_mla,
    "LongcatFlashNgramForCausalLM": read_longcat_ngram,
}
