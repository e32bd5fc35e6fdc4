"""MoonViT, the tower of Kimi's models, for images and for pieces of video."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label, Reader
from planner.models.families.composite import (
    Composite,
    Text,
    quant_method,
    sub_config,
    text_facts,
)
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.towers import blocks, items
from planner.models.families.towers.blocks import IMAGE
from planner.models.layers import Module
from planner.models.passes import Moment, TowerPass

_ROTARY_SIDE = 512
"""Rows and columns for which rotary angles are computed ahead."""
_STEPS = 11
_MOONVIT = own_defaults("MoonViTConfig")
_PARTS = blocks.Parts(norms="norm", qkv="wqkv", out="wo", mlp=("mlp.fc0", "mlp.fc1"))


def moonvit_3d_tower(
    facts: Facts, text_size: int, *, is_quantizable: bool = True
) -> Tower:
    """Return the tower of Kimi-K2.5, for images and short pieces of video.

    Ranks that do not divide its heads hold it in full.

    Source: vLLM 0.33.0 `models/kimi_k25_vit.py` MoonViT3dPretrainedModel,
    KimiK25MultiModalProjector.
    """
    name, size = "vision_tower", facts.integer("hidden_size")
    positions = facts.integer("pos_emb_height"), facts.integer("pos_emb_width")
    times = (facts.integer("pos_emb_time"), size)
    modules = (
        blocks.replicated(f"{name}.patch_embed.pos_emb.time", times),
        *_blocks(facts, name, positions),
        *_projector(facts, text_size, "mm_projector"),
    )
    return Tower(
        ("vision_chunk",),
        modules if is_quantizable else blocks.unquantised(*modules),
        items=items.kimi_k25_items(facts),
        supports_data_parallel=True,
        forward=_k25_pass(facts),
        whole_unless_heads_divide=facts.integer("num_attention_heads"),
    )


def _k25_pass(facts: Facts) -> TowerPass:
    """Return the widest point: positions are interpolated in fp32, in eleven steps.

    Beside them are the patches, the table of positions in both dtypes, and that of the
    rotary embedding, which stays: complex numbers for each row and column. The outputs
    take the block of a step, if it is not much larger.

    Source: vLLM 0.33.0 `models/kimi_k25_vit.py` get_rope_shape (bicubic, as PyTorch
    decomposes it), Rope2DPosEmbRepeated; a traced dry run of Kimi K2.6
    on eight ranks: outputs of 57.8 MiB in a block of 76.
    """
    size, heads = facts.integers("hidden_size", "num_attention_heads")
    rows = facts.integer("pos_emb_height", "init_pos_emb_height")
    columns = facts.integer("pos_emb_width", "init_pos_emb_width")
    rotary = _ROTARY_SIDE**2 * (size // heads // 2) * 8
    step = 2 * size  # in fp32
    whole = _STEPS * step + size + 2 * size // heads
    return TowerPass(
        moments=(Moment("positions", whole=whole),),
        tables_bytes=rotary + rows * columns * size * (4 + 2),
        kept_tables_bytes=rotary,
        left=step,
    )


def moonvit_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower of Kimi-VL, for images, which passes no quantisation on.

    Source: vLLM 0.33.0 `models/moonvit.py` MoonVitPretrainedModel, `models/kimi_vl.py`
    KimiVLMultiModalProjector; `transformers_utils/configs/moonvit.py`.
    """
    facts = Facts({**_MOONVIT, **facts.config}, facts.model_type)
    height, width = facts.integers("init_pos_emb_height", "init_pos_emb_width")
    modules = (
        *_blocks(facts, "vision_tower", (height, width)),
        *_projector(facts, text_size, "multi_modal_projector"),
    )
    return Tower(
        IMAGE,
        blocks.unquantised(*modules),
        items=items.kimi_vl_items(facts),
        rotates_in_fp32=True,
        supports_data_parallel=True,
    )


def _blocks(facts: Facts, name: str, positions: tuple[int, int]) -> Iterator[Module]:
    sizes, patch = blocks.Sizes.of(facts), facts.integer("patch_size")
    size, embedding = sizes.width, f"{name}.patch_embed"
    yield blocks.convolution(f"{embedding}.proj", size, 3, patch, patch, bias=True)
    yield blocks.replicated(f"{embedding}.pos_emb", (*positions, size))
    yield blocks.norms(f"{name}.encoder.final_layernorm", size, bias=True)
    yield from blocks.layers(f"{name}.encoder.blocks", sizes, _PARTS)


def _projector(facts: Facts, text_size: int, name: str) -> Iterator[Module]:
    size = facts.integer("hidden_size")
    rows, columns = facts.pair("merge_kernel_size")
    merged = size * rows * columns
    yield blocks.norms(f"{name}.pre_norm", size, bias=True)
    yield blocks.whole(f"{name}.linear_1", merged, merged, bias=True)
    yield blocks.whole(f"{name}.linear_2", merged, text_size, bias=True)


# Kimi-VL: MoonViT, and a language model like DeepSeek's.
_KIMI_VL_RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
)


def _kimi_vl_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower, which like its projector is never quantised.

    Source: vLLM 0.33.0 `models/kimi_vl.py` KimiVLForConditionalGeneration;
    `transformers_utils/configs/kimi_vl.py` (the text as DeepSeek-V2's).
    """
    return moonvit_tower(sub_config(facts, "vision_config", "moonvit"), text_size)


# Kimi-K2.5: MoonViT for images and short pieces of video, and DeepSeek-V3.
RENAMES = (
    ("language_model.layers.", "language_model.model.layers."),
    ("mm_projector.proj.0", "mm_projector.linear_1"),
    ("mm_projector.proj.2", "mm_projector.linear_2"),
)


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    text = text_facts(facts, "deepseek_v3")
    return label.readers["DeepseekV3ForCausalLM"](text, label)


def _kimi_k25_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower, which compressed-tensors does not quantise.

    Source: vLLM 0.33.0 `models/kimi_k25.py` KimiK25ForConditionalGeneration.
    """
    is_quantizable = quant_method(facts) != "compressed-tensors"
    vision = sub_config(facts, "vision_config", "kimi_k25_vision")
    return moonvit_3d_tower(vision, text_size, is_quantizable=is_quantizable)


READERS: dict[str, Reader] = {
    "KimiVLForConditionalGeneration": Composite(
        _kimi_vl_tower,
        text=Text("deepseek_v2", "DeepseekV2ForCausalLM"),
        renames=_KIMI_VL_RENAMES,
    ),
    "KimiK25ForConditionalGeneration": Composite(
        _kimi_k25_tower, text=_text, renames=RENAMES
    ),
}
