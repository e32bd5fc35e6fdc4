"""GLM's models of images and videos: GLM-4.1V, GLM-4.5V, GLM-4.6V, GLM-OCR."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import gpt, llama, moe
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    Tie,
    composed,
    joined,
    sub_config,
    text_facts,
)
from planner.models.families.qwen_vl import QWEN3_RENAMES
from planner.models.families.towers import blocks, items
from planner.models.families.towers.blocks import GATE_AND_UP, QKV_SHARDS
from planner.models.families.towers.qwen_vl import IMAGE_AND_VIDEO
from planner.models.layers import Module, Part, ReplicatedLinear


def read_glm4v(
    facts: Facts, label: Label, *, is_flat_read: bool = False
) -> ModelArchitecture:
    """Return GLM-4.1V and GLM-4.6V-Flash.

    The first ones' flat configs say nothing to the language model, which has its
    class's defaults. `is_flat_read`: they do, as in Transformers before 5.20.

    Source: vLLM 0.33.0 `models/glm4_1v.py` Glm4vForConditionalGeneration,
    `models/glm4.py` (half of each head is rotated unless the config says otherwise);
    Transformers' Glm4vConfig.
    """
    if facts.model_type != "glm4v":
        raise facts.unsupported("model_type", "glm4v is.")
    flat_keys = facts.config if is_flat_read else ()
    text = text_facts(facts, "glm4v_text", flat_keys=flat_keys, tie=Tie.EITHER)
    text = Facts(text.config, text.model_type, {"partial_rotary_factor": 0.5})
    inner = label.of("Glm4ForCausalLM")
    model = llama.read(text, inner, style=llama.STYLES["Glm4"])
    vision = sub_config(facts, "vision_config", "glm4v_vision")
    return joined(facts, label, model, _glm4v_tower(vision), QWEN3_RENAMES)


def read_glm_ocr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GLM-OCR, less its layers for speculation.

    Source: vLLM 0.33.0 `models/glm_ocr.py`.
    """
    text = text_facts(facts, "glm_ocr_text", tie=Tie.EITHER)
    text = Facts(text.config, text.model_type, {"partial_rotary_factor": 0.5})
    inner = label.of("Glm4ForCausalLM")
    model = llama.read(text, inner, style=llama.STYLES["Glm4"])
    vision = sub_config(facts, "vision_config", "glm_ocr_vision")
    tower = _glm_ocr_tower(vision, text.integer("intermediate_size"))
    return joined(facts, label, model, tower, QWEN3_RENAMES)


