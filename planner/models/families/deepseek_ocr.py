"""DeepSeek-OCR, its second release, and Unlimited-OCR."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import MediaItem, ModelArchitecture, Tower
from planner.models.caches import AttentionLayer, CacheLayer
from planner.models.families.assembly import Label
from planner.models.families.deepseek_vl2 import read_language_model
from planner.models.families.facts import Facts
from planner.models.families.multimodal import joined
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import Depth, clip_layers
from planner.models.families.towers.facts import RGB
from planner.models.families.towers.sizing import AnySize
from planner.models.layers import Module

_DEEPSEEK_OCR_RENAMES = (
    ("model.embed_tokens.", "language_model.model.embed_tokens."),
    ("model.layers.", "language_model.model.layers."),
    ("model.norm.", "language_model.model.norm."),
    ("lm_head.", "language_model.lm_head."),
    ("model.", ""),
)

# Of DeepSeek-OCR's tower.
_WIDTH, _LAYERS, _HEAD = 768, 12, 64

_QWEN2_WIDTH = 896

_KEPT_WORDS = 128

_GLOBAL = (2, 5, 8, 11)
"""SAM's layers that attend to the whole image, not to windows of 14 patches."""

_WINDOW, _PATCH, _BASE, _CROP = 14, 16, 1024, 640

_CLIP = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "image_size": 224,
    "patch_size": 14,
    "num_channels": 3,
}


def read_deepseek_ocr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return DeepSeek-OCR, whose towers have sizes of their own, not the config's.

    Source: vLLM 0.33.0 `models/deepseek_ocr.py` DeepseekOCRForCausalLM;
    `transformers_utils/configs/deepseek_vl2.py`.
    """
    model, size, input_size = _deepseek_ocr_text(facts, label)
    tower = deep_encoder(input_size, size)
    whole = joined(facts, label, model, tower, _DEEPSEEK_OCR_RENAMES)
    # Parameters of the whole model, which exist even without the tower.
    ends = blocks.replicated("image_newline", (size,), (size,))
    return replace(whole, every_stage=(*whole.every_stage, ends))


def read_unlimited_ocr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Unlimited-OCR: DeepSeek-OCR that forgets what it wrote long ago.

    Source: vLLM 0.33.0 `models/unlimited_ocr.py`, `models/config.py`
    UnlimitedOCRForCausalLMConfig.
    """
    model = read_deepseek_ocr(facts, label)
    window = facts.integer("rswa_window", default=_KEPT_WORDS)
    kinds = tuple(
        replace(kind, caches=tuple(_referring(cache, window) for cache in kind.caches))
        for kind in model.layer_kinds
    )
    towers = tuple(replace(tower, items=()) for tower in model.towers)
    return replace(model, layer_kinds=kinds, towers=towers)


def _referring(cache: CacheLayer, window: int) -> CacheLayer:
    if not isinstance(cache, AttentionLayer):
        return cache
    return replace(cache, reference_window=window)


def read_deepseek_ocr2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return DeepSeek-OCR 2, which has a small Qwen2 in CLIP's place.

    Source: vLLM 0.33.0 `models/deepseek_ocr2.py`, `models/deepencoder2.py`.
    """
    model, size, input_size = _deepseek_ocr_text(facts, label)
    modules = (
        *_sam("sam_model", columns=_QWEN2_WIDTH),
        *_qwen2_encoder("qwen2_model"),
        blocks.replicated("projector", (size, input_size), (size,)),
        blocks.replicated("view_seperator", (size,)),
    )
    tower = Tower(modalities=("image",), modules=modules)
    return joined(facts, label, model, tower, _DEEPSEEK_OCR_RENAMES)


def _deepseek_ocr_text(
    facts: Facts, label: Label
) -> tuple[ModelArchitecture, int, int]:
    """Return the language model, and the projector's outputs and inputs."""
    text = facts.mapping("language_config")
    heads = ("qk_nope_head_dim", "qk_rope_head_dim")
    if text.get("use_mla", True) or any(text.get(name, 1) for name in heads):
        raise facts.unsupported("language_config", "one without latent attention is.")
    model = read_language_model(facts, label)
    projector = facts.mapping("projector_config")
    if projector.get("projector_type") != "linear":
        raise facts.unsupported("projector_config", "a linear projector is.")
    return model, int(projector["n_embed"]), int(projector["input_dim"])


