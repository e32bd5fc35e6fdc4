"""MiDashengLM: Dasheng's encoder of sounds and Qwen2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.towers.facts import sides
from planner.models.layers import Module


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    audio = sub_config(facts, "audio_encoder_config", "midashenglm_dasheng_encoder")
    joined = audio.integer("embed_dim") * facts.integer("subsample_factor")
    yield from _dasheng(audio)
    yield blocks.column("audio_projector.net.0", joined, text_size, bias=True)
    yield blocks.row("audio_projector.net.2", text_size, text_size, bias=True)


def _dasheng(facts: Facts) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/midashenglm.py` DashengAudioTransformer."""
    size = facts.integer("embed_dim")
    name = "audio_encoder"
    mels = facts.integer("n_mels")
    bins, front = facts.integer("n_fft") // 2 + 1, facts.integer("win_length")
    high, wide = sides(facts, "patch_size")
    step_high, step_wide = sides(facts, "patch_stride")
    yield blocks.replicated(f"{name}.front_end", (front,), (bins, mels))
    yield blocks.replicated(f"{name}.init_bn", *((mels,),) * 4)
    yield blocks.replicated(f"{name}.init_bn.num_batches_tracked", (), dtype="int64")
    embedding, channels = f"{name}.patch_embed.proj", facts.integer("input_channels")
    yield blocks.convolution(embedding, size, channels, high, wide, bias=True)
    times, bands = facts.integer("target_length") // step_wide, mels // step_high
    yield blocks.replicated(f"{name}.pos_embed", (size, times), (size, bands))
    heads, mlp = facts.integer("num_heads"), int(size * facts.number("mlp_ratio"))
    sizes = blocks.Sizes(size, heads, mlp, facts.integer("depth"))
    layer = blocks.layer(sizes, replace(blocks.VIT, qkv_bias=facts.flag("qkv_bias")))
    if facts.value("init_values"):
        layer = (*layer, blocks.replicated("ls", (size,), (size,)))
    yield from blocks.repeated(f"{name}.blocks", sizes.depth, *layer)
    yield blocks.norms(f"{name}.norm", size, bias=True)


READERS = {
    "MiDashengLMModel": Composite(
        _modules,
        text=Text("qwen2_5_omni_text", "Qwen2ForCausalLM"),
        modalities=AUDIO,
        prefix="decoder.",
    )
}
