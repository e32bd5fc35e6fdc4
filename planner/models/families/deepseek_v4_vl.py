"""DeepSeek-V4 with its encoder of images."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.deepseek_v4 import read_deepseek_v4
from planner.models.families.facts import Facts
from planner.models.families.multimodal import composed
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.layers import Module


def read_deepseek_v4_vision(facts: Facts, label: Label) -> ModelArchitecture:
    """Return DeepSeek-V4 with its encoder of images.

    Source: vLLM 0.33.0 `models/deepseek_v4/common/vl_model.py` and `vision.py`.
    """
    own = label.of("DeepseekV4ForCausalLM")
    blind = Facts({**facts.config, "vision_n_layers": 0}, facts.model_type)
    model = read_deepseek_v4(blind, own)
    tower = Tower(
        modalities=IMAGE,
        modules=blocks.unquantised(*_deepseek_vit(facts, model.hidden_size)),
        supports_data_parallel=True,
        whole_unless_heads_divide=facts.integer("vision_n_heads"),
    )
    return composed(facts, label, model, tower)


def _deepseek_vit(facts: Facts, text_size: int) -> Iterator[Module]:
    size, heads = facts.integer("vision_dim"), facts.integer("vision_n_heads")
    pixels = 3 * facts.integer("vision_patch_size") ** 2
    yield blocks.replicated("vision.patch_embed", (size, pixels), (size,))
    for index in range(facts.integer("vision_n_layers")):
        block = f"vision.blocks.{index}"
        yield blocks.replicated(f"{block}.norm", (size,), (size,))
        yield blocks.qkv(f"{block}.attn.wqkv", size, heads, bias=True)
        yield blocks.row(f"{block}.attn.wo", size, size, bias=True)
        wide = facts.integer("vision_inter_dim")
        yield blocks.column(f"{block}.mlp.w1", size, wide, wide, bias=False)
        yield blocks.row(f"{block}.mlp.w2", wide, size, bias=False)
    yield blocks.replicated("vision.norm", (size,))
    merged = size * facts.integer("vision_downsample_ratio") ** 2
    yield blocks.column("aligner.w1", merged, text_size, bias=True)
    yield blocks.row("aligner.w2", text_size, text_size, bias=True)
    yield blocks.replicated("image_marks", *((text_size,),) * 4, dtype="float32")


READERS = {
    "DeepseekV4ForConditionalGeneration": read_deepseek_v4_vision,
}
