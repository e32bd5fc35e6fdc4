"""InternVL in its own format, and the models built like it: NVLM-D, H2OVL, Skywork-R1V."""

from __future__ import annotations

from collections.abc import Mapping

from planner.models.architecture import MediaItem, ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    known_as,
    quant_method,
    read_language_model,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.towers import blocks, tiles
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.families.towers.intern_vit import InternShape, intern_layer
from planner.models.layers import Module

_IMAGES_ONLY = ("NVLM_D", "h2ovl_chat", "qianfan_ocr", "skywork_chat")

_WITH_VIDEO_WORD = ("qwen2", "qwen3", "qwen3_moe", "gpt_oss")

_MOST_TILES = 12


def read_internvl_chat(facts: Facts, label: Label) -> ModelArchitecture:
    """Return InternVL2, 2.5 and 3 in their own format, and H2OVL.

    Source: vLLM 0.33.0 `models/internvl.py` InternVLChatModel, `models/h2ovl.py`.
    """
    model = language_model(facts, label)
    size, merged = model.hidden_size, merged_size(facts)
    projector = blocks.replicated(
        "mlp1", (merged,), (merged,), (size, merged), (size,), (size, size), (size,)
    )
    tower = Tower(
        modalities=IMAGE_AND_VIDEO,
        modules=(*_tower_modules(facts), projector),
        items=items_of(facts, _vision(facts)),
        supports_data_parallel=True,
    )
    return whole_of(facts, label, model, tower)


def read_qianfan_ocr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qianfan-OCR: InternVL with Transformers' names in the tower's config.

    Source: vLLM 0.33.0 `models/qianfan_ocr.py`, whose tower FP8 leaves alone.
    """
    if quant_method(facts) == "fp8":
        raise facts.unsupported("quantization_config", "its FP8 is not modelled.")
    given = facts.mapping("vision_config")
    named = {"qkv_bias": "attention_bias", "qk_normalization": "use_qk_norm"}
    vision = {
        **{new: given[old] for new, old in named.items() if old in given},
        **given,
    }
    for name in ("image_size", "patch_size"):
        if isinstance(given.get(name), list | tuple):
            vision[name] = given[name][0]
    outer = Facts({**facts.config, "vision_config": vision}, facts.model_type)
    return read_internvl_chat(outer, label)


def read_nvlm_d(facts: Facts, label: Label) -> ModelArchitecture:
    """Return NVLM-D, whose projector is as wide as the language model's MLP.

    Seven heads beside the tower's 25 let 2 to 32 ranks divide them.

    Source: vLLM 0.33.0 `models/nvlm_d.py`.
    """
    model = language_model(facts, label)
    size, merged = model.hidden_size, merged_size(facts)
    wide = _text(facts).integer("intermediate_size")
    projector = blocks.replicated(
        "mlp1", (merged,), (merged,), (wide, merged), (size, wide)
    )
    tower = Tower(
        modalities=IMAGE_AND_VIDEO,
        modules=(*_tower_modules(facts, num_dummy_heads=7), projector),
        items=items_of(facts, _vision(facts)),
        supports_data_parallel=True,
    )
    return whole_of(facts, label, model, tower)


def read_skywork_r1v(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Skywork-R1V, whose projector may be quantised.

    Source: vLLM 0.33.0 `models/skyworkr1v.py`.
    """
    model = language_model(facts, label)
    size, merged = model.hidden_size, merged_size(facts)
    modules = (
        *_tower_modules(facts),
        blocks.norms("mlp1.0", merged, bias=True),
        blocks.whole("mlp1.1", merged, size, bias=True),
        blocks.whole("mlp1.3", size, size, bias=True),
    )
    tower = Tower(
        modalities=("image",), modules=modules, items=items_of(facts, _vision(facts))
    )
    return whole_of(facts, label, model, tower)


def items_of(facts: Facts, vision: Facts) -> tuple[MediaItem, ...]:
    """Return its largest images, and videos where its tokenizer has a word for them.

    Source: vLLM 0.33.0 `models/internvl.py` InternVLProcessingInfo.ctx_video_token.
    """
    takes_videos = (
        facts.model_type not in _IMAGES_ONLY
        and _text(facts).model_type in _WITH_VIDEO_WORD
    )
    return tiles.intern_vit_items(
        facts,
        vision,
        most_tiles=int(facts.value("max_dynamic_patch") or _MOST_TILES),
        has_videos=takes_videos,
        is_own_format=facts.model_type == "internvl_chat",
    )


