"""MiDashengLM: Dasheng's encoder of sounds and Qwen2."""

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


def read_midashenglm(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MiDashengLM: Dasheng's encoder of sounds and Qwen2.

    Source: vLLM 0.33.0 `models/midashenglm.py`.
    """
    text = text_facts(facts, "qwen2_5_omni_text")
    inner = named(text, "Qwen2ForCausalLM")
    model = read_language_model(inner, label)
    audio = sub_config(facts, "audio_encoder_config", "midashenglm_dasheng_encoder")
    size, wide = audio.integer("embed_dim"), model.hidden_size
    joined = size * facts.integer("subsample_factor")
    modules = (
        *_dasheng(audio),
        blocks.column("audio_projector.net.0", joined, wide, bias=True),
        blocks.row("audio_projector.net.2", wide, wide, bias=True),
    )
    tower = Tower(modalities=AUDIO, modules=modules)
    return composed(facts, label, model, tower, prefix="decoder.")


def _dasheng(facts: Facts) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/midashenglm.py` DashengAudioTransformer."""
    size, heads = facts.integer("embed_dim"), facts.integer("num_heads")
    name, mels = "audio_encoder", facts.integer("n_mels")
    bins = facts.integer("n_fft") // 2 + 1
    high, wide = _both(facts, "patch_size")
    step_high, step_wide = _both(facts, "patch_stride")
    yield blocks.replicated(
        f"{name}.front_end",
        (facts.integer("win_length"),),
        (bins, mels),
    )
    yield blocks.replicated(f"{name}.init_bn", *((mels,),) * 4)
    yield blocks.replicated(f"{name}.init_bn.num_batches_tracked", (), dtype="int64")
    channels = facts.integer("input_channels")
    yield blocks.convolution(
        f"{name}.patch_embed.proj", size, channels, high, wide, bias=True
    )
    times, bands = facts.integer("target_length") // step_wide, mels // step_high
    yield blocks.replicated(f"{name}.pos_embed", (size, times), (size, bands))
    mlp_size = int(size * facts.number("mlp_ratio"))
    has_scales = bool(facts.value("init_values"))
    for index in range(facts.integer("depth")):
        block = f"{name}.blocks.{index}"
        yield blocks.norms(f"{block}.norm", size, count=2, bias=True)
        yield blocks.qkv(f"{block}.attn.qkv", size, heads, bias=facts.flag("qkv_bias"))
        yield blocks.row(f"{block}.attn.proj", size, size, bias=True)
        yield from blocks.plain_mlp(
            f"{block}.mlp.fc1", f"{block}.mlp.fc2", size, mlp_size
        )
        if has_scales:
            yield blocks.replicated(f"{block}.ls", (size,), (size,))
    yield blocks.norms(f"{name}.norm", size, bias=True)


def _both(facts: Facts, name: str) -> tuple[int, int]:
    """Return a size of height and width, which one number may stand for."""
    value = facts.value(name)
    if isinstance(value, list):
        return int(value[0]), int(value[1])
    return (facts.integer(name),) * 2


READERS = {
    "MiDashengLMModel": read_midashenglm,
}
