"""GLM-4V: EVA's tower beside ChatGLM."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import gpt
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import composed
from planner.models.families.towers import blocks
from planner.models.layers import Module, Part, ReplicatedLinear


def read_glm4v_chat(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GLM-4V: EVA's tower beside ChatGLM.

    Source: vLLM 0.33.0 `models/glm4v.py` GLM4VForCausalLM, EVA2CLIPModel.
    """
    model = gpt.read_chatglm(facts, label)
    vision = Facts(facts.mapping("vision_config"), "eva2_clip")
    tower = Tower(
        modalities=("image",),
        modules=_eva2_clip(facts, vision, "transformer.vision"),
    )
    return composed(facts, label, model, tower, prefix="")


def _eva2_clip(facts: Facts, vision: Facts, name: str) -> tuple[Module, ...]:
    size, text_size = vision.integer("hidden_size"), facts.integer("hidden_size")
    patch, wide = vision.integer("patch_size"), facts.integer("ffn_hidden_size")
    modules: list[Module] = [
        blocks.convolution(
            f"{name}.patch_embedding.proj",
            size,
            vision.integer("in_channels"),
            patch,
            patch,
            bias=True,
        ),
        blocks.replicated(
            f"{name}.patch_embedding.positions",
            (1, size),
            (vision.integer("num_positions"), size),
        ),
        ReplicatedLinear(
            name=f"{name}.linear_proj.linear_proj",
            part=Part.TOWERS,
            input_size=text_size,
            output_sizes=(text_size,),
        ),
        blocks.norms(f"{name}.linear_proj.norm1", text_size, bias=True),
        blocks.column(
            f"{name}.linear_proj.merged_proj",
            text_size,
            wide,
            wide,
            bias=False,
            shards=("gate_proj", "dense_h_to_4h"),
        ),
        blocks.row(f"{name}.linear_proj.dense_4h_to_h", wide, text_size, bias=False),
        blocks.convolution(f"{name}.conv", text_size, size, 2, 2, bias=True),
        blocks.replicated(f"{name}.marks", (text_size,), (text_size,)),
    ]
    for index in range(vision.integer("num_hidden_layers")):
        layer = f"{name}.transformer.layers.{index}"
        modules += [
            blocks.norms(f"{layer}.layernorm", size, count=2, bias=True),
            blocks.qkv(
                f"{layer}.attention.query_key_value",
                size,
                vision.integer("num_heads"),
                bias=True,
            ),
            blocks.row(f"{layer}.attention.dense", size, size, bias=True),
            *blocks.plain_mlp(
                f"{layer}.mlp.fc1",
                f"{layer}.mlp.fc2",
                size,
                vision.integer("intermediate_size"),
            ),
        ]
    return tuple(modules)


READERS = {
    "GLM4VForCausalLM": read_glm4v_chat,
}
