"""OpenAI's gpt-oss: windows on every other layer, sinks, experts with biases.

Source: vLLM 0.33.0 `models/gpt_oss.py`, `models/openai_privacy_filter.py`.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer, EncoderOnlyAttentionLayer
from planner.models.experts import FusedMoE
from planner.models.families.assembly import (
    Body,
    Label,
    Placement,
    Skeleton,
    assemble,
    num_labels,
)
from planner.models.families.conversion import without_head
from planner.models.families.decoder import attention_scales, norms
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_rows
from planner.models.layers import (
    Module,
    Part,
    QKVParallelLinear,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
    Sharded,
)


def read_gpt_oss(facts: Facts, label: Label) -> ModelArchitecture:
    """Return gpt-oss, as published (MXFP4 experts) or in plain weights.

    The table of cosines is float32 whatever the model's dtype.

    Source: vLLM 0.33.0 `models/gpt_oss.py`.
    """
    hidden_size = facts.integer("hidden_size")
    num_layers = facts.integer("num_hidden_layers")
    modules = (*_attention(facts), norms(hidden_size), *_experts(facts))
    kinds = tuple(
        LayerKind((_cache(facts, window),), modules)
        for window in (facts.optional_integer("sliding_window"), None)
    )
    skeleton = Skeleton(
        hidden_size=hidden_size,
        placement=Placement.EVERYWHERE,
        is_head_quantizable=False,
        every_stage=(_rope_cache(facts),),
    )
    body = Body(kinds, tuple(layer % 2 for layer in range(num_layers)))
    return assemble(
        facts,
        label,
        skeleton,
        body,
        num_experts=facts.integer("num_local_experts"),
    )


def _attention(facts: Facts) -> tuple[Module, ...]:
    hidden_size = facts.integer("hidden_size")
    num_heads = facts.integer("num_attention_heads")
    head_size = facts.integer("head_dim")
    return (
        QKVParallelLinear(
            name="attn.qkv_proj",
            input_size=hidden_size,
            num_heads=num_heads,
            num_kv_heads=facts.integer("num_key_value_heads"),
            head_size=head_size,
            bias=True,
        ),
        RowParallelLinear(
            "attn.o_proj", Part.ATTENTION, num_heads * head_size, hidden_size, bias=True
        ),
        Sharded("attn.sinks", Part.ATTENTION, ((num_heads,),)),
        attention_scales(),
    )


def _experts(facts: Facts) -> tuple[Module, ...]:
    """Return router and experts; vLLM's class does not quantise the router."""
    hidden_size = facts.integer("hidden_size")
    num_experts = facts.integer("num_local_experts")
    return (
        ReplicatedLinear(
            "mlp.router",
            Part.ROUTER,
            hidden_size,
            (num_experts,),
            bias=True,
            is_quantizable=False,
        ),
        FusedMoE(
            name="mlp.experts",
            num_experts=num_experts,
            top_k=facts.integer("num_experts_per_tok"),
            hidden_size=hidden_size,
            intermediate_size=facts.integer("intermediate_size"),
            bias=True,
            activation="swigluoai",
        ),
    )


def _cache(facts: Facts, sliding_window: int | None) -> AttentionLayer:
    return AttentionLayer(
        num_heads=facts.integer("num_attention_heads"),
        num_kv_heads=facts.integer("num_key_value_heads"),
        head_size=facts.integer("head_dim"),
        sliding_window=sliding_window,
        has_sinks=True,
    )


def _rope_cache(facts: Facts) -> Replicated:
    rows = rope_rows(facts, facts.integer("max_position_embeddings"))
    return Replicated(
        "rotary_emb.cos_sin_cache",
        Part.BUFFERS,
        ((rows, facts.integer("head_dim")),),
        dtype="float32",
    )


def read_privacy_filter(facts: Facts, label: Label) -> ModelArchitecture:
    """Return gpt-oss that sees both directions and labels tokens.

    Source: vLLM 0.33.0 `models/openai_privacy_filter.py`.
    """
    model = read_gpt_oss(facts, label)
    heads = EncoderOnlyAttentionLayer(
        num_heads=model.num_attention_heads,
        num_kv_heads=model.num_kv_heads,
        head_size=model.head_size,
    )
    labels = num_labels(facts)
    score = Replicated(
        "score",
        Part.CLASSIFIER,
        ((labels, model.hidden_size), (labels,)),
        dtype="float32",
    )
    return replace(
        model,
        layer_kinds=tuple(replace(kind, caches=(heads,)) for kind in model.layer_kinds),
        every_stage=(*without_head(model.every_stage), score),
        is_pooling=True,
        is_encoder_only=True,
        supports_pp=False,
    )


READERS = {
    "GptOssForCausalLM": read_gpt_oss,
    "OpenAIPrivacyFilterForTokenClassification": read_privacy_filter,
}
