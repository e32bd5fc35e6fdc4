"""Nemotron's embeddings of images: SigLIP and Llama in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label, classification_head, num_labels
from planner.models.families.composite import Composite, Text, siglip_of
from planner.models.families.eagle2_5_vl import shuffled_mlp
from planner.models.families.facts import Facts
from planner.models.families.heads import pooled
from planner.models.families.towers import blocks
from planner.models.layers import Module


def _text(
    facts: Facts, label: Label, *, is_classifier: bool = False
) -> ModelArchitecture:
    text = Text("llama", "LlamaForCausalLM", other_name="llm_config").facts(facts)
    inner = label.of("LlamaForCausalLM")
    both_ways = Facts({**text.config, "is_causal": False}, "llama")
    model = label.readers[inner.architecture](both_ways, inner)
    score = classification_head(model.hidden_size, num_labels(text))
    return pooled(model, inner, score if is_classifier else (), is_whole=True)


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/nemotron_vl.py` LlamaNemotronVLForEmbedding."""
    vision, encoder = siglip_of(facts, "vision_model")
    yield from encoder
    yield from shuffled_mlp(facts, vision, text_size)


_MODEL = Composite(
    _modules,
    text=_text,
    beside=lambda _facts, _size: (blocks.input_norm("input_norm"),),
)
READERS = {
    "LlamaNemotronVLModel": _MODEL,
    "LlamaNemotronVLForSequenceClassification": replace(
        _MODEL, text=partial(_text, is_classifier=True)
    ),
}
