"""Fun-Audio-Chat: an encoder of sounds, one of codes, and Qwen3."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.audio import convolutions
from planner.models.families.towers.blocks import AUDIO
from planner.models.layers import Module


def _modules(facts: Facts, _text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/funaudiochat.py`."""
    audio = sub_config(facts, "audio_config", "funaudiochat_audio_encoder")
    size, out = audio.integers("d_model", "output_dim")
    name, wide = "continuous_audio_tower", audio.integer("encoder_ffn_dim")
    heads = audio.integer("encoder_attention_heads")
    yield from convolutions(audio, name)
    yield from blocks.repeated(
        f"{name}.layers",
        audio.integer("encoder_layers"),
        *blocks.unquantised(
            blocks.qkv("self_attn.qkv_proj", size, heads, bias=True),
            blocks.row("self_attn.out_proj", size, size, bias=True),
        ),
        blocks.norms("layer_norm", size, count=2, bias=True),
        blocks.two_layers("fc", size, size, between=wide),
    )
    yield blocks.norms(f"{name}.ln_post", size, bias=True)
    yield blocks.replicated(f"{name}.proj", (out, size), (out,), (2, out))
    positions = audio.integer("max_source_positions"), size
    embedding = f"{name}.positional_embedding"
    yield blocks.replicated(embedding, positions, dtype="float32")
    codes = audio.integer("codebook_size"), out
    yield blocks.replicated("audio_tower", codes, (out, out), (out, out))


READERS = {
    "FunAudioChatForConditionalGeneration": Composite(
        _modules, text=Text("qwen3", "Qwen3ForCausalLM"), modalities=AUDIO
    )
}
