"""ColUltraVBERT: SigLIP, and a decoder's layers in both directions."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label, Placement
from planner.models.families.composite import Composite, siglip_of
from planner.models.families.decoder import (
    attention,
    attention_shape,
    encoder_only,
    gated_mlp,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import Frame, decoder, typed_ropes
from planner.models.families.multimodal import text_facts
from planner.models.families.towers import blocks
from planner.models.layers import Module


def _text(outer: Facts, label: Label) -> ModelArchitecture:
    facts = text_facts(outer, "ultrabert")
    has_bias = facts.flag("attention_bias")
    shape = attention_shape(facts, qkv_bias=has_bias, output_bias=has_bias)
    size, wide = shape.hidden_size, facts.integer("intermediate_size")
    mlp = gated_mlp(size, wide, bias=facts.flag("mlp_bias"))
    kind = LayerKind((encoder_only(shape),), (*attention(shape), *mlp, norms(size)))
    rope = typed_ropes(
        facts,
        facts.value("layer_types"),
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    # Its embeddings have no head beside them.
    frame = Frame(size, rope, placement=Placement.EVERYWHERE, is_tied=True)
    return decoder(
        facts,
        label.of("UltraBertModel"),
        frame,
        [kind] * facts.integer("num_hidden_layers"),
        supports_pp=False,
        is_pooling=True,
        is_encoder_only=True,
    )


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/colultravbert.py`."""
    vision, encoder = siglip_of(facts, "vision_model")
    merged = vision.integer("hidden_size") * facts.integer("pixel_shuffle_factor") ** 2
    last = ((text_size,),) if facts.flag("connector_norm", default=True) else ()
    yield from encoder
    yield blocks.replicated("connector", (text_size, merged), *last)


READERS = {
    "ColUltraVBertForRetrieval": Composite(_modules, text=_text, prefix="text_model.")
}
