"""InternVL and the models built like it: NVLM-D, H2OVL, Skywork-R1V."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.models.architecture import MediaItem, ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    known_as,
    read_language_model,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.towers import blocks, tiles
from planner.models.families.towers.intern_vit import hf_intern_vit, intern_vit
from planner.models.families.towers.qwen_vl import IMAGE_AND_VIDEO
from planner.models.layers import Module, Part, ReplicatedLinear

_IMAGES_ONLY = ("NVLM_D", "h2ovl_chat", "skywork_chat")
_WITH_VIDEO_WORD = ("qwen2", "qwen3", "qwen3_moe", "gpt_oss")
_MOST_TILES = 12
_HF_RENAMES = (
    ("lm_head.", "language_model.lm_head."),
    ("model.language_model.", "language_model.model."),
    ("model.vision_tower.", "vision_tower."),
    ("model.multi_modal_projector.", "multi_modal_projector."),
)


def read_internvl_chat(facts: Facts, label: Label) -> ModelArchitecture:
    """Return InternVL2, 2.5 and 3 in their own format, and H2OVL.

    Source: vLLM 0.33.0 `models/internvl.py` InternVLChatModel, `models/h2ovl.py`.
    """
    model = _language_model(facts, label)
    size, merged = model.hidden_size, _merged_size(facts)
    projector = blocks.replicated(
        "mlp1", (merged,), (merged,), (size, merged), (size,), (size, size), (size,)
    )
    tower = Tower(
        modalities=IMAGE_AND_VIDEO,
        modules=(*_tower_modules(facts), projector),
        items=_items(facts, _vision(facts)),
        supports_data_parallel=True,
    )
    return _whole(facts, label, model, tower)


def read_nvlm_d(facts: Facts, label: Label) -> ModelArchitecture:
    """Return NVLM-D, whose projector is as wide as the language model's MLP.

    Seven heads beside the tower's 25 let 2 to 32 ranks divide them.

    Source: vLLM 0.33.0 `models/nvlm_d.py`.
    """
    model = _language_model(facts, label)
    size, merged = model.hidden_size, _merged_size(facts)
    wide = _text(facts).integer("intermediate_size")
    projector = blocks.replicated(
        "mlp1", (merged,), (merged,), (wide, merged), (size, wide)
    )
    tower = Tower(
        modalities=IMAGE_AND_VIDEO,
        modules=(*_tower_modules(facts, num_dummy_heads=7), projector),
        items=_items(facts, _vision(facts)),
        supports_data_parallel=True,
    )
    return _whole(facts, label, model, tower)


def read_skywork_r1v(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Skywork-R1V, whose projector may be quantised.

    Source: vLLM 0.33.0 `models/skyworkr1v.py`.
    """
    model = _language_model(facts, label)
    size, merged = model.hidden_size, _merged_size(facts)
    modules = (
        *_tower_modules(facts),
        blocks.norms("mlp1.0", merged, bias=True),
        _projection("mlp1.1", merged, size),
        _projection("mlp1.3", size, size),
    )
    tower = Tower(
        modalities=("image",), modules=modules, items=_items(facts, _vision(facts))
    )
    return _whole(facts, label, model, tower)


def read_internvl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return InternVL in the format of Transformers.

    Source: vLLM 0.33.0 `models/interns1.py` InternS1ForConditionalGeneration.
    """
    model = _language_model(facts, label)
    vision = sub_config(facts, "vision_config", "internvl_vision")
    size = model.hidden_size
    merged = _merged_size(facts, "internvl_vision")
    projector = blocks.replicated(
        "multi_modal_projector",
        *((merged,), (merged,), (size, merged), (size,), (size, size), (size,)),
    )
    tower = Tower(
        modalities=IMAGE_AND_VIDEO,
        modules=(*hf_intern_vit(vision), projector),
        items=_items(facts, vision),
    )
    whole = _whole(facts, label, model, tower)
    return replace(whole, prefix_renames=_HF_RENAMES)


def _items(facts: Facts, vision: Facts) -> tuple[MediaItem, ...]:
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


def _language_model(facts: Facts, label: Label) -> ModelArchitecture:
    return read_language_model(_text(facts), label.name)


def _vision(facts: Facts) -> Facts:
    return sub_config(facts, "vision_config", "intern_vit_6b")


def _merged_size(facts: Facts, vision_type: str = "intern_vit_6b") -> int:
    """Return the width of several neighbouring patches together."""
    ratio = facts.value("downsample_ratio")
    if not isinstance(ratio, float | int):
        raise facts.unsupported("downsample_ratio", "a number is needed.")
    size = sub_config(facts, "vision_config", vision_type).integer("hidden_size")
    return size * int(1 / ratio) ** 2


def _tower_modules(facts: Facts, *, num_dummy_heads: int = 0) -> tuple[Module, ...]:
    select_layer = facts.value("select_layer")
    if not isinstance(select_layer, int):
        raise facts.unsupported("select_layer", "a whole number is needed.")
    modules = intern_vit(
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


def _projection(name: str, input_size: int, output_size: int) -> ReplicatedLinear:
    return ReplicatedLinear(
        name=name,
        part=Part.TOWERS,
        input_size=input_size,
        output_sizes=(output_size,),
        bias=True,
    )


def _whole(
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


READERS = {
    "H2OVLChatModel": read_internvl_chat,
    "InternVLChatModel": read_internvl_chat,
    "InternVLForConditionalGeneration": read_internvl,
    "NVLM_D": read_nvlm_d,
    "SkyworkR1VChatModel": read_skywork_r1v,
}
