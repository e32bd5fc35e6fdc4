"""dots.ocr: Qwen2 with a tower of its own."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import MODEL_RENAMES, joined
from planner.models.families.towers import blocks, items
from planner.models.layers import Module

# Source: vLLM 0.33.0 `transformers_utils/configs/dotsocr.py` DotsVisionConfig.
_DOTS_VISION = {
    "embed_dim": 1536,
    "hidden_size": 1536,
    "intermediate_size": 4224,
    "num_hidden_layers": 42,
    "num_attention_heads": 12,
    "num_channels": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "use_bias": False,
    "post_norm": True,
}


def read_dots_ocr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return dots.ocr, whose config is Qwen2's with a tower added.

    Source: vLLM 0.33.0 `models/dots_ocr.py`.
    """
    inner = label.of("Qwen2ForCausalLM")
    text = Facts(facts.config, "qwen2")
    vision = Facts(facts.mapping("vision_config"), "dots_vit", _DOTS_VISION)
    model = llama.read(text, inner, style=llama.STYLES["Qwen2"])
    return joined(facts, label, model, _dots_tower(vision), MODEL_RENAMES)


def _dots_tower(facts: Facts, name: str = "vision_tower") -> Tower:
    """Return dots.ocr's tower, whose merger is never quantised.

    Source: vLLM 0.33.0 `models/dots_ocr.py` DotsVisionTransformer.
    """
    size, heads = facts.integer("embed_dim"), facts.integer("num_attention_heads")
    mlp_size, patch = facts.integer("intermediate_size"), facts.integer("patch_size")
    bias, colours = facts.flag("use_bias"), facts.integer("num_channels")
    patches = f"{name}.patch_embed.patchifier"
    modules: list[Module] = [
        blocks.convolution(f"{patches}.proj", size, colours, patch, patch, bias=True),
        blocks.norms(f"{patches}.norm", size, bias=False),
        blocks.inverse_frequencies(f"{name}.rotary_pos_emb", size // heads),
    ]
    for index in range(facts.integer("num_hidden_layers")):
        block = f"{name}.blocks.{index}"
        fc13, shards = f"{block}.mlp.fc13", ("fc1", "fc3")
        modules += [
            blocks.qkv(f"{block}.attn.qkv", size, heads, bias=bias),
            blocks.row(f"{block}.attn.proj", size, size, bias=bias),
            blocks.norms(f"{block}.norm", size, count=2, bias=False),
            blocks.column(fc13, size, mlp_size, mlp_size, bias=bias, shards=shards),
            blocks.row(f"{block}.mlp.fc2", mlp_size, size, bias=bias),
        ]
    if facts.flag("post_norm"):
        modules.append(blocks.norms(f"{name}.post_trunk_norm", size, bias=False))
    merged = size * facts.integer("spatial_merge_size") ** 2
    modules.append(blocks.norms(f"{name}.merger.ln_q", size, bias=True))
    modules += blocks.unquantised(
        blocks.column(f"{name}.merger.mlp.0", merged, merged, bias=True),
        blocks.row(
            f"{name}.merger.mlp.2", merged, facts.integer("hidden_size"), bias=True
        ),
    )
    return Tower(
        modalities=("image",),
        modules=tuple(modules),
        items=items.dots_items(facts),
        rotates_in_fp32=True,
        supports_data_parallel=True,
    )


READERS = {
    "DotsOCRForCausalLM": read_dots_ocr,
}
