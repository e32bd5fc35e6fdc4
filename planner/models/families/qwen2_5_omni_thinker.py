"""The thinker of Qwen2.5-Omni; vLLM leaves out talker and vocoder."""

from __future__ import annotations

from functools import partial

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import nested, sub_config
from planner.models.families.towers.audio import qwen2_5_omni_audio_tower
from planner.models.families.towers.qwen_vl import qwen2_5_vl_tower

THINKER_RENAMES = (
    ("thinker.lm_head.", "language_model.lm_head."),
    ("thinker.model.", "language_model.model."),
    ("thinker.", ""),
)


def read_thinker(
    facts: Facts, label: Label, *, model_type: str, architecture: str
) -> ModelArchitecture:
    """Return the language model, with the outer config's fields of the whole."""
    whole = ("tie_word_embeddings", "dtype", "torch_dtype")
    given = nested(facts, "thinker_config").config
    outer = {key: facts.config[key] for key in whole if key in facts.config}
    inner = {key: value for key, value in given.items() if key not in whole}
    thinker = Facts({**inner, **outer}, facts.model_type)
    return Text(model_type, architecture)(thinker, label)


def _towers(facts: Facts, _text_size: int) -> tuple[Tower, ...]:
    """Source: vLLM 0.33.0 `models/qwen2_5_omni_thinker.py`."""
    thinker = nested(facts, "thinker_config")
    vision = sub_config(thinker, "vision_config", "qwen2_5_omni_vision_encoder")
    audio = sub_config(thinker, "audio_config", "qwen2_5_omni_audio_encoder")
    return qwen2_5_omni_audio_tower(audio), qwen2_5_vl_tower(vision, is_omni=True)


READERS = dict.fromkeys(
    ("Qwen2_5OmniModel", "Qwen2_5OmniForConditionalGeneration"),
    Composite(
        _towers,
        text=partial(
            read_thinker,
            model_type="qwen2_5_omni_text",
            architecture="Qwen2ForCausalLM",
        ),
        renames=THINKER_RENAMES,
    ),
)
