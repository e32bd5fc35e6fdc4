"""DeepSeek-OCR: SAM and CLIP behind each other, and the first DeepSeek-MoE."""

from __future__ import annotations

from dataclasses import replace

from planner.architectures.assembly import Label
from planner.architectures.deepseek_vl2 import read_language_model
from planner.architectures.facts import Facts
from planner.architectures.multimodal import joined
from planner.architectures.towers import blocks
from planner.architectures.towers.deep_encoder import deep_encoder
from planner.model import ModelArchitecture

_RENAMES = (
    ("model.embed_tokens.", "language_model.model.embed_tokens."),
    ("model.layers.", "language_model.model.layers."),
    ("model.norm.", "language_model.model.norm."),
    ("lm_head.", "language_model.lm_head."),
    ("model.", ""),
)


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
    whole = joined(facts, label, model, tower, _RENAMES)
    # Parameters of the whole, which are there even where the tower is not.
    ends = blocks.replicated("image_newline", (size,), (size,))
    return replace(whole, every_stage=(*whole.every_stage, ends))


READERS = {"DeepseekOCRForCausalLM": read_deepseek_ocr}
