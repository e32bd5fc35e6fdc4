"""MOSS-Audio: an encoder of sounds, and Qwen3."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import composed, sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.layers import Module


def read_moss_audio(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MOSS-Audio, which hands layers of its encoder to layers of Qwen3.

    Source: vLLM 0.33.0 `models/moss_audio.py`.
    """
    model = Text("qwen3", "Qwen3ForCausalLM", name="language_config")(facts, label)
    audio = sub_config(facts, "audio_config", "")
    captured = audio.value("deepstack_encoder_layer_indexes")
    levels = len([8, 16, 24] if captured is None else captured)
    most = facts.optional_integer("deepstack_num_inject_layers")
    levels = levels if most is None else min(levels, most)
    output = audio.integer("output_dim", default=1280)
    wide = facts.integer("adapter_hidden_size", default=8192)
    adapter = (
        blocks.column("gate_up_proj", output, wide, wide, bias=False),
        blocks.row("down_proj", wide, model.hidden_size, bias=False),
    )
    modules = (
        *_encoder(audio, output),
        *(replace(one, name=f"audio_adapter.{one.name}") for one in adapter),
        *blocks.repeated("deepstack_audio_merger_list", levels, *adapter),
    )
    tower = Tower(AUDIO, modules)
    return composed(facts, label, replace(model, deepstack_layers=levels), tower)


def _encoder(facts: Facts, output: int) -> Iterator[Module]:
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
    yield from blocks.repeated(
        f"{name}.layers",
        facts.integer("encoder_layers", default=32),
        blocks.DividedHeads(name="self_attn", num_heads=heads),
        blocks.column("self_attn.q_proj", size, size, bias=True),
        blocks.column("self_attn.k_proj", size, size, bias=False),
        blocks.column("self_attn.v_proj", size, size, bias=True),
        blocks.row("self_attn.out_proj", size, size, bias=True),
        blocks.norms("layer_norm", size, count=2, bias=True),
        *blocks.plain_mlp("fc1", "fc2", size, wide),
    )
    yield blocks.norms(f"{name}.layer_norm", size, bias=True)
    if output != size:
        yield blocks.whole(f"{name}.out_proj", size, output, bias=False)


READERS = {"MossAudioModel": read_moss_audio}
