"""GLM-ASR: Whisper's convolutions, and layers with rotary positions."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    named,
    read_language_model,
    sub_config,
    text_of,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.audio import convolutions
from planner.models.families.towers.blocks import AUDIO
from planner.models.layers import Module


def read_glm_asr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GLM-ASR: Whisper's convolutions, and layers with rotary positions.

    Source: vLLM 0.33.0 `models/glmasr.py`.
    """
    text = text_of(facts)
    inner = named(text, "LlamaForCausalLM")
    model = read_language_model(inner, label)
    audio = as_whisper(sub_config(facts, "audio_config", "glmasr_encoder"))
    wide, text_size = audio.integer("encoder_ffn_dim"), model.hidden_size
    name = "multi_modal_projector"
    modules = (
        *_glm_encoder(audio, "audio_tower"),
        blocks.column(f"{name}.linear_1", wide, 2 * text_size, bias=True),
        blocks.row(f"{name}.linear_2", 2 * text_size, text_size, bias=True),
    )
    return composed(facts, label, model, Tower(modalities=AUDIO, modules=modules))


def _glm_encoder(facts: Facts, name: str) -> tuple[Module, ...]:
    size, heads = facts.integer("d_model"), facts.integer("encoder_attention_heads")
    kv_heads = facts.integer("num_key_value_heads", default=heads)
    head_size = facts.integer("head_dim", default=size // heads)
    factor = facts.mapping("rope_parameters").get("partial_rotary_factor", 1.0)
    modules: list[Module] = [
        *convolutions(facts, name),
        blocks.norms(f"{name}.norm", size, bias=True),
        blocks.replicated(
            f"{name}.rotary_emb", (int(head_size * factor) // 2,), dtype="float32"
        ),
    ]
    for index in range(facts.integer("encoder_layers")):
        layer = f"{name}.layers.{index}"
        qkv = blocks.qkv(
            f"{layer}.self_attn.qkv_proj",
            size,
            heads,
            bias=True,
            shards=blocks.QKV_SHARDS,
        )
        modules += [
            replace(qkv, num_kv_heads=kv_heads),
            blocks.row(f"{layer}.self_attn.o_proj", size, size, bias=True),
            *blocks.plain_mlp(
                f"{layer}.mlp.fc1",
                f"{layer}.mlp.fc2",
                size,
                facts.integer("encoder_ffn_dim"),
            ),
            blocks.norms(f"{layer}.layernorm", size, count=2, bias=True),
        ]
    return tuple(modules)


def as_whisper(facts: Facts) -> Facts:
    """Return an encoder's config under Whisper's names."""
    named = {
        "d_model": facts.integer("d_model", "hidden_size"),
        "encoder_layers": facts.integer("encoder_layers", "num_hidden_layers"),
        "encoder_attention_heads": facts.integer(
            "encoder_attention_heads", "num_attention_heads"
        ),
        "encoder_ffn_dim": facts.integer("encoder_ffn_dim", "intermediate_size"),
    }
    return Facts({**facts.config, **named}, facts.model_type)


READERS = {
    "GlmAsrForConditionalGeneration": read_glm_asr,
}