def read_glm4v_moe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GLM-4.5V and GLM-4.6V.

    Source: vLLM 0.33.0 `models/glm4_1v.py` Glm4vMoeForConditionalGeneration.
    """
    if facts.model_type != "glm4v_moe":
        raise facts.unsupported("model_type", "glm4v_moe is.")
    text = text_facts(facts, "glm4v_moe_text", tie=Tie.EITHER)
    inner = label.of("Glm4MoeForCausalLM")
    vision = sub_config(facts, "vision_config", "glm4v_moe_vision")
    tower = _glm4v_tower(vision, gate_and_up=GATE_AND_UP)
    return joined(facts, label, moe.read_glm4_moe(text, inner), tower, QWEN3_RENAMES)


def _glm4v_tower(
    facts: Facts, name: str = "visual", *, gate_and_up: tuple[str, ...] = ()
) -> Tower:
    """Return the tower of GLM-4.1V, GLM-4.5V and GLM-4.6V.

    `gate_and_up` are the checkpoint's layers packed in gate_up_proj, as the class's
    packed_modules_mapping has them.

    Source: vLLM 0.33.0 `models/glm4_1v.py` Glm4vVisionTransformer, whose blocks take
    the output's size for that of their MLP, and whose merger the MLP's.
    """
    size, output_size = facts.integer("hidden_size"), facts.integer("out_hidden_size")
    heads = facts.integer("num_heads")
    modules: list[Module] = [
        _patch_embedding(facts, name),
        blocks.input_norm(name),
        blocks.rotary_cache(f"{name}.rotary_pos_emb", size // heads),
    ]
    for index in range(facts.integer("depth")):
        block = f"{name}.blocks.{index}"
        modules += [
            blocks.norms(f"{block}.norm", size, count=2, bias=False),
            # Its name where a checkpoint names exceptions (compressed-tensors).
            blocks.qkv(
                f"{block}.attn.qkv_proj", size, heads, bias=False, shards=QKV_SHARDS
            ),
            blocks.row(f"{block}.attn.proj", size, size, bias=False),
            *blocks.gated_mlp(
                f"{block}.mlp", size, output_size, bias=False, shards=gate_and_up
            ),
        ]
    mlp_size = facts.integer("intermediate_size")
    modules += _merger(f"{name}.merger", output_size, mlp_size, gate_and_up)
    modules += _embeddings_and_downsampling(facts, name)
    return Tower(
        modalities=IMAGE_AND_VIDEO,
        modules=tuple(modules),
        items=items.glm4v_items(facts),
        supports_data_parallel=True,
    )


def _glm_ocr_tower(facts: Facts, text_size: int, name: str = "visual") -> Tower:
    """Return GLM-OCR's tower; `text_size` is that of the language model's MLP.

    Source: vLLM 0.33.0 `models/glm_ocr.py` GlmOcrVisionTransformer.
    """
    size, heads = facts.integer("hidden_size"), facts.integer("num_heads")
    mlp_size, merge = (
        facts.integer("intermediate_size"),
        facts.integer("spatial_merge_size"),
    )
    modules: list[Module] = [
        _patch_embedding(facts, name),
        blocks.input_norm(name),
        blocks.rotary_cache(f"{name}.rotary_pos_emb", size // heads),
    ]
    for index in range(facts.integer("depth")):
        block = f"{name}.blocks.{index}"
        qkv = f"{block}.attn.qkv_proj"
        modules += [
            blocks.norms(f"{block}.norm", size, count=2, bias=False),
            blocks.norms(f"{block}.attn.qk_norm", size // heads, count=2, bias=False),
            blocks.qkv(qkv, size, heads, bias=True, shards=QKV_SHARDS),
            blocks.row(f"{block}.attn.proj", size, size, bias=True),
            *blocks.gated_mlp(f"{block}.mlp", size, mlp_size, bias=True, shards=()),
        ]
    output_size = facts.integer("out_hidden_size")
    modules += [
        *_merger(f"{name}.merger", output_size, text_size, ()),
        blocks.convolution(
            f"{name}.downsample", output_size, size, merge, merge, bias=True
        ),
        blocks.norms(f"{name}.post_layernorm", size, bias=False),
    ]
    return Tower(
        modalities=IMAGE_AND_VIDEO,
        modules=tuple(modules),
        items=items.glm4v_items(facts),
        supports_data_parallel=True,
    )


def _patch_embedding(facts: Facts, name: str) -> Module:
    patch = facts.integer("patch_size")
    return blocks.convolution(
        f"{name}.patch_embed.proj",
        facts.integer("hidden_size"),
        facts.integer("in_channels"),
        facts.integer("temporal_patch_size"),
        patch,
        patch,
        bias=True,
    )


def _merger(
    name: str, size: int, mlp_size: int, gate_and_up: tuple[str, ...]
) -> tuple[Module, ...]:
    return (
        blocks.column(f"{name}.proj", size, size, bias=False),
        blocks.norms(f"{name}.post_projection_norm", size, bias=True),
        *blocks.gated_mlp(
            name,
            size,
            mlp_size,
            bias=False,
            shards=gate_and_up,
        ),
    )


def _embeddings_and_downsampling(facts: Facts, name: str) -> tuple[Module, ...]:
    size, output_size = facts.integer("hidden_size"), facts.integer("out_hidden_size")
    side = facts.integer("image_size") // facts.integer("patch_size")
    merge = facts.integer("spatial_merge_size")
    return (
        blocks.replicated(f"{name}.embeddings.position_embedding", (side * side, size)),
        blocks.replicated(
            f"{name}.embeddings.position_ids", (side * side,), dtype="int64"
        ),
        blocks.norms(f"{name}.post_conv_layernorm", size, bias=False),
        blocks.convolution(
            f"{name}.downsample", output_size, size, merge, merge, bias=True
        ),
        blocks.norms(f"{name}.post_layernorm", size, bias=False),
    )


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
    "Glm4vForConditionalGeneration": read_glm4v,
    "Glm4vMoeForConditionalGeneration": read_glm4v_moe,
    "GlmOcrForConditionalGeneration": read_glm_ocr,
}
