"""The thinker of Qwen2.5-Omni; vLLM leaves out talker and vocoder."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    known_as,
    nested,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.qwen2_vl import LAYERS
from planner.models.families.towers.audio import qwen2_5_omni_audio_tower
from planner.models.families.towers.qwen_vl import qwen2_5_vl_tower


def read_qwen2_5_omni(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the thinker of Qwen2.5-Omni; vLLM leaves out talker and vocoder.

    Source: vLLM 0.33.0 `models/qwen2_5_omni_thinker.py`.
    """
    thinker = nested(facts, "thinker_config")
    text = text_facts(thinker_of(facts), "qwen2_5_omni_text")
    inner = label.of("Qwen2ForCausalLM")
    vision = sub_config(thinker, "vision_config", "qwen2_5_omni_vision_encoder")
    audio = sub_config(thinker, "audio_config", "qwen2_5_omni_audio_encoder")
    whole = with_towers(
        llama.read(text, inner, style=llama.STYLES["Qwen2"]),
        (
            qwen2_5_omni_audio_tower(audio),
            qwen2_5_vl_tower(vision, is_omni=True),
        ),
        layer_prefix=LAYERS,
        prefix_renames=THINKER_RENAMES,
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


THINKER_RENAMES = (
    ("thinker.lm_head.", "language_model.lm_head."),
    ("thinker.model.", "language_model.model."),
    ("thinker.", ""),
)


def thinker_of(facts: Facts) -> Facts:
    """Return the thinker's config with the outermost one's fields of the whole."""
    whole = ("tie_word_embeddings", "dtype", "torch_dtype")
    thinker = {
        key: value
        for key, value in facts.mapping("thinker_config").items()
        if key not in whole
    }
    outer = {key: facts.config[key] for key in whole if key in facts.config}
    return Facts({**thinker, **outer}, facts.model_type)


READERS = {
    "Qwen2_5OmniModel": read_qwen2_5_omni,
    "Qwen2_5OmniForConditionalGeneration": read_qwen2_5_omni,
}
