"""Step 3 with images."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    named,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.layers import Module


def read_step3_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Step 3 with images. Source: vLLM 0.33.0 `models/step3_vl.py`."""
    text = text_facts(facts, "step3_text")
    inner = named(text, "Step3TextForCausalLM", "step3_text")
    model = read_language_model(inner, label)
    vision = sub_config(facts, "vision_config", "step3_vision_encoder")
    size, out = vision.integer("hidden_size"), vision.integer("output_hidden_size")
    projector = (
        (facts.integer("hidden_size"), 2 * out),
        (facts.integer("hidden_size"),),
    )
    modules = (
        *_step3_vision(vision),
        blocks.convolution("vit_downsampler", out, size, 2, 2, bias=True),
        blocks.convolution("vit_downsampler2", 2 * out, out, 3, 3, bias=True),
        blocks.replicated(
            "vit_large_projector",
            *projector[: 2 if facts.flag("projector_bias") else 1],
        ),
    )
    tower = Tower(modalities=("image",), modules=modules, supports_data_parallel=True)
    return composed(facts, label, model, tower)


def _step3_vision(facts: Facts) -> tuple[Module, ...]:
    size, patch = facts.integer("hidden_size"), facts.integer("patch_size")
    heads, wide = (
        facts.integer("num_attention_heads"),
        facts.integer("intermediate_size"),
    )
    positions = (facts.integer("image_size") // patch) ** 2 + 1
    name = "vision_model.embeddings"
    modules: list[Module] = [
        blocks.replicated(name, (size,), (positions, size)),
        blocks.convolution(
            f"{name}.patch_embedding",
            size,
            facts.integer("num_channels"),
            patch,
            patch,
            bias=True,
        ),
        blocks.replicated(f"{name}.position_ids", (positions,), dtype="int64"),
    ]
    for index in range(facts.integer("num_hidden_layers")):
        layer = f"vision_model.transformer.layers.{index}"
        modules += [
            *blocks.unquantised(
                blocks.qkv(f"{layer}.self_attn.qkv_proj", size, heads, bias=True),
                blocks.row(f"{layer}.self_attn.out_proj", size, size, bias=True),
                *blocks.plain_mlp(f"{layer}.mlp.fc1", f"{layer}.mlp.fc2", size, wide),
            ),
            blocks.norms(f"{layer}.layer_norm", size, count=2, bias=True),
        ]
    return tuple(modules)


READERS = {
    "Step3VLForConditionalGeneration": read_step3_vl,
}