def _text(facts: Facts) -> Facts:
    """Return the language model's config, under either of its names.

    Source: vLLM 0.33.0 `transformers_utils/config.py` _CONFIG_ATTRS_MAPPING.
    """
    name = "llm_config" if "llm_config" in facts.config else "text_config"
    model_type = str(facts.mapping(name).get("model_type") or "qwen2")
    return text_facts(facts, model_type, name=name)


def language_model(facts: Facts, label: Label) -> ModelArchitecture:
    return read_language_model(_text(facts), label)


def _vision(facts: Facts) -> Facts:
    return sub_config(facts, "vision_config", "intern_vit_6b")


def merged_size(facts: Facts, vision_type: str = "intern_vit_6b") -> int:
    """Return the width of several neighbouring patches together."""
    ratio = facts.number("downsample_ratio")
    size = sub_config(facts, "vision_config", vision_type).integer("hidden_size")
    return size * int(1 / ratio) ** 2


def _tower_modules(facts: Facts, *, num_dummy_heads: int = 0) -> tuple[Module, ...]:
    select_layer = facts.value("select_layer")
    if not isinstance(select_layer, int):
        raise facts.unsupported("select_layer", "a whole number is needed.")
    modules = _intern_vit(
        _vision(facts), select_layer=select_layer, num_dummy_heads=num_dummy_heads
    )
    return blocks.unquantised(*modules) if _is_awq_of_text(facts) else modules


def _is_awq_of_text(facts: Facts) -> bool:
    """Whether vLLM leaves the tower out of an AWQ checkpoint that does not say so.

    Source: vLLM 0.33.0 `models/internvl.py` _patch_quant_config.
    """
    inner = _text(facts).value("quantization_config")
    if not isinstance(inner, Mapping) or inner.get("quant_method") != "awq":
        return False
    config = facts.mapping("quantization_config") or inner
    return not config.get("modules_to_not_convert")


def whole_of(
    facts: Facts, label: Label, model: ModelArchitecture, tower: Tower
) -> ModelArchitecture:
    prefix = "language_model."
    whole = with_towers(
        model,
        (tower,),
        layer_prefix=prefix + model.layer_prefix,
        head_prefix=prefix,
    )
    return known_as(whole, facts, label)


def _intern_vit(
    facts: Facts, *, select_layer: int, num_dummy_heads: int = 0
) -> tuple[Module, ...]:
    """Return the tower up to the layer whose features are used.

    Source: vLLM 0.33.0 `models/intern_vit.py` InternVisionModel; `models/internvl.py`
    _init_vision_model.
    """
    shape = _shape(facts, num_dummy_heads)
    num_layers = select_layer + 1
    if select_layer < 0:
        num_layers += facts.integer("num_hidden_layers")
    name, size = "vision_model", shape.hidden_size
    patch = facts.integer("patch_size")
    positions = (facts.integer("image_size") // patch) ** 2 + 1
    modules: list[Module] = [
        blocks.replicated(f"{name}.embeddings", (size,), (positions, size)),
        blocks.convolution(
            f"{name}.embeddings.patch_embedding", size, 3, patch, patch, bias=True
        ),
    ]
    for index in range(num_layers):
        modules += intern_layer(f"{name}.encoder.layers.{index}", shape)
    return tuple(modules)


def _shape(facts: Facts, num_dummy_heads: int) -> InternShape:
    for name in ("qkv_bias", "qk_normalization", "norm_type"):
        if facts.value(name) is None:
            raise facts.unsupported(name, "the vision config must say.")
    return InternShape(
        hidden_size=facts.integer("hidden_size"),
        num_heads=facts.integer("num_attention_heads"),
        num_dummy_heads=num_dummy_heads,
        intermediate_size=facts.integer("intermediate_size"),
        qkv_bias=facts.flag("qkv_bias"),
        has_qk_norm=facts.flag("qk_normalization"),
        norm_bias=facts.value("norm_type") == "layer_norm",
    )


READERS = {
    "QianfanOCRForConditionalGeneration": read_qianfan_ocr,
    "H2OVLChatModel": read_internvl_chat,
    "InternVLChatModel": read_internvl_chat,
    "NVLM_D": read_nvlm_d,
    "SkyworkR1VChatModel": read_skywork_r1v,
}
