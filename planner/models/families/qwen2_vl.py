"""Qwen2-VL and Qwen2.5-VL."""

from __future__ import annotations

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import MODEL_RENAMES, Tie, sub_config
from planner.models.families.towers.qwen_vl import qwen2_5_vl_tower, qwen2_vl_tower

# Older checkpoints name their layers as if they were only a language model.
QWEN2_RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("model.visual.", "visual."),
    *MODEL_RENAMES,
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


def _tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/qwen2_vl.py`."""
    return qwen2_vl_tower(sub_config(facts, "vision_config", "qwen2_vl_vision"))


def _tower_2_5(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/qwen2_5_vl.py`."""
    return qwen2_5_vl_tower(sub_config(facts, "vision_config", "qwen2_5_vl_vision"))


def _text(model_type: str) -> Text:
    return Text(model_type, "Qwen2ForCausalLM", tie=Tie.EITHER, flat_keys=FLAT_KEYS)


read_qwen2_vl = Composite(_tower, text=_text("qwen2_vl_text"), renames=QWEN2_RENAMES)
READERS = {
    "Qwen2VLForConditionalGeneration": read_qwen2_vl,
    "Qwen2_5_VLForConditionalGeneration": Composite(
        _tower_2_5, text=_text("qwen2_5_vl_text"), renames=QWEN2_RENAMES
    ),
}
