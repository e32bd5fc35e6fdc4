"""CLIP with both its halves, for embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.bert import encoder, encoder_shape, plain_layer
from planner.models.families.composite import Composite
from planner.models.families.decoder import encoder_only, kv_of, norms
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config, text_facts
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import clip_layers
from planner.models.layers import Module, Part, Replicated, VocabParallelEmbedding


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    text = text_facts(facts, "clip_text_model")
    columns = facts.integer("projection_dim")
    head = Replicated(
        "text_projection", Part.CLASSIFIER, ((columns, text.integer("hidden_size")),)
    )
    return text_encoder(text, label, is_causal=True, head=(head,))


def _modules(facts: Facts, _text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/clip.py` CLIPEmbeddingModel."""
    vision = sub_config(facts, "vision_config", "clip_vision_model")
    shape = (facts.integer("projection_dim"), vision.integer("hidden_size"))
    yield from clip_layers(vision, "vision_model")
    yield blocks.replicated("visual_projection", shape)


def text_encoder(
    facts: Facts, label: Label, *, is_causal: bool, head: tuple[Module, ...]
) -> ModelArchitecture:
    """Return the text half of CLIP, which has a KV cache, or of SigLIP."""
    shape = replace(encoder_shape(facts), heeds_kv_cache_dtype=False)
    size, positions = shape.hidden_size, facts.integer("max_position_embeddings")
    kind = LayerKind(
        (kv_of(shape) if is_causal else encoder_only(shape),), plain_layer(facts, shape)
    )
    table = VocabParallelEmbedding("position_embedding", positions, size)
    numbers = Replicated(
        "embeddings.position_ids", Part.BUFFERS, ((positions,),), dtype="int64"
    )
    model = encoder(
        facts,
        label,
        [kind] * facts.integer("num_hidden_layers"),
        (table,) if is_causal else (table, numbers),
        head,
    )
    last = (norms(size, count=1, bias=True),)
    return replace(model, last_stage=last, is_encoder_only=not is_causal)


READERS = {"CLIPModel": Composite(_modules, text=_text, prefix="text_model.")}
