"""GLM-4.1V, GLM-4.5V, GLM-4.6V and GLM-OCR."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama, moe
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import Tie, joined, sub_config, text_facts
from planner.models.families.qwen3_vl import QWEN3_RENAMES
from planner.models.families.towers import blocks, items
from planner.models.families.towers.blocks import (
    GATE_AND_UP,
    IMAGE_AND_VIDEO,
    QKV_SHARDS,
)
from planner.models.layers import Module


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


READERS = {
    "Glm4vForConditionalGeneration": read_glm4v,
    "Glm4vMoeForConditionalGeneration": read_glm4v_moe,
    "GlmOcrForConditionalGeneration": read_glm_ocr,
}
