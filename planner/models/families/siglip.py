"""SigLIP with both its halves, for embeddings."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.clip import text_encoder
from planner.models.families.composite import Composite, siglip_of
from planner.models.families.facts import Facts
from planner.models.families.multimodal import text_facts
from planner.models.families.towers import blocks
from planner.models.layers import Module, Part, Replicated


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    text = text_facts(facts, "siglip_text_model")
    size = text.integer("hidden_size")
    columns = text.integer("projection_size", default=size)
    head = Replicated("head", Part.CLASSIFIER, ((columns, size), (columns,)))
    return text_encoder(text, label, is_causal=False, head=(head,))


def _modules(facts: Facts, _text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/siglip.py` SiglipEmbeddingModel."""
    vision, encoder = siglip_of(facts, "vision")
    yield from encoder
    if vision.flag("vision_use_head", default=True):
        yield from _pooling_head(vision)


def _pooling_head(facts: Facts) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/siglip.py` SiglipMultiheadAttentionPoolingHead."""
    size, name = facts.integer("hidden_size"), "vision_model.head"
    wide, mlp = facts.integer("intermediate_size"), f"{name}.mlp"
    attention = ((3 * size, size), (3 * size,), (size, size), (size,))
    yield blocks.replicated(name, (size,), *attention)
    yield blocks.norms(f"{name}.layernorm", size, bias=True)
    yield from blocks.plain_mlp(f"{mlp}.fc1", f"{mlp}.fc2", size, wide)


READERS = {"SiglipModel": Composite(_modules, text=_text, prefix="text_model.")}
