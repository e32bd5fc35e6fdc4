"""Qwen3-ASR: Qwen3-Omni's ears on a dense Qwen3; its forced aligner."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label, Reader
from planner.models.families.composite import Composite
from planner.models.families.conversion import without_head
from planner.models.families.facts import Facts
from planner.models.families.multimodal import nested, sub_config
from planner.models.families.qwen2_5_omni_thinker import THINKER_RENAMES, read_thinker
from planner.models.families.towers.audio import qwen3_omni_audio_tower
from planner.models.layers import Part, Replicated


def _tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/qwen3_asr.py`; `configs/qwen3_asr.py`."""
    thinker = nested(facts, "thinker_config")
    audio = sub_config(thinker, "audio_config", "qwen3_asr_audio_encoder")
    return qwen3_omni_audio_tower(audio)


_read = Composite(
    _tower,
    text=partial(
        read_thinker, model_type="qwen3_asr_text", architecture="Qwen3ForCausalLM"
    ),
    renames=(
        *THINKER_RENAMES,
        ("model.audio_tower.", "audio_tower."),
        ("model.language_model.", "language_model.model."),
    ),
)


def _read_forced_aligner(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen3-ASR with a classifier in its head's place.

    Source: vLLM 0.33.0 `models/qwen3_asr_forced_aligner.py`.
    """
    model = _read(facts, label)
    labels = Facts(facts.mapping("thinker_config"), facts.model_type)
    classifier = Replicated(
        "classifier",
        Part.CLASSIFIER,
        ((labels.integer("classify_num"), model.hidden_size),),
    )
    return replace(
        model,
        every_stage=(*model.every_stage, classifier),
        last_stage=without_head(model.last_stage),
        is_pooling=True,
    )


READERS: dict[str, Reader] = {
    "Qwen3ASRForConditionalGeneration": _read,
    "Qwen3ASRRealtimeGeneration": _read,
    "Qwen3ASRForcedAlignerForTokenClassification": _read_forced_aligner,
}
