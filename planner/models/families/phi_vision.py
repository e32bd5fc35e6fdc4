"""Phi-3-vision, Phi-3.5-vision, and Phi-4-multimodal for images and sounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import Tower
from planner.models.families.assembly import Reader
from planner.models.families.composite import MODEL_RENAMES, Composite, Text
from planner.models.families.decoder import embeddings
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks, crops
from planner.models.families.towers.blocks import AUDIO, IMAGE, IMAGE_AND_VIDEO
from planner.models.families.towers.clip import Depth, clip_vision, idefics_vision
from planner.models.layers import Module, Part

# Phi-3-vision and Phi-3.5-vision: CLIP on a Llama.
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


# Phi-4-multimodal, for images and sounds. Its class is in each release that the planner
# knows, from 0.9.2 on.
_SIGLIP = {
    "hidden_size": 1152,
    "image_size": 448,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "num_channels": 3,
    "num_hidden_layers": 27,
    "patch_size": 14,
}
_POSITIONS = 5000
"""Rows of the table of sinusoids, which the class fills and never uses."""
_SHAPED_OTHERWISE: dict[str, object] = {
    "batch_norm": False,
    "attention_group_size": 1,
    "attention_inner_dim": -1,
    "depthwise_multiplier": 1,
    "input_layer": "nemo_conv",
    "linear_glu_in_convm": False,
}
"""Settings under which a block has other layers, and what they have to be."""
_NEMO_SETTINGS = {"conv_channels", "is_causal", "activation"}
"""Of nemo_conv_settings, those under which the layers are the same ones."""


def _towers(facts: Facts, text_size: int) -> tuple[Tower, ...]:
    return _vision_tower(facts, text_size), _audio_tower(facts, text_size)


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
    encoder = idefics_vision(vision, f"{name}.img_processor", depth)
    return Tower(
        IMAGE_AND_VIDEO,
        (
            blocks.replicated(name, (1, 1, size), (1, 1, 1, size)),
            *blocks.unquantised(*encoder),
            blocks.two_layers(f"{name}.img_projection", size, text_size),
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
    projectors = ("audio_projection", "audio_projection_for_vision")
    return Tower(
        AUDIO,
        (
            *_conformer(encoder, f"{name}.encoder"),
            *(
                blocks.two_layers(f"{name}.{one}", size, text_size)
                for one in projectors
            ),
        ),
        items=crops.phi4_audio_items(encoder, layer),
    )


def _conformer(facts: Facts, name: str) -> Iterator[Module]:
    """Yield the encoder: depthwise convolutions, relative positions, blocks.

    Args:
        facts: audio_processor.config.
        name: of the encoder within the model.

    Raises:
        UnknownArchitecture: for settings under which its layers are others.

    Source: vLLM 0.33.0 `models/phi4mm_audio.py` ConformerEncoder,
    TransformerEncoderBase, ConformerEncoderLayer; `models/phi4mm_utils.py`.
    """
    _check(facts)
    size, mel_bins = facts.integers("attention_dim", "input_size")
    relative = facts.mapping("relative_attention_bias_args")
    sides = 1 if relative.get("t5_bias_symmetric") else 2
    distances = sides * int(relative.get("t5_bias_max_distance", 1000))
    biases = (distances, facts.integer("attention_heads"))
    yield from _subsampling(facts, f"{name}.embed")
    yield blocks.replicated(f"{name}.pos_emb", (1, _POSITIONS, size))
    yield blocks.replicated(f"{name}.relative_attention_bias_layer", biases)
    yield blocks.replicated(f"{name}.encoder_embedding", (mel_bins,), (mel_bins,))
    yield blocks.replicated(f"{name}.dev_type", ())
    count = facts.integer("num_blocks")
    yield from blocks.repeated(f"{name}.encoders", count, *_block(facts))


def _check(facts: Facts) -> None:
    for field, usual in _SHAPED_OTHERWISE.items():
        if facts.value(field) not in (None, usual):
            raise facts.unsupported(field, f"{usual} is.")
    size = facts.integer("attention_dim")
    for field in ("ext_pw_out_channel", "depthwise_seperable_out_channel"):
        if facts.integer(field) != size:
            raise facts.unsupported(field, f"{size} is, as attention_dim.")
    if facts.mapping("relative_attention_bias_args").get("type") != "t5":
        raise facts.unsupported("relative_attention_bias_args", "type t5 is.")
    if not set(facts.mapping("nemo_conv_settings")) <= _NEMO_SETTINGS:
        raise facts.unsupported("nemo_conv_settings", "conv_channels alone is.")


def _subsampling(facts: Facts, name: str) -> Iterator[Module]:
    """Yield convolutions that halve steps and frequencies, and a linear layer.

    Source: vLLM 0.33.0 `models/phi4mm_utils.py` NemoConvSubsampling.
    """
    settings = facts.mapping("nemo_conv_settings")
    channels = int(settings.get("conv_channels", 256))
    size, bins = facts.integers("attention_dim", "input_size")
    reduction = facts.integer("time_reduction", default=4)
    halvings = reduction.bit_length() - 1
    if reduction != 1 << halvings:
        raise facts.unsupported("time_reduction", "a power of two is.")
    extra = 3 if settings.get("is_causal") else 2  # padding on both sides
    for _halving in range(halvings):
        bins = (bins + extra - 3) // 2 + 1
    each = ((channels, 1, 3, 3), (channels,), (channels, channels, 1, 1), (channels,))
    yield blocks.convolution(f"{name}.conv.0", channels, 1, 3, 3, bias=True)
    yield blocks.replicated(f"{name}.conv", *(each * (halvings - 1)))
    yield blocks.linear(f"{name}.out", channels * bins, size, bias=True)


def _block(facts: Facts) -> Iterator[Module]:
    """Yield two halves of an MLP around attention and a convolution."""
    size, mlp_size = facts.integers("attention_dim", "linear_units")
    gated = facts.flag("bias_in_glu", default=True)
    vector = (size,)
    mlp = ((2 * mlp_size, size), (size, mlp_size), vector)
    kernel = facts.integer("kernel_size", default=3)
    wide = facts.integer("ext_pw_kernel_size", default=1)
    pointwise = (size, size, wide), vector, (2 * size, size, wide), (2 * size,)
    depthwise = (size, 1, kernel), vector, (size, size, 1), vector
    halves = (*mlp, *(((2 * mlp_size,),) if gated else ()))
    gates = ((1, size, 1),) * (2 if gated else 0)
    yield blocks.replicated("feed_forward_in", *halves)
    yield blocks.replicated("self_attn", *((size, size),) * 4, *(vector,) * 4)
    yield blocks.replicated("conv", *pointwise, *depthwise, *gates)
    yield blocks.replicated("feed_forward_out", *halves)
    yield blocks.norms("layer_norm", size, count=5, bias=True)


READERS: dict[str, Reader] = {
    "Phi3VForCausalLM": Composite(
        _tower,
        text=Text("", "LlamaForCausalLM", name=""),
        renames=(
            ("model.vision_embed_tokens.", "vision_embed_tokens."),
            *reversed(MODEL_RENAMES),
        ),
    ),
    # Adapters are dropped, as by hf_to_vllm_mapper, and can be served as LoRA.
    # Source: vLLM 0.33.0 `models/phi4mm.py` Phi4MMForCausalLM.
    "Phi4MMForCausalLM": Composite(
        _towers,
        text=Text("", "LlamaForCausalLM", name=""),
        prefix="",
        renames=(
            ("model.embed_tokens_extend.image_embed.", "vision_encoder."),
            ("model.embed_tokens_extend.audio_embed.", "embed_tokens_extend."),
        ),
        supports_pp=False,
    ),
}
