"""PaddleOCR-VL: SigLIP with rotary positions, and ERNIE 4.5."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    MODEL_RENAMES,
    Tie,
    joined,
    sub_config,
    text_facts,
)
from planner.models.families.qwen2_vl import FLAT_KEYS
from planner.models.families.towers import blocks, items
from planner.models.layers import Module


def read_paddle_ocr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return PaddleOCR-VL, which vLLM serves on one pipeline stage only.

    Source: vLLM 0.33.0 `models/paddleocr_vl.py`.
    """
    keys = (*FLAT_KEYS, "head_dim", "use_bias")
    text = text_facts(facts, "paddleocr_vl_text", flat_keys=keys, tie=Tie.EITHER)
    inner = label.of("Ernie4_5ForCausalLM")
    model = llama.read(text, inner, style=llama.LLAMA)
    vision = sub_config(facts, "vision_config", "paddleocr_vl_vision")
    tower = _paddle_ocr_tower(vision, model.hidden_size)
    return replace(joined(facts, label, model, tower, MODEL_RENAMES), supports_pp=False)


def _paddle_ocr_tower(facts: Facts, text_hidden_size: int) -> Tower:
    """Return PaddleOCR-VL's tower and its projector over 2 x 2 patches.

    Quantised MLPs need sizes that 64 divides.

    Source: vLLM 0.33.0 `models/paddleocr_vl.py` SiglipVisionModel and Projector;
    `models/siglip.py` SiglipMLP.
    """
    name, size = "visual.vision_model", facts.integer("hidden_size")
    heads, patch = facts.integer("num_attention_heads"), facts.integer("patch_size")
    mlp_size, colours = (
        facts.integer("intermediate_size"),
        facts.integer("num_channels"),
    )
    positions = (facts.integer("image_size") // patch) ** 2
    patches = f"{name}.embeddings.patch_embedding"
    modules: list[Module] = [
        blocks.convolution(patches, size, colours, patch, patch, bias=True),
        blocks.replicated(f"{name}.embeddings.position_embedding", (positions, size)),
        blocks.replicated(
            f"{name}.embeddings.position_ids", (positions,), dtype="int64"
        ),
    ]
    for index in range(facts.integer("num_hidden_layers")):
        layer = f"{name}.encoder.layers.{index}"
        qkv = f"{layer}.self_attn.qkv_proj"
        mlp = blocks.plain_mlp(f"{layer}.mlp.fc1", f"{layer}.mlp.fc2", size, mlp_size)
        is_even = size % 64 == mlp_size % 64 == 0
        modules += [
            blocks.norms(f"{layer}.layer_norm", size, count=2, bias=True),
            blocks.qkv(qkv, size, heads, bias=True, shards=blocks.QKV_SHARDS),
            blocks.row(f"{layer}.self_attn.out_proj", size, size, bias=True),
            *(mlp if is_even else blocks.unquantised(*mlp)),
        ]
    merged = 4 * size
    modules += [
        blocks.inverse_frequencies(f"{name}.encoder.rotary_pos_emb", size // heads),
        blocks.norms(f"{name}.post_layernorm", size, bias=True),
        blocks.norms("mlp_AR.pre_norm", size, bias=True),
        blocks.replicated("mlp_AR.linear_1", (merged, merged), (merged,)),
        blocks.replicated(
            "mlp_AR.linear_2", (text_hidden_size, merged), (text_hidden_size,)
        ),
    ]
    return Tower(
        modalities=("image",),
        modules=tuple(modules),
        items=items.paddle_ocr_items(facts),
        rotates_in_fp32=True,
    )


READERS = {
    "PaddleOCRVLForConditionalGeneration": read_paddle_ocr,
}
