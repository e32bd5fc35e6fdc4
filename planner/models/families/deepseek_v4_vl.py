"""DeepSeek-V4 with its encoder of images."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import read_as
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.layers import Module


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    blind = Facts({**facts.config, "vision_n_layers": 0}, facts.model_type)
    return read_as(blind, label, "DeepseekV4ForCausalLM")


def _tower(facts: Facts, text_size: int) -> Tower:
    return Tower(
        IMAGE,
        blocks.unquantised(*_modules(facts, text_size)),
        supports_data_parallel=True,
        whole_unless_heads_divide=facts.integer("vision_n_heads"),
    )


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/deepseek_v4/common/vl_model.py` and `vision.py`."""
    size, heads = facts.integers("vision_dim", "vision_n_heads")
    pixels = 3 * facts.integer("vision_patch_size") ** 2
    yield blocks.linear("vision.patch_embed", pixels, size, bias=True)
    wide = facts.integer("vision_inter_dim")
    yield from blocks.repeated(
        "vision.blocks",
        facts.integer("vision_n_layers"),
        blocks.norms("norm", size, count=2, bias=False),
        blocks.qkv("attn.wqkv", size, heads, bias=True),
        blocks.row("attn.wo", size, size, bias=True),
        blocks.column("mlp.w1", size, wide, wide, bias=False),
        blocks.row("mlp.w2", wide, size, bias=False),
    )
    yield blocks.norms("vision.norm", size, bias=False)
    merged = size * facts.integer("vision_downsample_ratio") ** 2
    yield blocks.column("aligner.w1", merged, text_size, bias=True)
    yield blocks.row("aligner.w2", text_size, text_size, bias=True)
    yield blocks.replicated("image_marks", *((text_size,),) * 4, dtype="float32")


READERS = {"DeepseekV4ForConditionalGeneration": Composite(_tower, text=_text)}
