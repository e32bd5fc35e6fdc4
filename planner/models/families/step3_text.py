"""Step 3: one KV head, queries through a narrow layer."""

from __future__ import annotations

from typing import Any

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
from planner.models.families.facts import Facts
from planner.models.families.layered import Frame, decoder
from planner.models.families.rope import rope_cache
from planner.models.layers import (
    ColumnParallelLinear,
    Part,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
)


def read_step3_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Step 3: one KV head, queries through a narrow layer.

    Source: vLLM 0.33.0 `models/step3_text.py`.
    """
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    head_size = facts.integer("head_dim")
    narrow = facts.optional_integer("share_q_dim") or heads * head_size
    common = (
        ReplicatedLinear(
            "self_attn.qkv_proj",
            Part.ATTENTION,
            size,
            (narrow, head_size, head_size),
            shards=("q_proj", "k_proj", "v_proj"),
        ),
        RowParallelLinear("self_attn.o_proj", Part.ATTENTION, heads * head_size, size),
        Replicated("self_attn.inter_norm", Part.NORMS, ((narrow,),)),
        ColumnParallelLinear(
            "self_attn.wq", Part.ATTENTION, narrow, (heads * head_size,)
        ),
        attention_scales(),
        norms(size),
    )
    sparse = (
        *experts(
            ExpertsShape(
                hidden_size=size,
                num_experts=facts.integer("moe_num_experts"),
                top_k=facts.integer("moe_top_k"),
                intermediate_size=facts.integer("moe_intermediate_size"),
                is_renormalized=facts.flag("norm_expert_weight"),
                name="moe",
            )
        ),
        *gated_mlp(
            size,
            facts.integer("share_expert_dim"),
            part=Part.SHARED_EXPERTS,
            name="share_expert",
        ),
    )
    dense = gated_mlp(size, facts.integer("intermediate_size"))
    kept = AttentionLayer(num_heads=heads, num_kv_heads=1, head_size=head_size)
    num_layers = facts.integer("num_hidden_layers")
    listed = listed_layers(facts.value("moe_layers_enum"), range(1, num_layers))
    layers = (
        LayerKind((kept,), (*common, *(sparse if i in listed else dense)))
        for i in range(num_layers)
    )
    rope = rope_cache(
        facts,
        head_size,
        max_position=facts.integer(
            "max_position_embedding", "max_position_embeddings", default=8192
        ),
    )
    # vLLM's class passes no quantisation to its head, and never ties it.
    frame = Frame(size, rope, is_head_quantizable=False, is_tied=False)
    return decoder(facts, label, frame, layers)


def listed_layers(given: Any, default: range) -> set[int]:  # noqa: ANN401 - the untyped border
    """Return the layers with experts, as Step's configs list them."""
    if given is None:
        return set(default)
    names = given.strip().split(",") if isinstance(given, str) else given
    return {int(name) for name in names}


READERS = {
    "Step3TextForCausalLM": read_step3_text,
}
