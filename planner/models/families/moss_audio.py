"""MOSS-Audio: an encoder of sounds, and Qwen3."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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


def read_moss_audio(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MOSS-Audio: an encoder of sounds, and Qwen3.

    Source: vLLM 0.33.0 `models/moss_audio.py`.
    """
    text = text_facts(facts, "qwen3", name="language_config")
    model = read_language_model(named(text, "Qwen3ForCausalLM", "qwen3"), label)
    audio = sub_config(facts, "audio_config", "")
    output = audio.integer("output_dim", default=1280)
    wide = facts.integer("adapter_hidden_size", default=8192)
    captured = audio.value("deepstack_encoder_layer_indexes")
    levels = len([8, 16, 24] if captured is None else captured)
    most = facts.optional_integer("deepstack_num_inject_layers")
    levels = levels if most is None else min(levels, most)
    merger = "deepstack_audio_merger_list"
    adapters = ("audio_adapter", *(f"{merger}.{level}" for level in range(levels)))
    modules = (
        *_moss_encoder(audio, output),
        *(
            module
            for name in adapters
            for module in (
                blocks.column(f"{name}.gate_up_proj", output, wide, wide, bias=False),
                blocks.row(f"{name}.down_proj", wide, model.hidden_size, bias=False),
            )
        ),
    )
    tower = Tower(modalities=AUDIO, modules=modules)
    model = replace(model, deepstack_layers=levels)
    return composed(facts, label, model, tower)


def _moss_encoder(facts: Facts, output: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/moss_audio.py` MossAudioEncoder and its defaults."""
    size = facts.integer("d_model", default=1280)
    heads = facts.integer("encoder_attention_heads", default=20)
    wide = facts.integer("encoder_ffn_dim", default=5120)
    channels = facts.integer("downsample_hidden_size", default=480)
    bands = -(-facts.integer("num_mel_bins", default=128) // 8)
    name = "audio_encoder"
    yield blocks.convolution(f"{name}.conv1", channels, 1, 3, 3, bias=True)
    for index in (2, 3):
        conv = f"{name}.conv{index}"
        yield blocks.convolution(conv, channels, channels, 3, 3, bias=True)
    yield blocks.whole(f"{name}.stem_proj", channels * bands, size, bias=True)
    positions = f"{name}.embed_positions.inv_timescales"
    yield blocks.replicated(positions, (size // 2,), dtype="float32")
    for index in range(facts.integer("encoder_layers", default=32)):
        layer = f"{name}.layers.{index}"
        yield blocks.DividedHeads(name=f"{layer}.self_attn", num_heads=heads)
        for each, has_bias in (("q", True), ("k", False), ("v", True)):
            linear = f"{layer}.self_attn.{each}_proj"
            yield blocks.column(linear, size, size, bias=has_bias)
        yield blocks.row(f"{layer}.self_attn.out_proj", size, size, bias=True)
        yield blocks.norms(f"{layer}.layer_norm", size, count=2, bias=True)
        yield from blocks.plain_mlp(f"{layer}.fc1", f"{layer}.fc2", size, wide)
    yield blocks.norms(f"{name}.layer_norm", size, bias=True)
    if output != size:
        yield blocks.whole(f"{name}.out_proj", size, output, bias=False)


READERS = {
    "MossAudioModel": read_moss_audio,
}
