"""Fun-ASR: SenseVoice's encoder, an adaptor of fixed size, and Qwen3."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import nested
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.layers import Module

_FEATURES = 560
_ADAPTOR, _ADAPTOR_MLP, _ADAPTOR_LAYERS = (512, 1024), 2048, 2
"""Fixed by vLLM's FunASREncoder: frames; an adaptor's input and output, MLP, layers."""


def _modules(facts: Facts, _text_size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/funasr.py`."""
    audio = nested(facts, "audio_encoder_conf", "audio_encoder_conf")
    name = "model.encoder"
    narrow, wide = _ADAPTOR
    adaptor = f"{name}.audio_adaptor"
    return blocks.unquantised(
        *_sense_voice(audio, f"{name}.audio_encoder"),
        blocks.column(f"{adaptor}.linear1", narrow, _ADAPTOR_MLP, bias=True),
        blocks.row(f"{adaptor}.linear2", _ADAPTOR_MLP, wide, bias=True),
        *blocks.repeated(
            f"{adaptor}.blocks",
            _ADAPTOR_LAYERS,
            blocks.qkv("self_attn.qkv", wide, 8, bias=True),
            blocks.row("self_attn.out_proj", wide, wide, bias=True),
            *blocks.plain_mlp("w_1", "w_2", wide, wide // 4),
            blocks.norms("norm", wide, count=2, bias=True),
        ),
    )


def _sense_voice(facts: Facts, name: str) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/funasr.py` SenseVoiceEncoderSmall."""
    size = facts.integer("output_size", default=256)
    wide = facts.integer("linear_units", default=2048)
    kernel = facts.integer("kernel_size", default=11)
    count = facts.integer("num_blocks", default=6)
    count += facts.integer("tp_blocks", default=0)
    yield blocks.norms(f"{name}.norms", size, count=2, bias=True)
    for index in range(count):
        layer, width = f"{name}.encoders.{index}", size if index else _FEATURES
        yield blocks.whole(f"{layer}.linear_q_k_v", width, 3 * size, bias=True)
        yield blocks.whole(f"{layer}.out_proj", size, size, bias=True)
        yield blocks.replicated(f"{layer}.fsmn_block", (size, kernel))
        yield from blocks.plain_mlp(f"{layer}.w_1", f"{layer}.w_2", size, wide)
        yield blocks.norms(f"{layer}.norm1", width, bias=True)
        yield blocks.norms(f"{layer}.norm2", size, bias=True)


READERS = {
    "FunASRForConditionalGeneration": Composite(
        _modules,
        text=Text("", "Qwen3ForCausalLM", name=""),
        modalities=AUDIO,
        prefix="model.decoder.",
        supports_pp=False,
    )
}
