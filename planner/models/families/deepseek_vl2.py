"""DeepSeek-VL2, and DeepSeek-OCR with Unlimited-OCR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.models.architecture import MediaItem, ModelArchitecture, Tower
from planner.models.caches import AttentionLayer, CacheLayer
from planner.models.families.assembly import Label, Reader, with_caches
from planner.models.families.composite import Composite, read_as, text_facts
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import Depth, clip_layers
from planner.models.families.towers.grids import RGB, deepseek_vl2_items
from planner.models.families.towers.sizing import AnySize
from planner.models.layers import (
    ColumnParallelLinear,
    Linear,
    Module,
    Part,
    RowParallelLinear,
)
from planner.models.tensors import Tensors
from planner.values import frozen

_VL2_RENAMES = (("language.", "language_model."),)
_PROJECTOR = {
    "projector_type": "downsample_mlp_gelu",
    "input_dim": 1152,
    "n_embed": 2048,
    "depth": 2,
    "mlp_ratio": 1,
    "downsample_ratio": 2,
}
_SIZE, _MLP_SIZE, _VL2_LAYERS, _VL2_PATCH, _IMAGE = 1152, 4304, 27, 14, 384
"""Of vit_so400m_patch14_siglip_384, which is built whatever config.json says."""


def _projector_facts(facts: Facts) -> Facts:
    given = facts.mapping("projector_config")
    return Facts({**_PROJECTOR, **given}, "mlp_projector")


def _vl2_tower(facts: Facts, _text_size: int) -> Tower:
    """Return a tower that has sizes of its own, not the config's.

    Source: vLLM 0.33.0 `models/deepseek_vl2.py` DeepseekVLV2ForCausalLM;
    `transformers_utils/configs/deepseek_vl2.py`.
    """
    projector = _projector(_projector_facts(facts))
    return Tower(
        IMAGE, (*timm_siglip("vision"), projector), items=deepseek_vl2_items(facts)
    )


def _vl2_ends(facts: Facts, _text_size: int) -> tuple[Module, ...]:
    """Return parameters of the whole, which are there even where the tower is not."""
    size = _projector_facts(facts).integer("n_embed")
    return (blocks.replicated("image_newline", (size,), (size,)),)


def read_language_model(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the language model, whose attention is latent unless its sizes say not.

    Source: vLLM 0.33.0 `models/deepseek_v2.py` DeepseekV2DecoderLayer (use_mha).
    """
    text = text_facts(facts, "deepseek_v2", name="language_config")
    names = text.value("architectures") or ()
    if names and names[0] != "DeepseekV2ForCausalLM":
        raise text.unsupported("architectures", "DeepseekV2ForCausalLM is.")
    if any(text.value(name) for name in ("qk_nope_head_dim", "qk_rope_head_dim")):
        return read_as(text, label, "DeepseekV2ForCausalLM")
    # The class divides the width by the heads, whatever head_dim the config class has.
    head_size = text.integer("hidden_size") // text.integer("num_attention_heads")
    text = text.having(head_dim=head_size)
    inner = label.of("DeepseekV2ForCausalLM")
    return label.readers["DeepseekForCausalLM"](text, inner)


def _projector(facts: Facts) -> Module:
    """Return linear layers over squares of patches, torch's own.

    Source: vLLM 0.33.0 `models/deepseek_vl2.py` MlpProjector.
    """
    size, ratio = facts.integers("n_embed", "downsample_ratio")
    if facts.value("projector_type") != "downsample_mlp_gelu":
        raise facts.unsupported("projector_type", "downsample_mlp_gelu is.")
    wide, given = size * facts.integer("mlp_ratio"), facts.integer("input_dim")
    between = ((wide, wide), (wide,)) * (facts.integer("depth") - 2)
    first = ((wide, given * ratio * ratio), (wide,))
    return blocks.replicated("projector", *first, *between, (size, wide), (size,))


