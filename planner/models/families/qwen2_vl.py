"""Qwen2-VL and Qwen2.5-VL."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    Tie,
    known_as,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.towers.qwen_vl import qwen2_5_vl_tower, qwen2_vl_tower

# Older checkpoints name their layers as if they were only a language model.
QWEN2_RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("model.visual.", "visual."),
    ("lm_head.", "language_model.lm_head."),
    ("model.", "language_model.model."),
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


LAYERS = "language_model.model.layers"


READERS = {
    "Qwen2VLForConditionalGeneration": read_qwen2_vl,
    "Qwen2_5_VLForConditionalGeneration": read_qwen2_5_vl,
}
