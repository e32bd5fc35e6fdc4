"""Fun-ASR: SenseVoice's encoder, an adaptor of fixed size, and Qwen3."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.fireredasr2 import encoder_conf, flat, transcriber
from planner.models.families.towers import blocks
from planner.models.layers import Module

_FEATURES = 560

_ADAPTOR, _ADAPTOR_MLP, _ADAPTOR_LAYERS = (512, 1024), 2048, 2
"""Fixed by vLLM's FunASREncoder: frames; an adaptor's input and output, MLP, layers."""


def read_fun_asr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Fun-ASR: SenseVoice's encoder, an adaptor of fixed size, and Qwen3.

    Source: vLLM 0.33.0 `models/funasr.py`.
    """
    audio, name = encoder_conf(facts), "model.encoder"
    model = flat(facts, label, "Qwen3ForCausalLM")
    narrow, wide = _ADAPTOR
    adaptor = f"{name}.audio_adaptor"
    modules: list[Module] = [
        *_sense_voice(audio, f"{name}.audio_encoder"),
        *blocks.plain_mlp(
            f"{adaptor}.linear1", f"{adaptor}.linear2", narrow, _ADAPTOR_MLP
        ),
    ]
    modules[-1] = blocks.row(f"{adaptor}.linear2", _ADAPTOR_MLP, wide, bias=True)
    for index in range(_ADAPTOR_LAYERS):
        layer = f"{adaptor}.blocks.{index}"
        modules += [
            blocks.qkv(f"{layer}.self_attn.qkv", wide, 8, bias=True),
            blocks.row(f"{layer}.self_attn.out_proj", wide, wide, bias=True),
            *blocks.plain_mlp(f"{layer}.w_1", f"{layer}.w_2", wide, wide // 4),
            blocks.norms(f"{layer}.norm", wide, count=2, bias=True),
        ]
    unquantised = tuple(blocks.unquantised(*modules))
    return transcriber(facts, label, model, unquantised)


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
    "FunASRForConditionalGeneration": read_fun_asr,
}