@frozen
class _DividedWhenSeveral(Linear):
    """A linear layer that is torch's own on one rank, and vLLM's on several.

    Source: vLLM 0.33.0 `models/deepseek_vl2.py` patch_vit_for_tp.
    """

    layer: ColumnParallelLinear | RowParallelLinear
    part: Part = Part.TOWERS

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return weight and bias on a rank."""
        method = None if layout.tensor_parallel_size == 1 else self.method
        return replace(self.layer, method=method).tensors(layout)


def timm_siglip(name: str) -> Iterator[Module]:
    """Yield the vision model with the head that pools its output.

    Attention is whole on every rank; the names of the MLPs have no prefix, as the class
    passes none on.
    """
    square, vector = (_SIZE, _SIZE), (_SIZE,)
    attention = ((3 * _SIZE, _SIZE), (3 * _SIZE,), square, vector)
    patches = (_IMAGE // _VL2_PATCH) ** 2
    embedding, pool = f"{name}.patch_embed", f"{name}.attn_pool"
    yield blocks.convolution(embedding, _SIZE, 3, _VL2_PATCH, _VL2_PATCH, bias=True)
    yield blocks.replicated(f"{name}.pos_embed", (1, patches, _SIZE))
    for index in range(_VL2_LAYERS):
        block = f"{name}.blocks.{index}"
        yield blocks.norms(f"{block}.norm", _SIZE, count=2, bias=True)
        yield blocks.replicated(f"{block}.attn", *attention)
        yield from _mlp(f"blocks.{index}.mlp")
    yield blocks.norms(f"{name}.norm", _SIZE, bias=True)
    yield blocks.replicated(f"{pool}.latent", (1, 1, _SIZE))
    yield blocks.norms(f"{pool}.norm", _SIZE, bias=True)
    yield blocks.replicated(f"{pool}.attn", *attention)
    yield from _mlp("attn_pool.mlp")


def _mlp(name: str) -> tuple[Module, ...]:
    return tuple(
        _DividedWhenSeveral(name=layer.name, layer=layer)
        for layer in blocks.plain_mlp(f"{name}.fc1", f"{name}.fc2", _SIZE, _MLP_SIZE)
    )


# DeepSeek-OCR, its second release, and Unlimited-OCR.
_OCR_RENAMES = (
    ("model.embed_tokens.", "language_model.model.embed_tokens."),
    ("model.layers.", "language_model.model.layers."),
    ("model.norm.", "language_model.model.norm."),
    ("lm_head.", "language_model.lm_head."),
    ("model.", ""),
)
_WIDTH, _OCR_LAYERS, _HEAD = 768, 12, 64
_QWEN2_WIDTH = 896
_KEPT_WORDS = 128
_GLOBAL = (2, 5, 8, 11)
"""SAM's layers that attend to the whole image, not to windows of 14 patches."""
_WINDOW, _OCR_PATCH, _BASE, _CROP = 14, 16, 1024, 640
_CLIP = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "image_size": 224,
    "patch_size": 14,
    "num_channels": 3,
}


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    text = facts.mapping("language_config")
    heads = ("qk_nope_head_dim", "qk_rope_head_dim")
    if text.get("use_mla", True) or any(text.get(name, 1) for name in heads):
        raise facts.unsupported("language_config", "one without latent attention is.")
    return read_language_model(facts, label)


def _projector_sizes(facts: Facts) -> tuple[int, int]:
    """Return the projector's inputs and outputs."""
    given = facts.mapping("projector_config")
    if given.get("projector_type") != "linear":
        raise facts.unsupported("projector_config", "a linear projector is.")
    return int(given["input_dim"]), int(given["n_embed"])


def _ocr_tower(facts: Facts, _text_size: int) -> Tower:
    """Return towers that have sizes of their own, not the config's.

    Source: vLLM 0.33.0 `models/deepseek_ocr.py` DeepseekOCRForCausalLM;
    `transformers_utils/configs/deepseek_vl2.py`.
    """
    return deep_encoder(*_projector_sizes(facts))


def _ocr_ends(facts: Facts, _text_size: int) -> tuple[Module, ...]:
    """Return parameters of the whole model, which exist even without the tower."""
    size = _projector_sizes(facts)[1]
    return (blocks.replicated("image_newline", (size,), (size,)),)


_read = Composite(_ocr_tower, text=_text, beside=_ocr_ends, renames=_OCR_RENAMES)


