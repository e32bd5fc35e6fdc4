"""OpenAI's gpt-oss: windows on every other layer, sinks, experts with biases.

Source: vLLM 0.33.0 `models/gpt_oss.py`, `models/openai_privacy_filter.py`.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import (
    Frame,
    Label,
    Placement,
    assemble,
    in_both_directions,
    num_labels,
)
from planner.models.families.conversion import without_head
from planner.models.families.decoder import (
    ExpertsShape,
    attention,
    attention_shape,
    experts,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_rows
from planner.models.layers import (
    Part,
    Replicated,
    Sharded,
)


def read_gpt_oss(facts: Facts, label: Label) -> ModelArchitecture:
    """Return gpt-oss, as published (MXFP4 experts) or in plain weights.

    The table of cosines is float32 whatever the model's dtype.

    Source: vLLM 0.33.0 `models/gpt_oss.py`.
    """
    plain = attention_shape(facts, qkv_bias=True, output_bias=True)
    kept = replace(kv_of(plain), has_sinks=True)
    qkv, output, scales = attention(plain, name="attn.")
    heads = Sharded("attn.sinks", Part.ATTENTION, ((plain.num_heads,),))
    block = ExpertsShape(
        hidden_size=plain.hidden_size,
        num_experts=facts.integer("num_local_experts"),
        top_k=facts.integer("num_experts_per_tok"),
        intermediate_size=facts.integer("intermediate_size"),
        router_name="router",
        bias=True,
        activation="swigluoai",
    )
    norm = norms(plain.hidden_size)
    modules = (qkv, output, heads, scales, norm, *experts(block))
    both = tuple(
        LayerKind((replace(kept, sliding_window=window),), modules)
        for window in (facts.optional_integer("sliding_window"), None)
    )
    num_layers = facts.integer("num_hidden_layers")
    frame = Frame(
        plain.hidden_size,
        (_rope_cache(facts),),
        placement=Placement.EVERYWHERE,
        is_tied=False,
        is_head_quantizable=False,
    )
    return assemble(facts, label, frame, (both * num_layers)[:num_layers])


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
    model = in_both_directions(read_gpt_oss(facts, label))
    labels = num_labels(facts)
    score = Replicated(
        "score",
        Part.CLASSIFIER,
        ((labels, model.hidden_size), (labels,)),
        dtype="float32",
    )
    return replace(
        model,
        every_stage=(*without_head(model.every_stage), score),
        is_pooling=True,
        is_encoder_only=True,
        supports_pp=False,
    )


READERS = {
    "GptOssForCausalLM": read_gpt_oss,
    "OpenAIPrivacyFilterForTokenClassification": read_privacy_filter,
}
