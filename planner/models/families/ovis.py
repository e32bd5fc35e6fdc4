"""Ovis: images become words of a vocabulary of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    quant_method,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import siglip_vision
from planner.models.families.towers.tiles import ovis_items
from planner.models.layers import Module
from planner.models.passes import Moment, TowerPass, block_pass

_INDICATORS = 5
"""Words of Ovis for an image's ends, which the tower's head does not predict."""


def read_ovis(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the first Ovis or Ovis 2. Source: vLLM 0.33.0 `models/ovis.py`."""
    kind = str(facts.mapping("llm_config").get("model_type") or "")
    model = read_language_model(text_facts(facts, kind, name="llm_config"), label)
    own = sub_config(facts, "visual_tokenizer_config", "")
    vision = sub_config(own, "backbone_config", "")
    name, method = "visual_tokenizer.backbone", quant_method(facts)
    given = vision.value("model_type")
    if given in ("aimv2", "aimv2_vision_model"):
        encoder = tuple(_aimv2(Facts(vision.config, "aimv2_vision_model"), name))
    elif given == "siglip_vision_model":
        known = Facts(vision.config, "siglip_vision_model")
        encoder = siglip_vision(known, name, quant_method=method)
    else:
        raise vision.unsupported("model_type", "AIMv2 and SigLIP are.")
    words = own.integer("vocab_size", default=16384)
    size = Facts(vision.config, str(given)).integer("hidden_size")
    merged = size * own.integer("hidden_stride", default=1) ** 2
    predicted = words - _INDICATORS
    modules = (
        *encoder,
        blocks.replicated("visual_tokenizer.head.0", (predicted, merged)),
        blocks.norms("visual_tokenizer.head.1", predicted, bias=True),
        blocks.replicated("vte", (words, facts.integer("hidden_size"))),
    )
    known = Facts(vision.config, str(given))
    tower = Tower(
        modalities=IMAGE,
        modules=modules,
        items=ovis_items(own, known),
        forward=_words_pass(own, known, words),
    )
    return composed(facts, label, model, tower, prefix="llm.")


def _words_pass(own: Facts, vision: Facts, words: int) -> TowerPass:
    """Return the tower's pass, widest where each token has a share of every word.

    Merged patches, logits, shares, and shares with those of the indicators.

    Source: vLLM 0.33.0 and 0.19.1 `models/ovis.py` VisualTokenizer.forward.
    """
    size, merge = vision.integer("hidden_size"), own.integer("hidden_stride", default=1)
    values = merge**2 * size + 2 * (words - _INDICATORS) + words
    is_gated = "aimv2" in vision.model_type
    wide = vision.integer("intermediate_size")
    passed = block_pass(size, wide, beside=4, is_gated=is_gated)
    head = Moment(name="words", whole=values // merge**2)
    return replace(passed, moments=(*passed.moments, head))


def _aimv2(facts: Facts, name: str) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/aimv2.py` AIMv2Model, without its last norm."""
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    patch, wide = facts.integer("patch_size"), facts.integer("intermediate_size")
    has_bias = facts.flag("mlp_bias")
    first, channels = f"{name}.preprocessor", facts.integer("num_channels", default=3)
    convolution = f"{first}.patchifier.proj"
    yield blocks.convolution(convolution, size, channels, patch, patch, bias=True)
    patches = (facts.integer("image_size") // patch) ** 2
    yield blocks.replicated(f"{first}.pos_embed", (size,), (patches, size))
    for index in range(facts.integer("num_hidden_layers")):
        block = f"{name}.trunk.blocks.{index}"
        yield blocks.qkv(f"{block}.attn.qkv", size, heads, bias=facts.flag("qkv_bias"))
        yield blocks.row(f"{block}.attn.proj", size, size, bias=has_bias)
        yield blocks.column(f"{block}.mlp.fc13", size, wide, wide, bias=has_bias)
        yield blocks.row(f"{block}.mlp.fc2", wide, size, bias=has_bias)
        yield blocks.norms(f"{block}.norm", size, count=2, bias=False)


READERS = {
    "Ovis": read_ovis,
}
