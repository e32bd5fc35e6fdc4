"""HRM-Text: a fast stack and a slow one, which take turns."""

from __future__ import annotations

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Label
from planner.models.families.decoder import attention_scales, gated_mlp
from planner.models.families.facts import Facts
from planner.models.families.layered import Frame, decoder
from planner.models.families.rope import rope_cache
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
)


def read_hrm_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return HRM-Text: a fast stack and a slow one, which take turns.

    Source: vLLM 0.33.0 `models/hrm_text.py`.
    """
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    head_size = facts.optional_integer("head_dim") or size // heads
    has_bias, wide = facts.flag("attention_bias"), heads * head_size
    kept = AttentionLayer(num_heads=heads, num_kv_heads=heads, head_size=head_size)
    modules: tuple[Module, ...] = (
        ColumnParallelLinear(
            "self_attn.gqkv_proj", Part.ATTENTION, size, (wide,) * 4, bias=has_bias
        ),
        RowParallelLinear(
            "self_attn.o_proj", Part.ATTENTION, wide, size, bias=has_bias
        ),
        *gated_mlp(
            size, facts.integer("intermediate_size"), bias=facts.flag("mlp_bias")
        ),
    )
    slow = facts.integer("H_cycles")
    fast = slow * facts.integer("L_cycles")
    stacks = [
        LayerKind((kept,) * times, (*modules, *(attention_scales(),) * times))
        for times in (fast, slow)
        for _layer in range(facts.integer("num_layers_per_stack"))
    ]
    state = Replicated("model.z_L_init", Part.BUFFERS, ((size,),))
    rope = rope_cache(facts, head_size)
    frame = Frame(size, (*rope, state), has_final_norm=False)
    return decoder(facts, label, frame, stacks, supports_pp=False)


READERS = {
    "HrmTextForCausalLM": read_hrm_text,
}
