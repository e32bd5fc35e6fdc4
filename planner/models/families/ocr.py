"""Models that read documents: dots.ocr, PaddleOCR-VL and DeepSeek-OCR."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.deepseek_vl2 import read_language_model
from planner.models.families.facts import Facts
from planner.models.families.multimodal import Tie, joined, sub_config, text_facts
from planner.models.families.qwen_vl import FLAT_KEYS
from planner.models.families.towers import blocks
from planner.models.families.towers.deep_encoder import deep_encoder
from planner.models.families.towers.ocr import dots_tower, paddle_ocr_tower

_RENAMES = (
    ("lm_head.", "language_model.lm_head."),
    ("model.", "language_model.model."),
)

_DEEPSEEK_OCR_RENAMES = (
    ("model.embed_tokens.", "language_model.model.embed_tokens."),
    ("model.layers.", "language_model.model.layers."),
    ("model.norm.", "language_model.model.norm."),
    ("lm_head.", "language_model.lm_head."),
    ("model.", ""),
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
    """Return dots.ocr, whose config is Qwen2's with a tower added.

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


def read_deepseek_ocr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return DeepSeek-OCR, whose towers have sizes of their own, not the config's.

    Source: vLLM 0.33.0 `models/deepseek_ocr.py` DeepseekOCRForCausalLM;
    `transformers_utils/configs/deepseek_vl2.py`.
    """
    text = facts.mapping("language_config")
    heads = ("qk_nope_head_dim", "qk_rope_head_dim")
    if text.get("use_mla", True) or any(text.get(name, 1) for name in heads):
        raise facts.unsupported("language_config", "one without latent attention is.")
    model = read_language_model(facts, label)
    projector = facts.mapping("projector_config")
    if projector.get("projector_type") != "linear":
        raise facts.unsupported("projector_config", "a linear projector is.")
    size = int(projector["n_embed"])
    tower = deep_encoder(int(projector["input_dim"]), size)
    whole = joined(facts, label, model, tower, _DEEPSEEK_OCR_RENAMES)
    # Parameters of the whole model, which exist even without the tower.
    ends = blocks.replicated("image_newline", (size,), (size,))
    return replace(whole, every_stage=(*whole.every_stage, ends))


READERS = {
    "DotsOCRForCausalLM": read_dots_ocr,
    "PaddleOCRVLForConditionalGeneration": read_paddle_ocr,
    "DeepseekOCRForCausalLM": read_deepseek_ocr,
}
