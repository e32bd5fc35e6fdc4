"""Phi-4-multimodal, for images and sounds, and Phi-3-vision, for images.

Both classes are in each release that the planner knows, from 0.9.2 on.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import known_as, with_towers
from planner.models.families.towers import blocks, crops
from planner.models.families.towers.clip import Depth, clip_vision, idefics_vision
from planner.models.families.towers.conformer import conformer
from planner.models.layers import Module, Part, VocabParallelEmbedding

_SIGLIP = {
    "hidden_size": 1152,
    "image_size": 448,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "num_channels": 3,
    "num_hidden_layers": 27,
    "patch_size": 14,
}
_CLIP_LARGE = {
    "hidden_size": 1024,
    "image_size": 336,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_channels": 3,
    "num_hidden_layers": 24,
    "patch_size": 14,
}
_PHI4_RENAMES = (
    ("model.embed_tokens_extend.image_embed.", "vision_encoder."),
    ("model.embed_tokens_extend.audio_embed.", "embed_tokens_extend."),
)
_PHI3_RENAMES = (
    ("model.vision_embed_tokens.", "vision_embed_tokens."),
    ("model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
)


def read_phi4_multimodal(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Phi-4-multimodal without the adapters that its checkpoint has.

    vLLM loads only the layers below them; the adapters can be served as LoRA.

    Source: vLLM 0.33.0 `models/phi4mm.py` Phi4MMForCausalLM (hf_to_vllm_mapper drops
    every name with "lora" in it).
    """
    model = llama.read(
        facts, replace(label, architecture="LlamaForCausalLM"), style=llama.LLAMA
    )
    whole = with_towers(
        model,
        (
            _vision_tower(facts, model.hidden_size),
            _audio_tower(facts, model.hidden_size),
        ),
        layer_prefix=model.layer_prefix,
        prefix_renames=_PHI4_RENAMES,
    )
    return replace(known_as(whole, facts, label), supports_pp=False)


def _vision_tower(facts: Facts, text_size: int) -> Tower:
    """Return SigLIP without its last layers, and two layers after it.

    Dropped when both images and videos are switched off, though it takes no videos.

    Source: vLLM 0.33.0 `models/phi4mm.py` Phi4MMImageEncoder.
    """
    if facts.value("img_processor") is not None:
        raise facts.unsupported("img_processor", "SigLIP, which needs none, is.")
    name, vision = "vision_encoder", Facts(_SIGLIP, "siglip_vision_model")
    size = vision.integer("hidden_size")
    depth = Depth(num_layers=vision.integer("num_hidden_layers") - 1)
    return Tower(
        modalities=("image", "video"),
        modules=(
            blocks.replicated(name, (1, 1, size), (1, 1, 1, size)),
            *blocks.unquantised(
                *idefics_vision(vision, f"{name}.img_processor", depth)
            ),
            _two_layers(f"{name}.img_projection", size, text_size),
        ),
        items=crops.phi4_image_items(),
    )


def _audio_tower(facts: Facts, text_size: int) -> Tower:
    """Return the conformer, with one projector for sounds and one beside images.

    Source: vLLM 0.33.0 `models/phi4mm_audio.py` AudioEmbedding.
    """
    processor = facts.mapping("audio_processor")
    if processor.get("name") != "cascades":
        raise facts.unsupported("audio_processor", "cascades is.")
    layer = facts.mapping("embd_layer").get("audio_embd_layer") or {}
    is_plain = not (layer.get("use_qformer") or layer.get("use_conv_downsample"))
    if layer.get("projection_cls") != "mlp" or not is_plain:
        raise facts.unsupported("embd_layer", "an audio projector of two layers is.")
    name, encoder = "embed_tokens_extend", Facts(processor["config"], facts.model_type)
    size = encoder.integer("attention_dim") * int(layer.get("downsample_rate", 1))
    return Tower(
        modalities=("audio",),
        modules=(
            *conformer(encoder, f"{name}.encoder"),
            _two_layers(f"{name}.audio_projection", size, text_size),
            _two_layers(f"{name}.audio_projection_for_vision", size, text_size),
        ),
        items=crops.phi4_audio_items(encoder, layer),
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
            _two_layers(f"{name}.img_projection", size, text_size),
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


def _two_layers(name: str, input_size: int, output_size: int) -> Module:
    """Return torch's own linear layers, one after the other."""
    vector = (output_size,)
    return blocks.replicated(
        name, (output_size, input_size), vector, (output_size, output_size), vector
    )


READERS = {
    "Phi3VForCausalLM": read_phi3_vision,
    "Phi4MMForCausalLM": read_phi4_multimodal,
}
