"""Qwen's models of images and videos: Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3-VL-MoE."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama, moe
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    Tie,
    joined,
    known_as,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.qwen3_next import read_qwen3_5_text
from planner.models.families.towers.qwen_vl import (
    qwen2_5_vl_tower,
    qwen2_vl_tower,
    qwen3_vl_tower,
)

LAYERS = "language_model.model.layers"
# Older checkpoints name their layers as if they were only a language model.
QWEN2_RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("model.visual.", "visual."),
    ("lm_head.", "language_model.lm_head."),
    ("model.", "language_model.model."),
)
QWEN3_RENAMES = (
    ("model.visual.", "visual."),
    ("lm_head.", "language_model.lm_head."),
    ("model.language_model.", "language_model.model."),
)
FLAT_KEYS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
    "use_sliding_window",
    "sliding_window",
    "max_window_layers",
    "layer_types",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
)


def read_qwen2_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen2-VL. Source: vLLM 0.33.0 `models/qwen2_vl.py`."""
    vision = sub_config(facts, "vision_config", "qwen2_vl_vision")
    return _qwen2(facts, label, qwen2_vl_tower(vision), "qwen2_vl_text")


def read_qwen2_5_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen2.5-VL. Source: vLLM 0.33.0 `models/qwen2_5_vl.py`."""
    vision = sub_config(facts, "vision_config", "qwen2_5_vl_vision")
    return _qwen2(facts, label, qwen2_5_vl_tower(vision), "qwen2_5_vl_text")


def _qwen2(
    facts: Facts, label: Label, tower: Tower, text_type: str
) -> ModelArchitecture:
    text = text_facts(facts, text_type, flat_keys=FLAT_KEYS, tie=Tie.EITHER)
    inner = label.of("Qwen2ForCausalLM")
    model = with_towers(
        llama.read(text, inner, style=llama.STYLES["Qwen2"]),
        (tower,),
        layer_prefix=LAYERS,
        prefix_renames=QWEN2_RENAMES,
        head_prefix="language_model.",
    )
    return known_as(model, facts, label)


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


READERS = {
    "Alpamayo2Super": read_qwen3_vl,
    "Qwen3_5ForConditionalGeneration": read_qwen3_5,
    "Qwen3_5MoeForConditionalGeneration": read_qwen3_5,
    "Qwen2VLForConditionalGeneration": read_qwen2_vl,
    "Qwen2_5_VLForConditionalGeneration": read_qwen2_5_vl,
    "Qwen3VLForConditionalGeneration": read_qwen3_vl,
    "Qwen3VLMoeForConditionalGeneration": read_qwen3_vl_moe,
}
