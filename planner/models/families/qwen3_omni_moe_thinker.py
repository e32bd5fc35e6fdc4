"""The thinker of Qwen3-Omni."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture
from planner.models.families import moe
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    known_as,
    nested,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.qwen2_5_omni_thinker import THINKER_RENAMES, thinker_of
from planner.models.families.qwen2_vl import LAYERS
from planner.models.families.towers.audio import qwen3_omni_audio_tower
from planner.models.families.towers.qwen_vl import qwen3_omni_vision_tower


def read_qwen3_omni(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the thinker of Qwen3-Omni.

    Source: vLLM 0.33.0 `models/qwen3_omni_moe_thinker.py`.
    """
    thinker = nested(facts, "thinker_config")
    text = text_facts(thinker_of(facts), "qwen3_omni_moe_text")
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
            *THINKER_RENAMES,
            ("model.", "language_model.model."),
            ("lm_head.", "language_model.lm_head."),
        ),
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


READERS = {
    "Qwen3OmniMoeForConditionalGeneration": read_qwen3_omni,
}