def _read_unlimited(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Unlimited-OCR: DeepSeek-OCR that forgets what it wrote long ago.

    Source: vLLM 0.33.0 `models/unlimited_ocr.py`, `models/config.py`
    UnlimitedOCRForCausalLMConfig.
    """
    model = _read(facts, label)
    window = facts.integer("rswa_window", default=_KEPT_WORDS)

    def referring(cache: CacheLayer) -> CacheLayer:
        if not isinstance(cache, AttentionLayer):
            return cache
        return replace(cache, reference_window=window)

    towers = tuple(replace(tower, items=()) for tower in model.towers)
    return replace(with_caches(model, referring), towers=towers)


def _second_modules(facts: Facts, _text_size: int) -> Iterator[Module]:
    """Yield the towers of DeepSeek-OCR 2, which has a small Qwen2 in CLIP's place.

    Source: vLLM 0.33.0 `models/deepseek_ocr2.py`, `models/deepencoder2.py`.
    """
    given, size = _projector_sizes(facts)
    yield from _sam("sam_model", columns=_QWEN2_WIDTH)
    yield from _qwen2_encoder("qwen2_model")
    yield blocks.linear("projector", given, size, bias=True)
    yield blocks.replicated("view_seperator", (size,))


def deep_encoder(input_size: int, output_size: int) -> Tower:
    """Return SAM's encoder, CLIP after it, their projector, and the largest image.

    That image has 1,280 x 1,280 pixels: the whole at 1,024 and four crops of 640, one
    token for 16 x 16 patches' pixels by four, and a line's end each.

    Source: vLLM 0.33.0 `models/deepencoder.py`, `models/deepseek_ocr.py`.
    """
    clip = Facts(_CLIP, "clip_vision_model")
    return Tower(
        IMAGE,
        (
            *_sam("sam_model"),
            *clip_layers(clip, "vision_model", Depth(has_post_norm=False)),
            blocks.linear("projector", input_size, output_size, bias=True),
        ),
        items=(_image(),),
    )


def _image() -> MediaItem:
    whole, crop = _BASE // _OCR_PATCH // 4, _CROP // _OCR_PATCH // 4
    crops = 4
    return MediaItem(
        modality="image",
        tokens=whole * (whole + 1) + 2 * crop * (2 * crop + 1) + 1,
        patches=crops * (_CROP // _OCR_PATCH) ** 2,
        inputs=RGB * (_BASE**2 + crops * _CROP**2),
        pieces=1,  # one image after the other
        sizing=AnySize(),
    )


def _sam(name: str, *, columns: int = 1024) -> Iterator[Module]:
    grid, wide = _BASE // _OCR_PATCH, 4 * _WIDTH
    yield blocks.convolution(f"{name}.patch_embed", _WIDTH, RGB, 16, 16, bias=True)
    yield blocks.replicated(f"{name}.pos_embed", (grid, grid, _WIDTH))
    attention = ((3 * _WIDTH, _WIDTH), (3 * _WIDTH,), (_WIDTH, _WIDTH), (_WIDTH,))
    mlp = ((wide, _WIDTH), (wide,), (_WIDTH, wide), (_WIDTH,))
    for index in range(_OCR_LAYERS):
        block, reach = f"{name}.blocks.{index}", grid if index in _GLOBAL else _WINDOW
        positions = ((2 * reach - 1, _HEAD),) * 2
        yield blocks.norms(f"{block}.norm", _WIDTH, count=2, bias=True)
        yield blocks.replicated(block, *attention, *mlp)
        yield blocks.replicated(f"{block}.rel_pos", *positions)
    sizes = ((256, _WIDTH, 1), (256, 256, 3), (512, 256, 3), (columns, 512, 3))
    for number, (out, into, side) in enumerate(sizes):
        neck = f"{name}.neck.{number}"
        yield blocks.convolution(neck, out, into, side, side, bias=False)
    yield blocks.norms(f"{name}.neck.norms", 256, count=2, bias=True)


def _qwen2_encoder(name: str) -> Iterator[Module]:
    """Yield Transformers' Qwen2, 24 layers of two KV heads, and its queries."""
    size, wide, narrow = _QWEN2_WIDTH, 4864, 2 * _HEAD
    shapes = ((size, size), (size,), (size, size))
    keys = ((narrow, size), (narrow,)) * 2
    mlp = ((wide, size), (wide, size), (size, wide))
    yield blocks.replicated(f"{name}.queries", (144, size), (256, size))
    yield blocks.norms(f"{name}.model.norm", size, bias=False)
    yield blocks.inverse_frequencies(f"{name}.model.rotary_emb", 2 * _HEAD)
    yield from blocks.repeated(
        f"{name}.model.layers",
        24,
        blocks.replicated("self_attn", *shapes, *keys),
        blocks.replicated("mlp", *mlp),
        blocks.norms("norm", size, count=2, bias=False),
    )


READERS: dict[str, Reader] = {
    "DeepseekVLV2ForCausalLM": Composite(
        _vl2_tower, text=read_language_model, beside=_vl2_ends, renames=_VL2_RENAMES
    ),
    "DeepseekOCRForCausalLM": _read,
    "DeepseekOCR2ForCausalLM": Composite(
        _second_modules, text=_text, renames=_OCR_RENAMES
    ),
    "UnlimitedOCRForCausalLM": _read_unlimited,
}
