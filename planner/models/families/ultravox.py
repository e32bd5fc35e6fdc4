"""Ultravox: Whisper's encoder, and frames stacked for a language model."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.whisper import encoder_modules
from planner.models.layers import Module


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/ultravox.py`."""
    if facts.optional_integer("num_projector_layers"):
        raise facts.unsupported("num_projector_layers", "a plain projector is.")
    audio = sub_config(facts, "audio_config", "whisper")
    stacked = audio.integer("d_model") * facts.integer("stack_factor")
    wide, name = facts.integer("hidden_size"), "multi_modal_projector"
    middle = wide // 2 if facts.value("projector_act") == "swiglu" else wide
    last = middle if facts.flag("projector_ln_mid") else text_size
    yield from encoder_modules(audio, "audio_tower")
    yield blocks.norms(f"{name}.ln_pre", stacked, bias=False)
    yield blocks.whole(f"{name}.linear_1", stacked, wide, bias=False)
    yield blocks.whole(f"{name}.linear_2", middle, text_size, bias=False)
    yield blocks.norms(f"{name}.ln", last, bias=False)


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    for name in ("audio_model_id", "text_model_id"):
        if facts.value(name) and not facts.mapping(name.replace("model_id", "config")):
            raise facts.unsupported(name, "that model's config is needed here.")
    return Text()(facts, label)


READERS = {"UltravoxModel": Composite(_modules, text=_text, modalities=AUDIO)}
