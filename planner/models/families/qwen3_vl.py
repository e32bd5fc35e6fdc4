"""Qwen3-VL, Qwen3-VL-MoE, and Qwen3.5 with the same tower."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families import llama, moe
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import Tie, joined, sub_config, text_facts
from planner.models.families.qwen3_next import read_qwen3_5_text
from planner.models.families.towers.qwen_vl import qwen3_vl_tower

QWEN3_RENAMES = (
    ("model.visual.", "visual."),
    ("lm_head.", "language_model.lm_head."),
    ("model.language_model.", "language_model.model."),
)


def read_qwen3_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen3-VL. Source: vLLM 0.33.0 `models/qwen3_vl.py`."""
    text = text_facts(facts, "qwen3_vl_text")
    inner = label.of("Qwen3ForCausalLM")
    # Its positions never exceed the tokens, unless videos are pruned.
    style = replace(llama.STYLES["Qwen3"], mrope_positions_factor=1)
    return _qwen3(facts, label, llama.read(text, inner, style=style), "qwen3_vl_vision")


def read_qwen3_vl_moe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen3-VL-MoE. Source: vLLM 0.33.0 `models/qwen3_vl_moe.py`."""
    text = text_facts(facts, "qwen3_vl_moe_text")
    inner = label.of("Qwen3MoeForCausalLM")
    model = moe.read_qwen_moe(text, inner, mrope_positions_factor=1)
    return _qwen3(facts, label, model, "qwen3_vl_moe_vision")


def read_qwen3_5(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen3.5 and Qwen3.6 with the tower of Qwen3-VL.

    Source: vLLM 0.33.0 `models/qwen3_5.py` Qwen3_5ForConditionalGeneration, which keeps
    no buffers for deepstack.
    """
    text = text_facts(facts, f"{facts.model_type}_text", tie=Tie.INNER)
    model = read_qwen3_5_text(text, label)
    return _qwen3(
        facts,
        label,
        model,
        f"{facts.model_type}_vision",
        has_deepstack_buffers=False,
    )


def _qwen3(
    facts: Facts,
    label: Label,
    model: ModelArchitecture,
    vision_type: str,
    *,
    has_deepstack_buffers: bool = True,
) -> ModelArchitecture:
    vision = sub_config(facts, "vision_config", vision_type)
    tower = qwen3_vl_tower(
        vision,
        deepstack_columns=model.hidden_size if has_deepstack_buffers else 0,
    )
    levels = len(vision.value("deepstack_visual_indexes") or ())
    language = replace(model, deepstack_layers=levels if has_deepstack_buffers else 0)
    return joined(facts, label, language, tower, QWEN3_RENAMES)


def read_interns2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Intern-S2's preview, which is Qwen3.5-MoE.

    Source: vLLM 0.33.0 `models/interns2_preview.py`.
    """
    model = read_qwen3_5(Facts(facts.config, "qwen3_5_moe"), label)
    return replace(model, model_type=facts.model_type)


READERS = {
    "Alpamayo2Super": read_qwen3_vl,
    "Cosmos3ForConditionalGeneration": read_qwen3_vl,
    "Qwen3_5ForConditionalGeneration": read_qwen3_5,
    "Qwen3_5MoeForConditionalGeneration": read_qwen3_5,
    "Qwen3VLForConditionalGeneration": read_qwen3_vl,
    "Qwen3VLMoeForConditionalGeneration": read_qwen3_vl_moe,
    "InternS2PreviewForConditionalGeneration": read_interns2,
}
