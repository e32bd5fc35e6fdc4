"""InternViT, InternVL and the models built like it: NVLM-D, H2OVL, Skywork-R1V."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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
from planner.models.families.towers.qwen_vl import IMAGE_AND_VIDEO
from planner.models.layers import Module
from planner.values import frozen

_IMAGES_ONLY = ("NVLM_D", "h2ovl_chat", "qianfan_ocr", "skywork_chat")
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
        blocks.whole("mlp1.1", merged, size, bias=True),
        blocks.whole("mlp1.3", size, size, bias=True),
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
        modules=(*_hf_intern_vit(vision), projector),
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
    return read_language_model(_text(facts), label)


def _vision(facts: Facts) -> Facts:
    return sub_config(facts, "vision_config", "intern_vit_6b")


def _merged_size(facts: Facts, vision_type: str = "intern_vit_6b") -> int:
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


@frozen
class InternShape:
    """A layer of InternViT: dummy heads fill up to the tensor-parallel size."""

    hidden_size: int
    num_heads: int
    num_dummy_heads: int
    intermediate_size: int
    qkv_bias: bool
    has_qk_norm: bool
    norm_bias: bool

    @property
    def total_heads(self) -> int:
        """Heads with the dummies, each a full head of weights."""
        return self.num_heads + self.num_dummy_heads

    @property
    def head_size(self) -> int:
        """A head's share of the hidden size."""
        return self.hidden_size // self.num_heads


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


def intern_layer(name: str, shape: InternShape) -> tuple[Module, ...]:
    """Return a layer; ranks that do not divide its heads hold its attention whole."""
    size, heads = shape.hidden_size, shape.total_heads
    qkv = replace(
        blocks.qkv(f"{name}.attn.qkv", size, heads, bias=shape.qkv_bias),
        head_size=shape.head_size,
    )
    proj = blocks.row(f"{name}.attn.proj", heads * shape.head_size, size, bias=True)
    modules: tuple[Module, ...] = (
        blocks.WholeUnlessDivided(name=qkv.name, layer=qkv, num_heads=heads),
        blocks.WholeUnlessDivided(name=proj.name, layer=proj, num_heads=heads),
        *blocks.plain_mlp(
            f"{name}.mlp.fc1", f"{name}.mlp.fc2", size, shape.intermediate_size
        ),
        blocks.norms(f"{name}.norm", size, count=2, bias=shape.norm_bias),
        blocks.replicated(f"{name}.ls", (size,), (size,)),
    )
    if not shape.has_qk_norm:
        return modules
    wide = heads * shape.head_size
    return (*modules, blocks.norms(f"{name}.attn.qk_norm", wide, count=2, bias=False))


def _hf_intern_vit(facts: Facts) -> tuple[Module, ...]:
    """Return the tower of the checkpoints that Transformers' own class reads.

    Nothing in it is quantised, and only its MLPs are cut over the ranks.

    Source: vLLM 0.33.0 `models/interns1_vit.py` InternS1VisionModel.
    """
    name, size = "vision_tower", facts.integer("hidden_size")
    image, patch = _sides(facts, "image_size"), _sides(facts, "patch_size")
    positions = (image[0] // patch[0]) * (image[1] // patch[1]) + 1
    tokens = [(size,)]
    if facts.flag("use_mask_token"):
        tokens.append((size,))
    modules: list[Module] = [blocks.replicated(f"{name}.embeddings", *tokens)]
    if facts.flag("use_absolute_position_embeddings"):
        modules.append(
            blocks.replicated(f"{name}.embeddings.position", (positions, size))
        )
    modules.append(
        blocks.convolution(
            f"{name}.embeddings.patch_embeddings.projection",
            size,
            facts.integer("num_channels"),
            *patch,
            bias=True,
        )
    )
    for index in range(facts.integer("num_hidden_layers")):
        modules += _hf_layer(facts, f"{name}.encoder.layer.{index}")
    if not facts.flag("use_mean_pooling"):
        modules.append(blocks.norms(f"{name}.layernorm", size, bias=True))
    return tuple(modules)


def _hf_layer(facts: Facts, name: str) -> tuple[Module, ...]:
    size, bias = facts.integer("hidden_size"), facts.flag("attention_bias")
    norm_bias = facts.value("norm_type") == "layer_norm"
    attention = [(size, size)] * 4 + [(size,)] * (4 if bias else 1)
    if facts.flag("use_qk_norm"):
        attention += [(size,), (size,)]
    mlp = blocks.plain_mlp(
        f"{name}.mlp.fc1",
        f"{name}.mlp.fc2",
        size,
        facts.integer("intermediate_size"),
    )
    return (
        blocks.replicated(f"{name}.attention", *attention),
        *blocks.unquantised(*mlp),
        blocks.norms(f"{name}.layernorm", size, count=2, bias=norm_bias),
        blocks.replicated(f"{name}.lambda", (size,), (size,)),
    )


def _sides(facts: Facts, name: str) -> tuple[int, int]:
    """Return height and width of what the config gives as one number or two."""
    value = facts.value(name)
    if isinstance(value, list | tuple):
        height, width = value
        return int(height), int(width)
    return facts.integer(name), facts.integer(name)


READERS = {
    "QianfanOCRForConditionalGeneration": read_qianfan_ocr,
    "H2OVLChatModel": read_internvl_chat,
    "InternVLChatModel": read_internvl_chat,
    "InternVLForConditionalGeneration": read_internvl,
    "InternS1ForConditionalGeneration": read_internvl,
    "NVLM_D": read_nvlm_d,
    "SkyworkR1VChatModel": read_skywork_r1v,
}
