"""Qwen3-ASR: Qwen3-Omni's ears on a dense Qwen3; its forced aligner."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.conversion import without_head
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
from planner.models.layers import Part, Replicated


def read_qwen3_asr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen3-ASR: Qwen3-Omni's ears on a dense Qwen3.

    Source: vLLM 0.33.0 `models/qwen3_asr.py`;
    `transformers_utils/configs/qwen3_asr.py`.
    """
    thinker = nested(facts, "thinker_config")
    text = text_facts(thinker_of(facts), "qwen3_asr_text")
    inner = label.of("Qwen3ForCausalLM")
    audio = sub_config(thinker, "audio_config", "qwen3_asr_audio_encoder")
    whole = with_towers(
        llama.read(text, inner, style=llama.STYLES["Qwen3"]),
        (qwen3_omni_audio_tower(audio),),
        layer_prefix=LAYERS,
        prefix_renames=(
            *THINKER_RENAMES,
            ("model.audio_tower.", "audio_tower."),
            ("model.language_model.", "language_model.model."),
        ),
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


def read_forced_aligner(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen3-ASR with a classifier in its head's place.

    Source: vLLM 0.33.0 `models/qwen3_asr_forced_aligner.py`.
    """
    model = read_qwen3_asr(facts, label)
    labels = Facts(facts.mapping("thinker_config"), facts.model_type)
    classifier = Replicated(
        name="classifier",
        part=Part.CLASSIFIER,
        shapes=((labels.integer("classify_num"), model.hidden_size),),
    )
    return replace(
        model,
        every_stage=(*model.every_stage, classifier),
        last_stage=without_head(model.last_stage),
        is_pooling=True,
    )


READERS = {
    "Qwen3ASRForConditionalGeneration": read_qwen3_asr,
    "Qwen3ASRRealtimeGeneration": read_qwen3_asr,
    "Qwen3ASRForcedAlignerForTokenClassification": read_forced_aligner,
}
