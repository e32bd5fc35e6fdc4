"""Fun-Audio-Chat: an encoder of sounds, one of codes, and Qwen3."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    named,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.layers import Module


def read_funaudiochat(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Fun-Audio-Chat: an encoder of sounds, one of codes, and Qwen3.

    Source: vLLM 0.33.0 `models/funaudiochat.py`.
    """
    text = text_facts(facts, "qwen3")
    inner = named(text, "Qwen3ForCausalLM", "qwen3")
    model = read_language_model(inner, label)
    audio = sub_config(facts, "audio_config", "funaudiochat_audio_encoder")
    size, wide = audio.integer("d_model"), audio.integer("output_dim")
    name, mels = "continuous_audio_tower", audio.integer("num_mel_bins")
    modules = (
        blocks.convolution(f"{name}.conv1", size, mels, 3, bias=True),
        blocks.convolution(f"{name}.conv2", size, size, 3, bias=True),
        *(
            module
            for index in range(audio.integer("encoder_layers"))
            for module in _audio_layer(audio, f"{name}.layers.{index}")
        ),
        blocks.norms(f"{name}.ln_post", size, bias=True),
        blocks.replicated(f"{name}.proj", (wide, size), (wide,), (2, wide)),
        blocks.replicated(
            f"{name}.positional_embedding",
            (audio.integer("max_source_positions"), size),
            dtype="float32",
        ),
        blocks.replicated(
            "audio_tower",
            (audio.integer("codebook_size"), wide),
            (wide, wide),
            (wide, wide),
        ),
    )
    return composed(facts, label, model, Tower(modalities=AUDIO, modules=modules))


def _audio_layer(facts: Facts, name: str) -> Iterator[Module]:
    size, wide = facts.integer("d_model"), facts.integer("encoder_ffn_dim")
    heads = facts.integer("encoder_attention_heads")
    qkv = blocks.qkv(f"{name}.self_attn.qkv_proj", size, heads, bias=True)
    output = blocks.row(f"{name}.self_attn.out_proj", size, size, bias=True)
    yield from blocks.unquantised(qkv, output)
    yield blocks.norms(f"{name}.layer_norm", size, count=2, bias=True)
    yield blocks.replicated(f"{name}.fc", (wide, size), (wide,), (size, wide), (size,))


READERS = {
    "FunAudioChatForConditionalGeneration": read_funaudiochat,
}
