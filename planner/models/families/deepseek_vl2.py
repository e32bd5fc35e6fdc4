"""DeepSeek-VL2: timm's SigLIP, and a language model of DeepSeek-V2's kind."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import deepseek
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import joined, text_facts
from planner.models.families.towers import blocks
from planner.models.families.towers.facts import deepseek_vl2_items
from planner.models.families.towers.timm_siglip import timm_siglip
from planner.models.layers import Module

_RENAMES = (("language.", "language_model."),)
_PROJECTOR = {
    "projector_type": "downsample_mlp_gelu",
    "input_dim": 1152,
    "n_embed": 2048,
    "depth": 2,
    "mlp_ratio": 1,
    "downsample_ratio": 2,
}


def read_deepseek_vl2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return DeepSeek-VL2, whose tower has sizes of its own, not the config's.

    Source: vLLM 0.33.0 `models/deepseek_vl2.py` DeepseekVLV2ForCausalLM;
    `transformers_utils/configs/deepseek_vl2.py`.
    """
    model = read_language_model(facts, label)
    projector = Facts(
        {**_PROJECTOR, **facts.mapping("projector_config")}, "mlp_projector"
    )
    size = projector.integer("n_embed")
    tower = Tower(
        modalities=("image",),
        modules=(
            *timm_siglip("vision"),
            _projector(projector),
        ),
        items=deepseek_vl2_items(facts),
    )
    whole = joined(facts, label, model, tower, _RENAMES)
    # Parameters of the whole, which are there even where the tower is not.
    ends = blocks.replicated("image_newline", (size,), (size,))
    return replace(whole, every_stage=(*whole.every_stage, ends))


def read_language_model(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the language model, whose attention is latent unless its sizes say not.

    Source: vLLM 0.33.0 `models/deepseek_v2.py` DeepseekV2DecoderLayer (use_mha).
    """
    text = text_facts(facts, "deepseek_v2", name="language_config")
    names = text.value("architectures") or ()
    if names and names[0] != "DeepseekV2ForCausalLM":
        raise text.unsupported("architectures", "DeepseekV2ForCausalLM is.")
    inner = Label(name=label.name, architecture="DeepseekV2ForCausalLM")
    if any(text.value(name) for name in ("qk_nope_head_dim", "qk_rope_head_dim")):
        return deepseek.read_deepseek_text(text, inner)
    # The class divides the width by the heads, whatever head_dim the config class has.
    head_size = text.integer("hidden_size") // text.integer("num_attention_heads")
    text = Facts({**text.config, "head_dim": head_size}, text.model_type)
    return deepseek.read_deepseek(text, inner)


def _projector(facts: Facts) -> Module:
    """Return linear layers over squares of patches, torch's own.

    Source: vLLM 0.33.0 `models/deepseek_vl2.py` MlpProjector.
    """
    size, ratio = facts.integer("n_embed"), facts.integer("downsample_ratio")
    if facts.value("projector_type") != "downsample_mlp_gelu":
        raise facts.unsupported("projector_type", "downsample_mlp_gelu is.")
    wide, given = size * facts.integer("mlp_ratio"), facts.integer("input_dim")
    between = ((wide, wide), (wide,)) * (facts.integer("depth") - 2)
    first = ((wide, given * ratio * ratio), (wide,))
    return blocks.replicated("projector", *first, *between, (size, wide), (size,))


READERS = {"DeepseekVLV2ForCausalLM": read_deepseek_vl2}
