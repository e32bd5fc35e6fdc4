"""The thinker of Qwen3-Omni."""

from __future__ import annotations

from functools import partial

from planner.models.architecture import Tower
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import MODEL_RENAMES, nested, sub_config
from planner.models.families.qwen2_5_omni_thinker import THINKER_RENAMES, read_thinker
from planner.models.families.towers.audio import qwen3_omni_audio_tower
from planner.models.families.towers.qwen_vl import qwen3_omni_vision_tower


def _towers(facts: Facts, text_size: int) -> tuple[Tower, ...]:
    """Source: vLLM 0.33.0 `models/qwen3_omni_moe_thinker.py`."""
    thinker = nested(facts, "thinker_config")
    vision = sub_config(thinker, "vision_config", "qwen3_omni_moe_vision_encoder")
    audio = sub_config(thinker, "audio_config", "qwen3_omni_moe_audio_encoder")
    return (
        qwen3_omni_audio_tower(audio),
        qwen3_omni_vision_tower(vision, deepstack_columns=text_size),
    )


read_qwen3_omni = Composite(
    _towers,
    text=partial(
        read_thinker,
        model_type="qwen3_omni_moe_text",
        architecture="Qwen3MoeForCausalLM",
    ),
    renames=(*THINKER_RENAMES, *reversed(MODEL_RENAMES)),
)
READERS = {"Qwen3OmniMoeForConditionalGeneration": read_qwen3_omni}
