"""Qwen3.5 and Qwen3.6 with images, which have Qwen3-VL's tower, and Intern-S2."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label, Reader
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import Tie, sub_config, text_facts
from planner.models.families.qwen3_next import read_qwen3_5_text
from planner.models.families.qwen3_vl import QWEN3_RENAMES
from planner.models.families.towers.qwen_vl import qwen3_vl_tower


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    text = text_facts(facts, f"{facts.model_type}_text", tie=Tie.INNER)
    return read_qwen3_5_text(text, label)


def _tower(facts: Facts, _text_size: int) -> Tower:
    """Return the tower, without buffers for deepstack.

    Source: vLLM 0.33.0 `models/qwen3_5.py` Qwen3_5ForConditionalGeneration.
    """
    vision = sub_config(facts, "vision_config", f"{facts.model_type}_vision")
    return qwen3_vl_tower(vision, deepstack_columns=0)


read_qwen3_5 = Composite(_tower, text=_text, renames=QWEN3_RENAMES)


def _read_interns2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Intern-S2's preview, which is Qwen3.5-MoE.

    Source: vLLM 0.33.0 `models/interns2_preview.py`.
    """
    model = read_qwen3_5(Facts(facts.config, "qwen3_5_moe"), label)
    return replace(model, model_type=facts.model_type)


READERS: dict[str, Reader] = {
    "Qwen3_5ForConditionalGeneration": read_qwen3_5,
    "Qwen3_5MoeForConditionalGeneration": read_qwen3_5,
    "InternS2PreviewForConditionalGeneration": _read_interns2,
}
