"""MiniCPM3: latent projections, but keys and values kept per head."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Frame, Label, Placement, assemble
from planner.models.families.decoder import attention_scales, gated_mlp, norms
from planner.models.families.facts import Facts
from planner.models.families.mla import LatentShape, latent_shape
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks
from planner.models.layers import Module, Part, Replicated


def _read(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MiniCPM3, whose values are padded to the size of its keys.

    Source: vLLM 0.33.0 `models/minicpm3.py`, `models/minicpm.py`.
    """
    shape = latent_shape(facts)
    kept = AttentionLayer(
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_heads,
        head_size=shape.qk_head_dim,
    )
    kind = LayerKind(
        (kept,),
        (
            *_projections(shape),
            attention_scales(),
            *gated_mlp(shape.hidden_size, facts.integer("intermediate_size")),
            norms(shape.hidden_size),
        ),
    )
    if facts.value("num_experts"):
        raise facts.unsupported("num_experts", "its experts are not.")
    rope = rope_cache(facts, shape.qk_rope_head_dim)
    frame = Frame(shape.hidden_size, rope, placement=Placement.EVERYWHERE)
    layers = [kind] * facts.integer("num_hidden_layers")
    own = {"num_experts": 0, "head_size": shape.qk_rope_head_dim}
    return assemble(facts, label, frame, layers, **own)


def _projections(shape: LatentShape) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/minicpm3.py` MiniCPM3Attention."""
    if shape.q_lora_rank is None:
        message = "q_lora_rank is needed."
        raise ValueError(message)
    size, heads, name = shape.hidden_size, shape.num_heads, "self_attn"
    rank, kv_rank = shape.q_lora_rank, shape.kv_lora_rank
    unfolded = heads * (shape.qk_nope_head_dim + shape.v_head_dim)
    layers = (
        blocks.whole(f"{name}.q_a_proj", size, rank, bias=False),
        blocks.column(f"{name}.q_b_proj", rank, heads * shape.qk_head_dim, bias=False),
        blocks.whole(f"{name}.kv_a_proj_with_mqa", size, shape.kept_size, bias=False),
        blocks.column(f"{name}.kv_b_proj", kv_rank, unfolded, bias=False),
        blocks.row(f"{name}.o_proj", heads * shape.v_head_dim, size, bias=False),
    )
    return (
        *(replace(layer, part=Part.ATTENTION) for layer in layers),
        Replicated(f"{name}.layernorm", Part.NORMS, ((rank,), (kv_rank,))),
    )


READERS = {"MiniCPM3ForCausalLM": _read}
