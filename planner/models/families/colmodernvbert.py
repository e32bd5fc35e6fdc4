"""ModernVBERT: SigLIP's tower before ModernBERT."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.bert import linear32
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.modernbert import read_modernbert
from planner.models.families.multimodal import quant_method, sub_config, text_facts
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import siglip_vision
from planner.models.layers import Module


def _inner(facts: Facts) -> Facts:
    inner = facts.mapping("vlm_config")
    return Facts({**facts.config, **inner}, "modernvbert") if inner else facts


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    columns = facts.integer("embedding_dim", default=128)

    def head(_facts: Facts, size: int) -> tuple[Module, ...]:
        return (linear32((columns, size), (columns,)),)

    text = text_facts(_inner(facts), "modernbert")
    return read_modernbert(text, label.of("ModernBertModel"), head=head)


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/colmodernvbert.py`."""
    inner = _inner(facts)
    vision = sub_config(inner, "vision_config", "siglip_vision_model")
    factor = inner.integer("pixel_shuffle_factor")
    shuffled = vision.integer("hidden_size") * factor**2
    yield from siglip_vision(vision, "vision_model", quant_method=quant_method(facts))
    yield blocks.replicated("connector.proj", (text_size, shuffled))


READERS = dict.fromkeys(
    ("ColModernVBertForRetrieval", "ModernVBertModel"),
    Composite(_modules, text=_text, prefix=""),
)
