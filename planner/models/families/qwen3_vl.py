"""Qwen3-VL, Qwen3-VL-MoE, and Qwen3.5 with the same tower."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama, moe
from planner.models.families.assembly import Label, Reader
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import Tie, composed, sub_config, text_facts
from planner.models.families.qwen3_next import read_qwen3_5_text
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
    style = replace(llama.STYLES["Qwen3"], mrope_positions_factor=1)
    return llama.read(text, label.of("Qwen3ForCausalLM"), style=style)


def _sparse(text: Facts, label: Label) -> ModelArchitecture:
    """Source: vLLM 0.33.0 `models/qwen3_vl_moe.py`."""
    inner = label.of("Qwen3MoeForCausalLM")
    return moe.read_qwen_moe(text, inner, mrope_positions_factor=1)


def _read(facts: Facts, label: Label, *, text: Reader, kind: str) -> ModelArchitecture:
    """Return a language model whose first layers get features of the tower's blocks."""
    model = text(text_facts(facts, f"{kind}_text"), label)
    vision = sub_config(facts, "vision_config", f"{kind}_vision")
    levels = len(vision.value("deepstack_visual_indexes") or ())
    tower = qwen3_vl_tower(vision, deepstack_columns=model.hidden_size)
    language = replace(model, deepstack_layers=levels)
    return composed(facts, label, language, tower, renames=QWEN3_RENAMES)


def _text_3_5(facts: Facts, label: Label) -> ModelArchitecture:
    text = text_facts(facts, f"{facts.model_type}_text", tie=Tie.INNER)
    return read_qwen3_5_text(text, label)


def _tower_3_5(facts: Facts, _text_size: int) -> Tower:
    """Return the tower of Qwen3.5 and Qwen3.6, which have no buffers for deepstack.

    Source: vLLM 0.33.0 `models/qwen3_5.py` Qwen3_5ForConditionalGeneration.
    """
    vision = sub_config(facts, "vision_config", f"{facts.model_type}_vision")
    return qwen3_vl_tower(vision, deepstack_columns=0)


def _read_interns2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Intern-S2's preview, which is Qwen3.5-MoE.

    Source: vLLM 0.33.0 `models/interns2_preview.py`.
    """
    model = read_qwen3_5(Facts(facts.config, "qwen3_5_moe"), label)
    return replace(model, model_type=facts.model_type)


read_qwen3_vl = partial(_read, text=_dense, kind="qwen3_vl")
read_qwen3_5 = Composite(text=_text_3_5, tower=_tower_3_5, renames=QWEN3_RENAMES)
READERS = {
    "Alpamayo2Super": read_qwen3_vl,
    "Cosmos3ForConditionalGeneration": read_qwen3_vl,
    "Qwen3_5ForConditionalGeneration": read_qwen3_5,
    "Qwen3_5MoeForConditionalGeneration": read_qwen3_5,
    "Qwen3VLForConditionalGeneration": read_qwen3_vl,
    "Qwen3VLMoeForConditionalGeneration": partial(
        _read, text=_sparse, kind="qwen3_vl_moe"
    ),
    "InternS2PreviewForConditionalGeneration": _read_interns2,
}
