"""Models that read documents: dots.ocr and PaddleOCR-VL."""

from __future__ import annotations

from dataclasses import replace

from planner.architectures import llama
from planner.architectures.assembly import Label
from planner.architectures.facts import Facts
from planner.architectures.multimodal import (
    Tie,
    joined,
    sub_config,
    text_facts,
)
from planner.architectures.qwen_vl import FLAT_KEYS
from planner.architectures.towers.ocr import dots_tower, paddle_ocr_tower
from planner.model import ModelArchitecture

_RENAMES = (
    ("lm_head.", "language_model.lm_head."),
    ("model.", "language_model.model."),
)
# Source: vLLM 0.33.0 `transformers_utils/configs/dotsocr.py` DotsVisionConfig.
_DOTS_VISION = {
    "embed_dim": 1536,
    "hidden_size": 1536,
    "intermediate_size": 4224,
    "num_hidden_layers": 42,
    "num_attention_heads": 12,
    "num_channels": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "use_bias": False,
    "post_norm": True,
}


def read_dots_ocr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return dots.ocr, whose config is Qwen2's with a tower in it.

    Source: vLLM 0.33.0 `models/dots_ocr.py`.
    """
    inner = Label(name=label.name, architecture="Qwen2ForCausalLM")
    text = Facts(facts.config, "qwen2")
    vision = Facts(facts.mapping("vision_config"), "dots_vit", _DOTS_VISION)
    model = llama.read(text, inner, style=llama.STYLES["Qwen2"])
    return joined(facts, label, model, dots_tower(vision), _RENAMES)


def read_paddle_ocr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return PaddleOCR-VL, which vLLM serves on one pipeline stage only.

    Source: vLLM 0.33.0 `models/paddleocr_vl.py`.
    """
    keys = (*FLAT_KEYS, "head_dim", "use_bias")
    text = text_facts(facts, "paddleocr_vl_text", flat_keys=keys, tie=Tie.EITHER)
    inner = Label(name=label.name, architecture="Ernie4_5ForCausalLM")
    model = llama.read(text, inner, style=llama.LLAMA)
    vision = sub_config(facts, "vision_config", "paddleocr_vl_vision")
    tower = paddle_ocr_tower(vision, model.hidden_size)
    return replace(joined(facts, label, model, tower, _RENAMES), supports_pp=False)


READERS = {
    "DotsOCRForCausalLM": read_dots_ocr,
    "PaddleOCRVLForConditionalGeneration": read_paddle_ocr,
}
