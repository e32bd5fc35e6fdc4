"""Ovis: images become words of a vocabulary of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import Tower
from planner.models.families.assembly import Reader
from planner.models.families.composite import Composite, Text, quant_method, sub_config
from planner.models.families.facts import Facts
from planner.models.families.siglip2 import siglip2_vision
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE, IMAGE_AND_VIDEO
from planner.models.families.towers.clip import siglip_vision
from planner.models.families.towers.tiles import ovis_items
from planner.models.layers import Module
from planner.models.passes import Moment, TowerPass, block_pass

_OVIS_INDICATORS = 5
"""Words for an image's ends, which the tower's head does not predict."""


def _tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/ovis.py`."""
    own = sub_config(facts, "visual_tokenizer_config", "")
    vision = sub_config(own, "backbone_config", "")
    name, given = "visual_tokenizer.backbone", vision.value("model_type")
    if given in ("aimv2", "aimv2_vision_model"):
        encoder = tuple(_aimv2(Facts(vision.config, "aimv2_vision_model"), name))
    elif given == "siglip_vision_model":
        known = Facts(vision.config, given)
        encoder = siglip_vision(known, name, quant_method=quant_method(facts))
    else:
        raise vision.unsupported("model_type", "AIMv2 and SigLIP are.")
    known, words = Facts(vision.config, given), own.integer("vocab_size", default=16384)
    stride = own.integer("hidden_stride", default=1)
    merged, predicted = (
        known.integer("hidden_size") * stride**2,
        words - _OVIS_INDICATORS,
    )
    return Tower(
        IMAGE,
        (
            *encoder,
            blocks.replicated("visual_tokenizer.head.0", (predicted, merged)),
            blocks.norms("visual_tokenizer.head.1", predicted, bias=True),
            blocks.replicated("vte", (words, facts.integer("hidden_size"))),
        ),
        items=ovis_items(own, known),
        forward=_pass(known, stride, words),
    )


def _pass(vision: Facts, merge: int, words: int) -> TowerPass:
    """Return the tower's pass, widest where each token has a share of every word.

    Merged patches, logits, shares, and shares with those of the indicators.

    Source: vLLM 0.33.0 and 0.19.1 `models/ovis.py` VisualTokenizer.forward.
    """
    size, wide = vision.integers("hidden_size", "intermediate_size")
    values = merge**2 * size + 2 * (words - _OVIS_INDICATORS) + words
    passed = block_pass(size, wide, beside=4, is_gated="aimv2" in vision.model_type)
    head = Moment("words", whole=values // merge**2)
    return replace(passed, moments=(*passed.moments, head))


def _aimv2(facts: Facts, name: str) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/aimv2.py` AIMv2Model, without its last norm."""
    sizes, patch = blocks.Sizes.of(facts), facts.integer("patch_size")
    size, wide, has_bias = sizes.width, sizes.mlp, facts.flag("mlp_bias")
    first, channels = f"{name}.preprocessor", facts.integer("num_channels", default=3)
    convolution = f"{first}.patchifier.proj"
    yield blocks.convolution(convolution, size, channels, patch, patch, bias=True)
    patches = (facts.integer("image_size") // patch) ** 2
    yield blocks.replicated(f"{first}.pos_embed", (size,), (patches, size))
    yield from blocks.repeated(
        f"{name}.trunk.blocks",
        sizes.depth,
        blocks.qkv("attn.qkv", size, sizes.heads, bias=facts.flag("qkv_bias")),
        blocks.row("attn.proj", size, size, bias=has_bias),
        blocks.column("mlp.fc13", size, wide, wide, bias=has_bias),
        blocks.row("mlp.fc2", wide, size, bias=has_bias),
        blocks.norms("norm", size, count=2, bias=False),
    )


# Ovis 2.5 and 2.6: images become words of a vocabulary of their own.
_OVIS2_5_INDICATORS = 4
"""Words for an image's ends, which the tower's head does not predict."""


def _modules(facts: Facts, _text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/ovis2_5.py`."""
    vision = sub_config(facts, "vit_config", "siglip2_navit")
    if facts.mapping("vit_config").get("model_type") not in (None, "siglip2_navit"):
        raise facts.unsupported("vit_config", "SigLIP 2 is.")
    words, stride = facts.integer("visual_vocab_size"), vision.integer("hidden_stride")
    merged, predicted = (
        vision.integer("hidden_size") * stride**2,
        words - _OVIS2_5_INDICATORS,
    )
    yield from _navit(vision)
    yield blocks.replicated("visual_tokenizer.head.0", (predicted, merged))
    yield blocks.norms("visual_tokenizer.head.1", predicted, bias=True)
    yield blocks.replicated("vte", (words, facts.integer("hidden_size")))


def _navit(facts: Facts) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/siglip2navit.py` Siglip2NavitModel."""
    patches = facts.value("num_patches")
    if not isinstance(patches, int) or patches <= 0:
        patches = (facts.integer("image_size") // facts.integer("patch_size")) ** 2
    sized = facts.having(num_patches=patches)
    for module in siglip2_vision(sized, "visual_tokenizer.vit"):
        is_table = "position_embedding" in module.name
        if facts.flag("preserve_original_pe") or not is_table:
            yield module
    head_size = facts.integer("hidden_size") // facts.integer("num_attention_heads")
    name = "visual_tokenizer.vit.vision_model.encoder.rotary_pos_emb"
    yield blocks.inverse_frequencies(name, head_size)


READERS: dict[str, Reader] = {
    "Ovis": Composite(_tower, text=Text("", name="llm_config"), prefix="llm."),
    **dict.fromkeys(
        ("Ovis2_5", "Ovis2_6ForCausalLM", "Ovis2_6_MoeForCausalLM"),
        Composite(
            _modules,
            text=Text("qwen3", other_name="llm_config"),
            modalities=IMAGE_AND_VIDEO,
            prefix="llm.",
        ),
    ),
}
