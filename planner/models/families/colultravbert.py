"""ColUltraVBERT: SigLIP, and a decoder's layers in both directions."""

from __future__ import annotations

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.families.assembly import Label, Placement
from planner.models.families.decoder import (
    attention,
    attention_shape,
    encoder_only,
    gated_mlp,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import Frame, decoder, typed_ropes
from planner.models.families.multimodal import (
    composed,
    quant_method,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import siglip_vision


def read_colultravbert(facts: Facts, label: Label) -> ModelArchitecture:
    """Return ColUltraVBERT: SigLIP, and a decoder's layers in both directions.

    Source: vLLM 0.33.0 `models/colultravbert.py`.
    """
    text = text_facts(facts, "ultrabert")
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    shape = attention_shape(
        text,
        qkv_bias=text.flag("attention_bias"),
        output_bias=text.flag("attention_bias"),
    )
    size = shape.hidden_size
    kind = LayerKind(
        caches=(encoder_only(shape),),
        modules=(
            *attention(shape),
            *gated_mlp(
                size, text.integer("intermediate_size"), bias=text.flag("mlp_bias")
            ),
            norms(size),
        ),
    )
    rope = typed_ropes(
        text,
        text.value("layer_types"),
        head_size=shape.head_size,
        max_position=text.integer("max_position_embeddings"),
    )
    # Its embeddings have no head beside them.
    frame = Frame(
        hidden_size=size, rope=rope, placement=Placement.EVERYWHERE, is_tied=True
    )
    model = decoder(
        text,
        label.of("UltraBertModel"),
        frame,
        [kind] * text.integer("num_hidden_layers"),
        supports_pp=False,
        is_pooling=True,
        is_encoder_only=True,
    )
    merged = vision.integer("hidden_size") * facts.integer("pixel_shuffle_factor") ** 2
    last = ((size,),) if facts.flag("connector_norm", default=True) else ()
    modules = (
        *siglip_vision(vision, "vision_model", quant_method=quant_method(facts)),
        blocks.replicated("connector", (size, merged), *last),
    )
    tower = Tower(modalities=IMAGE, modules=modules)
    return composed(facts, label, model, tower, prefix="text_model.")


READERS = {
    "ColUltraVBertForRetrieval": read_colultravbert,
}