def deep_encoder(input_size: int, output_size: int) -> Tower:
    """Return SAM's encoder, CLIP after it, their projector, and the largest image.

    That image has 1,280 x 1,280 pixels: the whole at 1,024 and four crops of 640, one
    token for 16 x 16 patches' pixels by four, and a line's end each.

    Source: vLLM 0.33.0 `models/deepencoder.py`, `models/deepseek_ocr.py`.
    """
    projector = blocks.replicated(
        "projector", (output_size, input_size), (output_size,)
    )
    return Tower(
        modalities=("image",),
        modules=(*_sam("sam_model"), *_clip("vision_model"), projector),
        items=(_image(),),
    )


def _image() -> MediaItem:
    whole, crop = _BASE // _PATCH // 4, _CROP // _PATCH // 4
    crops = 4
    return MediaItem(
        modality="image",
        tokens=whole * (whole + 1) + 2 * crop * (2 * crop + 1) + 1,
        patches=crops * (_CROP // _PATCH) ** 2,
        inputs=RGB * (_BASE**2 + crops * _CROP**2),
        pieces=1,  # one image after the other
        sizing=AnySize(),
    )


def _sam(name: str, *, columns: int = 1024) -> tuple[Module, ...]:
    grid = _BASE // _PATCH
    modules: list[Module] = [
        blocks.convolution(f"{name}.patch_embed", _WIDTH, RGB, 16, 16, bias=True),
        blocks.replicated(f"{name}.pos_embed", (grid, grid, _WIDTH)),
    ]
    for index in range(_LAYERS):
        block, reach = f"{name}.blocks.{index}", grid if index in _GLOBAL else _WINDOW
        positions = ((2 * reach - 1, _HEAD),) * 2
        modules += [
            blocks.norms(f"{block}.norm", _WIDTH, count=2, bias=True),
            blocks.replicated(
                block,
                *((3 * _WIDTH, _WIDTH), (3 * _WIDTH,), (_WIDTH, _WIDTH), (_WIDTH,)),
                *((4 * _WIDTH, _WIDTH), (4 * _WIDTH,), (_WIDTH, 4 * _WIDTH), (_WIDTH,)),
            ),
            blocks.replicated(f"{block}.rel_pos", *positions),
        ]
    sizes = ((256, _WIDTH, 1), (256, 256, 3), (512, 256, 3), (columns, 512, 3))
    for number, (out, into, kernel) in enumerate(sizes):
        modules.append(
            blocks.convolution(
                f"{name}.neck.{number}", out, into, kernel, kernel, bias=False
            )
        )
    modules.append(blocks.norms(f"{name}.neck.norms", 256, count=2, bias=True))
    return tuple(modules)


def _clip(name: str) -> tuple[Module, ...]:
    """Return CLIP's layers, without the norm after them."""
    depth = Depth(has_post_norm=False)
    return clip_layers(Facts(_CLIP, "clip_vision_model"), name, depth)


def _qwen2_encoder(name: str) -> tuple[Module, ...]:
    """Return Transformers' Qwen2, 24 layers of two KV heads, and its queries."""
    size, wide, narrow = _QWEN2_WIDTH, 4864, 2 * _HEAD
    modules: list[Module] = [
        blocks.replicated(f"{name}.queries", (144, size), (256, size)),
        blocks.norms(f"{name}.model.norm", size, bias=False),
        blocks.inverse_frequencies(f"{name}.model.rotary_emb", 2 * _HEAD),
    ]
    for index in range(24):
        layer = f"{name}.model.layers.{index}"
        shapes = ((size, size), (size,), (size, size))
        keys = ((narrow, size), (narrow,)) * 2
        mlp = ((wide, size), (wide, size), (size, wide))
        modules += [
            blocks.replicated(f"{layer}.self_attn", *shapes, *keys),
            blocks.replicated(f"{layer}.mlp", *mlp),
            blocks.norms(f"{layer}.norm", size, count=2, bias=False),
        ]
    return tuple(modules)


READERS = {
    "DeepseekOCRForCausalLM": read_deepseek_ocr,
    "DeepseekOCR2ForCausalLM": read_deepseek_ocr2,
    "UnlimitedOCRForCausalLM": read_unlimited_ocr,
}
