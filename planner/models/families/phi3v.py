"""Phi-3-vision and Phi-3.5-vision: CLIP on a Llama."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, Text
from planner.models.families.decoder import embeddings
from planner.models.families.facts import Facts
from planner.models.families.multimodal import MODEL_RENAMES
from planner.models.families.towers import blocks, crops
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import Depth, clip_vision
from planner.models.layers import Part

_CLIP_LARGE = {
    "hidden_size": 1024,
    "image_size": 336,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_channels": 3,
    "num_hidden_layers": 24,
    "patch_size": 14,
}


def _tower(facts: Facts, text_size: int) -> Tower:
    """Return CLIP, beside which the word embeddings are there once more.

    Source: vLLM 0.33.0 `models/phi3v.py` Phi3VForCausalLM, Phi3HDImageEmbedding.
    """
    processor = facts.mapping("img_processor")
    if processor.get("name", "clip_vision_model") != "clip_vision_model":
        raise facts.unsupported("img_processor", "CLIP is.")
    name, vision = "vision_embed_tokens", Facts(_CLIP_LARGE, "clip_vision_model")
    chosen = int(processor.get("layer_idx", -2))
    depth = chosen + 1 + (_CLIP_LARGE["num_hidden_layers"] if chosen < 0 else 0)
    size = 4 * int(processor["image_dim_out"])
    words = embeddings(facts.integer("vocab_size"), text_size, "embed_tokens")
    return Tower(
        IMAGE,
        (
            replace(words, part=Part.TOWERS),
            *clip_vision(vision, f"{name}.img_processor", Depth(num_layers=depth)),
            blocks.replicated(name, (1, 1, size), (1, 1, 1, size)),
            blocks.two_layers(f"{name}.img_projection", size, text_size),
        ),
        items=crops.phi3_items(),
    )


READERS = {
    "Phi3VForCausalLM": Composite(
        _tower,
        text=Text("", "LlamaForCausalLM", name=""),
        renames=(
            ("model.vision_embed_tokens.", "vision_embed_tokens."),
            *reversed(MODEL_RENAMES),
        ),
    )
}
