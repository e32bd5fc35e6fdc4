"""GLM's models of images and videos: GLM-4.1V, GLM-4.5V, GLM-4.6V, GLM-OCR."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture
from planner.models.families import llama, moe
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import Tie, joined, sub_config, text_facts
from planner.models.families.qwen_vl import QWEN3_RENAMES
from planner.models.families.towers.blocks import GATE_AND_UP
from planner.models.families.towers.glm4v import glm4v_tower, glm_ocr_tower


def read_glm4v(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GLM-4.1V and GLM-4.6V-Flash.

    The first ones' flat configs say nothing to the language model, which has its
    class's defaults.

    Source: vLLM 0.33.0 `models/glm4_1v.py` Glm4vForConditionalGeneration,
    `models/glm4.py` (half of each head is rotated unless the config says otherwise);
    Transformers' Glm4vConfig.
    """
    if facts.model_type != "glm4v":
        raise facts.unsupported("model_type", "glm4v is.")
    text = text_facts(facts, "glm4v_text", tie=Tie.EITHER)
    text = Facts(text.config, text.model_type, {"partial_rotary_factor": 0.5})
    inner = Label(name=label.name, architecture="Glm4ForCausalLM")
    model = llama.read(text, inner, style=llama.STYLES["Glm4"])
    vision = sub_config(facts, "vision_config", "glm4v_vision")
    return joined(facts, label, model, glm4v_tower(vision), QWEN3_RENAMES)


def read_glm_ocr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GLM-OCR, less its layers for speculation.

    Source: vLLM 0.33.0 `models/glm_ocr.py`.
    """
    text = text_facts(facts, "glm_ocr_text", tie=Tie.EITHER)
    text = Facts(text.config, text.model_type, {"partial_rotary_factor": 0.5})
    inner = Label(name=label.name, architecture="Glm4ForCausalLM")
    model = llama.read(text, inner, style=llama.STYLES["Glm4"])
    vision = sub_config(facts, "vision_config", "glm_ocr_vision")
    tower = glm_ocr_tower(vision, text.integer("intermediate_size"))
    return joined(facts, label, model, tower, QWEN3_RENAMES)


def read_glm4v_moe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GLM-4.5V and GLM-4.6V.

    Source: vLLM 0.33.0 `models/glm4_1v.py` Glm4vMoeForConditionalGeneration.
    """
    if facts.model_type != "glm4v_moe":
        raise facts.unsupported("model_type", "glm4v_moe is.")
    text = text_facts(facts, "glm4v_moe_text", tie=Tie.EITHER)
    inner = Label(name=label.name, architecture="Glm4MoeForCausalLM")
    vision = sub_config(facts, "vision_config", "glm4v_moe_vision")
    tower = glm4v_tower(vision, gate_and_up=GATE_AND_UP)
    return joined(facts, label, moe.read_glm4_moe(text, inner), tower, QWEN3_RENAMES)


READERS = {
    "Glm4vForConditionalGeneration": read_glm4v,
    "Glm4vMoeForConditionalGeneration": read_glm4v_moe,
    "GlmOcrForConditionalGeneration": read_glm_ocr,
}
