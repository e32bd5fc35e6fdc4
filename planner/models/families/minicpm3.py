"""MiniCPM3: latent projections, but keys and values kept per head."""

from __future__ import annotations

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Body, Label, Placement, Skeleton, assemble
from planner.models.families.decoder import attention_scales, gated_mlp, norms
from planner.models.families.facts import Facts
from planner.models.families.mla import LatentShape, latent_shape
from planner.models.families.rope import rope_cache
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
)


def read_minicpm3(facts: Facts, label: Label) -> ModelArchitecture:
    """Read MiniCPM3, whose values are padded to the size of its keys.

    Source: vLLM 0.33.0 `models/minicpm3.py`, `models/minicpm.py`.
    """
    shape = latent_shape(facts)
    kept = AttentionLayer(
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_heads,
        head_size=shape.qk_head_dim,
    )
    kind = LayerKind(
        caches=(kept,),
        modules=(
            *_projections(shape),
            attention_scales(),
            *gated_mlp(shape.hidden_size, facts.integer("intermediate_size")),
            norms(shape.hidden_size),
        ),
    )
    if facts.value("num_experts"):
        raise facts.unsupported("num_experts", "its experts are not.")
    skeleton = Skeleton(
        hidden_size=shape.hidden_size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(shape.hidden_size, count=1),),
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        head_on=Placement.EVERYWHERE,
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
        every_stage=rope_cache(
            facts,
            head_size=shape.qk_rope_head_dim,
            max_position=facts.integer("max_position_embeddings"),
        ),
    )
    return assemble(
        facts,
        label,
        skeleton,
        Body.alike(kind, facts.integer("num_hidden_layers")),
        head_size=shape.qk_rope_head_dim,
    )


def _projections(shape: LatentShape) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/minicpm3.py` MiniCPM3Attention."""
    if shape.q_lora_rank is None:
        message = "q_lora_rank is needed."
        raise ValueError(message)
    heads = shape.num_heads
    return (
        _replicated("q_a_proj", shape.hidden_size, shape.q_lora_rank),
        _column("q_b_proj", shape.q_lora_rank, heads * shape.qk_head_dim),
        _replicated("kv_a_proj_with_mqa", shape.hidden_size, shape.kept_size),
        _column(
            "kv_b_proj",
            shape.kv_lora_rank,
            heads * (shape.qk_nope_head_dim + shape.v_head_dim),
        ),
        RowParallelLinear(
            name="self_attn.o_proj",
            part=Part.ATTENTION,
            input_size=heads * shape.v_head_dim,
            output_size=shape.hidden_size,
        ),
        Replicated(
            name="self_attn.layernorm",
            part=Part.NORMS,
            shapes=((shape.q_lora_rank,), (shape.kv_lora_rank,)),
        ),
    )


def _replicated(name: str, input_size: int, output_size: int) -> ReplicatedLinear:
    return ReplicatedLinear(
        name=f"self_attn.{name}",
        part=Part.ATTENTION,
        input_size=input_size,
        output_sizes=(output_size,),
    )


def _column(name: str, input_size: int, output_size: int) -> ColumnParallelLinear:
    return ColumnParallelLinear(
        name=f"self_attn.{name}",
        part=Part.ATTENTION,
        input_size=input_size,
        output_sizes=(output_size,),
    )


READERS = {
    "MiniCPM3ForCausalLM": read_minicpm3,
}
