"""Qwen3-VL and Qwen3-VL-MoE."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture
from planner.models.families import llama
from planner.models.families.assembly import Label, Reader
from planner.models.families.decoders import ROWS as DECODERS
from planner.models.families.facts import Facts
from planner.models.families.mixtures import ROWS as MIXTURES
from planner.models.families.multimodal import composed, sub_config, text_facts
from planner.models.families.towers.qwen_vl import qwen3_vl_tower

QWEN3_RENAMES = (
    ("model.visual.", "visual."),
    ("lm_head.", "language_model.lm_head."),
    ("model.language_model.", "language_model.model."),
)


def _dense(text: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen3, whose positions never exceed the tokens, unless videos are pruned.

    Source: vLLM 0.33.0 `models/qwen3_vl.py`.
    """
    style = replace(DECODERS["Qwen3ForCausalLM"], mrope_positions_factor=1)
    return llama.read(text, label.of("Qwen3ForCausalLM"), style=style)


def _sparse(text: Facts, label: Label) -> ModelArchitecture:
    """Source: vLLM 0.33.0 `models/qwen3_vl_moe.py`."""
    style = replace(MIXTURES["Qwen3MoeForCausalLM"], mrope_positions_factor=1)
    return llama.read(text, label.of("Qwen3MoeForCausalLM"), style=style)


def _read(facts: Facts, label: Label, *, text: Reader, kind: str) -> ModelArchitecture:
    """Return a language model whose first layers get features of the tower's blocks."""
    model = text(text_facts(facts, f"{kind}_text"), label)
    vision = sub_config(facts, "vision_config", f"{kind}_vision")
    levels = len(vision.value("deepstack_visual_indexes") or ())
    tower = qwen3_vl_tower(vision, deepstack_columns=model.hidden_size)
    language = replace(model, deepstack_layers=levels)
    return composed(facts, label, language, tower, renames=QWEN3_RENAMES)


read_qwen3_vl = partial(_read, text=_dense, kind="qwen3_vl")
READERS = {
    "Alpamayo2Super": read_qwen3_vl,
    "Cosmos3ForConditionalGeneration": read_qwen3_vl,
    "Qwen3VLForConditionalGeneration": read_qwen3_vl,
    "Qwen3VLMoeForConditionalGeneration": partial(
        _read, text=_sparse, kind="qwen3_vl_moe"
    ),
}
