"""Models that read documents: dots.ocr, PaddleOCR-VL and DeepSeek-OCR."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import MediaItem, ModelArchitecture, Tower
from planner.models.caches import AttentionLayer, CacheLayer
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.deepseek_vl2 import read_language_model
from planner.models.families.facts import Facts
from planner.models.families.multimodal import Tie, joined, sub_config, text_facts
from planner.models.families.qwen_vl import FLAT_KEYS
from planner.models.families.towers import blocks, items
from planner.models.families.towers.clip import Depth, clip_layers
from planner.models.families.towers.facts import RGB
from planner.models.families.towers.sizing import AnySize
from planner.models.layers import Module

_RENAMES = (
    ("lm_head.", "language_model.lm_head."),
    ("model.", "language_model.model."),
)
_DEEPSEEK_OCR_RENAMES = (
    ("model.embed_tokens.", "language_model.model.embed_tokens."),
    ("model.layers.", "language_model.model.layers."),
    ("model.norm.", "language_model.model.norm."),
    ("lm_head.", "language_model.lm_head."),
    ("model.", ""),
)
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


def read_dots_ocr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return dots.ocr, whose config is Qwen2's with a tower added.

    Source: vLLM 0.33.0 `models/dots_ocr.py`.
    """
    inner = label.of("Qwen2ForCausalLM")
    text = Facts(facts.config, "qwen2")
    vision = Facts(facts.mapping("vision_config"), "dots_vit", _DOTS_VISION)
    model = llama.read(text, inner, style=llama.STYLES["Qwen2"])
    return joined(facts, label, model, _dots_tower(vision), _RENAMES)


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
    return replace(joined(facts, label, model, tower, _RENAMES), supports_pp=False)


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
        _inverse_frequencies(f"{name}.rotary_pos_emb", size // heads),
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
        _inverse_frequencies(f"{name}.encoder.rotary_pos_emb", size // heads),
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


def _inverse_frequencies(name: str, head_size: int) -> Module:
    """Return rotary frequencies: of half a head's dimensions, every other one."""
    count = -(-(head_size // 2) // 2)
    return blocks.replicated(f"{name}.inv_freq", (count,), dtype="float32")


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
        _inverse_frequencies(f"{name}.model.rotary_emb", 2 * _HEAD),
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
    "DeepseekOCR2ForCausalLM": read_deepseek_ocr2,
    "UnlimitedOCRForCausalLM": read_unlimited_ocr,
    "DotsOCRForCausalLM": read_dots_ocr,
    "PaddleOCRVLForConditionalGeneration": read_paddle_ocr,
    "DeepseekOCRForCausalLM": read_deepseek_ocr,
}
