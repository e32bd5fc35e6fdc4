"""Qwen's audio models: Qwen2-Audio, Qwen3-ASR and the omni models' thinkers."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture
from planner.models.families import llama, moe
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    known_as,
    nested,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.qwen_vl import LAYERS
from planner.models.families.towers.audio import (
    qwen2_5_omni_audio_tower,
    qwen2_audio_tower,
    qwen3_omni_audio_tower,
)
from planner.models.families.towers.qwen_vl import (
    qwen2_5_vl_tower,
    qwen3_omni_vision_tower,
)

_THINKER_RENAMES = (
    ("thinker.lm_head.", "language_model.lm_head."),
    ("thinker.model.", "language_model.model."),
    ("thinker.", ""),
)


def read_qwen2_audio(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen2-Audio. Source: vLLM 0.33.0 `models/qwen2_audio.py`."""
    text = text_facts(facts, "qwen2")
    inner = label.of("Qwen2ForCausalLM")
    model = llama.read(text, inner, style=llama.STYLES["Qwen2"])
    audio = sub_config(facts, "audio_config", "qwen2_audio_encoder")
    whole = with_towers(
        model,
        (qwen2_audio_tower(audio, model.hidden_size),),
        layer_prefix=LAYERS,
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


def read_qwen2_5_omni(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the thinker of Qwen2.5-Omni; vLLM leaves out talker and vocoder.

    Source: vLLM 0.33.0 `models/qwen2_5_omni_thinker.py`.
    """
    thinker = nested(facts, "thinker_config")
    text = text_facts(_thinker_of(facts), "qwen2_5_omni_text")
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
        prefix_renames=_THINKER_RENAMES,
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


def read_qwen3_omni(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the thinker of Qwen3-Omni.

    Source: vLLM 0.33.0 `models/qwen3_omni_moe_thinker.py`.
    """
    thinker = nested(facts, "thinker_config")
    text = text_facts(_thinker_of(facts), "qwen3_omni_moe_text")
    inner = label.of("Qwen3MoeForCausalLM")
    model = moe.read_qwen_moe(text, inner)
    vision = sub_config(thinker, "vision_config", "qwen3_omni_moe_vision_encoder")
    audio = sub_config(thinker, "audio_config", "qwen3_omni_moe_audio_encoder")
    whole = with_towers(
        model,
        (
            qwen3_omni_audio_tower(audio),
            qwen3_omni_vision_tower(vision, deepstack_columns=model.hidden_size),
        ),
        layer_prefix=LAYERS,
        prefix_renames=(
            *_THINKER_RENAMES,
            ("model.", "language_model.model."),
            ("lm_head.", "language_model.lm_head."),
        ),
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


def read_qwen3_asr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen3-ASR: Qwen3-Omni's ears on a dense Qwen3.

    Source: vLLM 0.33.0 `models/qwen3_asr.py`;
    `transformers_utils/configs/qwen3_asr.py`.
    """
    thinker = nested(facts, "thinker_config")
    text = text_facts(_thinker_of(facts), "qwen3_asr_text")
    inner = label.of("Qwen3ForCausalLM")
    audio = sub_config(thinker, "audio_config", "qwen3_asr_audio_encoder")
    whole = with_towers(
        llama.read(text, inner, style=llama.STYLES["Qwen3"]),
        (qwen3_omni_audio_tower(audio),),
        layer_prefix=LAYERS,
        prefix_renames=(
            *_THINKER_RENAMES,
            ("model.audio_tower.", "audio_tower."),
            ("model.language_model.", "language_model.model."),
        ),
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


def _thinker_of(facts: Facts) -> Facts:
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
    "Qwen2AudioForConditionalGeneration": read_qwen2_audio,
    "Qwen2_5OmniModel": read_qwen2_5_omni,
    "Qwen2_5OmniForConditionalGeneration": read_qwen2_5_omni,
    "Qwen3ASRForConditionalGeneration": read_qwen3_asr,
    "Qwen3ASRRealtimeGeneration": read_qwen3_asr,
    "Qwen3OmniMoeForConditionalGeneration": read_qwen3_omni,
}
