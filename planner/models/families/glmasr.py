"""GLM-ASR: Whisper's convolutions, and layers with rotary positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    named,
    read_language_model,
    sub_config,
    text_of,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.audio import as_whisper, convolutions
from planner.models.families.towers.blocks import AUDIO
from planner.models.layers import Module


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    return read_language_model(named(text_of(facts), "LlamaForCausalLM"), label)


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/glmasr.py`."""
    audio = as_whisper(sub_config(facts, "audio_config", "glmasr_encoder"))
    wide, name = audio.integer("encoder_ffn_dim"), "multi_modal_projector"
    yield from _encoder(audio, "audio_tower")
    yield blocks.column(f"{name}.linear_1", wide, 2 * text_size, bias=True)
    yield blocks.row(f"{name}.linear_2", 2 * text_size, text_size, bias=True)


def _encoder(facts: Facts, name: str) -> Iterator[Module]:
    size, heads = facts.integers("d_model", "encoder_attention_heads")
    kv_heads = facts.integer("num_key_value_heads", default=heads)
    head_size = facts.integer("head_dim", default=size // heads)
    factor = facts.mapping("rope_parameters").get("partial_rotary_factor", 1.0)
    frequencies = (int(head_size * factor) // 2,)
    yield from convolutions(facts, name)
    yield blocks.norms(f"{name}.norm", size, bias=True)
    yield blocks.replicated(f"{name}.rotary_emb", frequencies, dtype="float32")
    qkv, shards = "self_attn.qkv_proj", blocks.QKV_SHARDS
    packed = blocks.qkv(qkv, size, heads, bias=True, shards=shards)
    yield from blocks.repeated(
        f"{name}.layers",
        facts.integer("encoder_layers"),
        replace(packed, num_kv_heads=kv_heads),
        blocks.row("self_attn.o_proj", size, size, bias=True),
        *blocks.plain_mlp("mlp.fc1", "mlp.fc2", size, facts.integer("encoder_ffn_dim")),
        blocks.norms("layernorm", size, count=2, bias=True),
    )


READERS = {
    "GlmAsrForConditionalGeneration": Composite(_modules, text=_text, modalities=AUDIO)
}
