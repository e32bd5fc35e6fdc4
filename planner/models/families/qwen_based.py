"""Qwen's language models with towers of others: Intern-S1-Pro, Intern-S2, Keye.

Also EXAONE 4.5, whose tower is Qwen2.5-VL's, and MiniCPM-V 4.6 and 4.7.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama, moe
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    Tie,
    composed,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.qwen3_next import read_qwen3_5_text
from planner.models.families.qwen_vl import (
    QWEN2_RENAMES,
    QWEN3_RENAMES,
    read_qwen3_5,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import Depth, idefics_vision, siglip_vision
from planner.models.families.towers.qwen_vl import (
    IMAGE_AND_VIDEO,
    qwen2_5_vl_tower,
    qwen3_vl_tower,
)
from planner.models.layers import Linear, Module, QKVParallelLinear


def read_interns1_pro(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Intern-S1-Pro: Qwen3-VL's tower, and Qwen3-MoE with long tables.

    Source: vLLM 0.33.0 `models/interns1_pro.py`.
    """
    text = text_facts(facts, "qwen3_moe")
    if (text.mapping("rope_scaling") or text.mapping("rope_parameters")).get(
        "use_fope"
    ):
        raise text.unsupported("rope_scaling", "Fourier position embeddings are not.")
    # Its class has one field for both names, and the later one counts.
    count = text.integer("num_local_experts", "num_experts")
    text = Facts({**text.config, "num_experts": count}, "qwen3_moe")
    inner = label.of("Qwen3MoeForCausalLM")
    model = moe.read_qwen_moe(text, inner)
    vision = sub_config(facts, "vision_config", "qwen3_vl_vision")
    tower = qwen3_vl_tower(vision, deepstack_columns=0)
    return composed(facts, label, model, tower, renames=QWEN3_RENAMES)


def read_interns2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Intern-S2's preview, which is Qwen3.5-MoE.

    Source: vLLM 0.33.0 `models/interns2_preview.py`.
    """
    model = read_qwen3_5(Facts(facts.config, "qwen3_5_moe"), label)
    return replace(model, model_type=facts.model_type)


def read_keye(
    facts: Facts, label: Label, *, norms_merged: bool = False
) -> ModelArchitecture:
    """Return Keye, or Keye 1.5, which norms patches once they are merged.

    Source: vLLM 0.33.0 `models/keye.py`, `models/keye_vl1_5.py`.
    """
    text = Facts(facts.config, "qwen3")
    inner = label.of("Qwen3ForCausalLM")
    model = llama.read(text, inner, style=llama.STYLES["Qwen3"])
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    size = vision.integer("hidden_size")
    half_head = size // vision.integer("num_attention_heads") // 2
    merged = 4 * size
    name = "visual.vision_model"
    modules: tuple[Module, ...] = (
        *_quantised_mlps(siglip_vision(vision, "visual")),
        blocks.replicated(f"{name}.embeddings.packing_position", (32768, size)),
        blocks.replicated(
            f"{name}.encoder.rotary_pos_emb", (half_head // 2,), dtype="float32"
        ),
        blocks.norms("mlp_AR.pre_norm", merged if norms_merged else size, bias=True),
        blocks.column("mlp_AR.linear_1", merged, merged, bias=True),
        blocks.row("mlp_AR.linear_2", merged, model.hidden_size, bias=True),
    )
    tower = Tower(modalities=IMAGE_AND_VIDEO, modules=modules)
    return composed(facts, label, model, tower, renames=QWEN2_RENAMES)


def _quantised_mlps(modules: tuple[Module, ...]) -> tuple[Module, ...]:
    """Return the tower of a class that passes the quantisation on to its MLPs."""
    return tuple(
        replace(module, is_quantizable=True)
        if isinstance(module, Linear) and ".mlp." in module.name
        else module
        for module in modules
    )


def read_exaone4_5(facts: Facts, label: Label) -> ModelArchitecture:
    """Return EXAONE 4.5, in whose tower several heads share keys.

    Source: vLLM 0.33.0 `models/exaone4_5.py`.
    """
    text = text_facts(facts, "exaone4")
    model = read_language_model(text, label)
    vision = sub_config(facts, "vision_config", "exaone4_5_vision")
    tower = qwen2_5_vl_tower(vision)
    kv_heads = vision.integer("num_key_value_heads")
    modules = tuple(
        replace(module, num_kv_heads=kv_heads)
        if isinstance(module, QKVParallelLinear)
        else module
        for module in tower.modules
    )
    tower = replace(tower, modules=modules)
    return composed(facts, label, model, tower, renames=QWEN3_RENAMES)


def read_minicpmv4_6(
    facts: Facts, label: Label, *, drops_layer: bool | None = None
) -> ModelArchitecture:
    """Return MiniCPM-V 4.6 and 4.7: Qwen3.5 with a tower that merges patches twice.

    Source: vLLM 0.33.0 `models/minicpmv4_6.py`, `models/minicpmv4_7.py`.
    """
    text = text_facts(facts, "qwen3_5_text", tie=Tie.INNER)
    model = read_qwen3_5_text(text, label)
    vision = sub_config(facts, "vision_config", f"{facts.model_type}_vision")
    if drops_layer is None:
        drops_layer = facts.flag("drop_vision_last_layer")
    count = vision.integer("num_hidden_layers") - int(drops_layer)
    tower = Tower(
        modalities=("image",),
        modules=(
            *idefics_vision(vision, "vpm", Depth(num_layers=count, has_post_norm=True)),
            *_window_merger(vision),
            *_last_merger(vision.integer("hidden_size"), model.hidden_size),
        ),
        supports_data_parallel=True,
    )
    return composed(facts, label, model, tower)


def _window_merger(facts: Facts) -> tuple[Module, ...]:
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    wide, middle, name = 4 * size, 4 * facts.integer("intermediate_size"), "vit_merger"
    return (
        blocks.qkv(
            f"{name}.self_attn.qkv_proj",
            size,
            heads,
            bias=True,
            shards=blocks.QKV_SHARDS,
        ),
        blocks.row(f"{name}.self_attn.out_proj", size, size, bias=True),
        blocks.norms(f"{name}.layer_norm1", size, bias=True),
        blocks.norms(f"{name}.pre_norm", wide, bias=True),
        blocks.replicated(
            f"{name}.linear", (middle, wide), (middle,), (size, middle), (size,)
        ),
    )


def _last_merger(size: int, text_size: int) -> tuple[Module, ...]:
    wide, name = 4 * size, "merger.mlp.0"
    return (
        blocks.norms(f"{name}.pre_norm", wide, bias=True),
        blocks.replicated(
            f"{name}.linear", (wide, wide), (wide,), (text_size, wide), (text_size,)
        ),
    )


READERS = {
    "InternS1ProForConditionalGeneration": read_interns1_pro,
    "InternS2PreviewForConditionalGeneration": read_interns2,
    "KeyeForConditionalGeneration": read_keye,
    "KeyeVL1_5ForConditionalGeneration": partial(read_keye, norms_merged=True),
    "Exaone4_5_ForConditionalGeneration": read_exaone4_5,
    "MiniCPMV4_6ForConditionalGeneration": read_minicpmv4_6,
    "MiniCPMOcrForConditionalGeneration": partial(read_minicpmv4_6, drops_layer=False),
    "MiniCPMV4_7ForConditionalGeneration": partial(read_minicpmv4_6, drops_layer=False),
}
