"""Phi-3-vision and Phi-3.5-vision: CLIP on a Llama."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import known_as, with_towers
from planner.models.families.towers import blocks, crops
from planner.models.families.towers.clip import Depth, clip_vision
from planner.models.layers import Module, Part, VocabParallelEmbedding

_CLIP_LARGE = {
    "hidden_size": 1024,
    "image_size": 336,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_channels": 3,
    "num_hidden_layers": 24,
    "patch_size": 14,
}

_PHI3_RENAMES = (
    ("model.vision_embed_tokens.", "vision_embed_tokens."),
    ("model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
)


def read_phi3_vision(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Phi-3-vision and Phi-3.5-vision: CLIP on a Llama.

    The word embeddings are there twice, in the tower and in the language model.

    Source: vLLM 0.33.0 `models/phi3v.py` Phi3VForCausalLM, Phi3HDImageEmbedding.
    """
    model = llama.read(
        facts, replace(label, architecture="LlamaForCausalLM"), style=llama.LLAMA
    )
    processor, text_size = facts.mapping("img_processor"), model.hidden_size
    if processor.get("name", "clip_vision_model") != "clip_vision_model":
        raise facts.unsupported("img_processor", "CLIP is.")
    name, vision = "vision_embed_tokens", Facts(_CLIP_LARGE, "clip_vision_model")
    chosen, layers = int(processor.get("layer_idx", -2)), _CLIP_LARGE
    depth = chosen + 1 + (layers["num_hidden_layers"] if chosen < 0 else 0)
    size = 4 * int(processor["image_dim_out"])
    words: Module = VocabParallelEmbedding(
        name="embed_tokens",
        part=Part.TOWERS,
        num_embeddings=facts.integer("vocab_size"),
        embedding_dim=text_size,
    )
    tower = Tower(
        modalities=("image",),
        modules=(
            words,
            *clip_vision(vision, f"{name}.img_processor", Depth(num_layers=depth)),
            blocks.replicated(name, (1, 1, size), (1, 1, 1, size)),
            two_layers(f"{name}.img_projection", size, text_size),
        ),
        items=crops.phi3_items(),
    )
    whole = with_towers(
        model,
        (tower,),
        layer_prefix="language_model.model.layers",
        prefix_renames=_PHI3_RENAMES,
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


def two_layers(name: str, input_size: int, output_size: int) -> Module:
    """Return torch's own linear layers, one after the other."""
    vector = (output_size,)
    return blocks.replicated(
        name, (output_size, input_size), vector, (output_size, output_size), vector
    )


READERS = {
    "Phi3VForCausalLM": read_phi3_vision,
}
