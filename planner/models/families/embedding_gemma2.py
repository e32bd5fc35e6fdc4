"""EmbeddingGemma 2: Gemma 4's layers in both directions, embeddings for each layer."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, Placement, assemble
from planner.models.families.composite import known_as, text_facts
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    attention_shape,
    encoder_only,
    gated_mlp,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.heads import pooled
from planner.models.families.rope import typed_ropes
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
)


def read_embedding_gemma2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return EmbeddingGemma 2 for text.

    Raises:
        UnknownArchitecture: for one that sees or hears.

    Source: vLLM 0.33.0 `models/embedding_gemma2.py`.
    """
    for name in ("vision_config", "audio_config"):
        if facts.value(name) is not None:
            raise facts.unsupported(name, "text is.")
    text = text_facts(facts, "embedding_gemma2_text")
    shapes = _shapes(text)
    layers = [_layer(text, shape) for shape in shapes]
    size, types = text.integer("hidden_size"), text.value("layer_types")
    ropes = {}
    for shape, kind in zip(shapes, types, strict=False):
        for table in typed_ropes(text, [kind], shape.head_size):
            ropes[kind] = replace(table, ends_with_length=True)
    frame = Frame(
        size,
        (*ropes.values(), *_around(text)),
        placement=Placement.EVERYWHERE,
        is_tied=True,
    )
    model = assemble(
        text,
        label,
        frame,
        layers,
        supports_pp=False,
        num_attention_heads=shapes[0].num_heads,
        num_kv_heads=max(shape.num_kv_heads for shape in shapes),
        head_size=max(shape.head_size for shape in shapes),
        mixes_head_sizes=len({shape.head_size for shape in shapes}) > 1,
    )
    return known_as(pooled(model, label, (), is_whole=True), facts, label)


def _shapes(facts: Facts) -> list[AttentionShape]:
    """Return each layer's attention; the config lists those that differ."""
    has_bias = facts.flag("attention_bias")
    plain = attention_shape(facts, qkv_bias=has_bias, output_bias=has_bias)
    own = {int(at): values for at, values in facts.mapping("per_layer_config").items()}
    shapes = []
    for index in range(facts.integer("num_hidden_layers")):
        mine = own.get(index, {})
        head_size = mine.get("head_dim", plain.head_size)
        shapes.append(
            replace(
                plain,
                head_size=head_size,
                num_kv_heads=mine.get("num_key_value_heads", plain.num_kv_heads),
                # The values' norm multiplies by ones, which it keeps all the same.
                qk_norm_sizes=(head_size,) * 3,
            )
        )
    return shapes


def _layer(facts: Facts, shape: AttentionShape) -> LayerKind:
    size, narrow = shape.hidden_size, facts.integer("hidden_size_per_layer_input")
    return LayerKind(
        (encoder_only(shape),),
        (
            *attention(shape),
            *gated_mlp(size, facts.integer("intermediate_size")),
            ReplicatedLinear(
                "ple_block.per_layer_input_gate", Part.MLP, size, (narrow,)
            ),
            ReplicatedLinear(
                "ple_block.per_layer_projection", Part.MLP, narrow, (size,)
            ),
            norms(size, count=5),
            Replicated("layer_scalar", Part.BUFFERS, ((1,),)),
        ),
    )


def _around(facts: Facts) -> tuple[Module, ...]:
    size, narrow = facts.integers("hidden_size", "hidden_size_per_layer_input")
    wide = facts.integer("num_hidden_layers") * narrow
    return (
        ColumnParallelLinear("ple.per_layer_model_projection", Part.MLP, size, (wide,)),
        Replicated("ple.per_layer_projection_norm", Part.NORMS, ((narrow,),)),
        ReplicatedLinear(
            "embedding_projection", Part.MLP, size, (facts.integer("embedding_dim"),)
        ),
        Replicated("embed_scale", Part.BUFFERS, ((),)),
    )


READERS = {"EmbeddingGemma2Model": read_embedding_gemma2}
