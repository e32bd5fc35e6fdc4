"""InternVL, in its own format and that of Transformers, and models built like it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from planner.models.architecture import MediaItem, Tower
from planner.models.families.assembly import Reader
from planner.models.families.composite import Composite, Text, quant_method, sub_config
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks, tiles
from planner.models.families.towers.blocks import IMAGE, IMAGE_AND_VIDEO
from planner.models.families.towers.grids import sides
from planner.models.layers import Module
from planner.values import frozen


# A layer of InternViT, and of RADIO, which has the same.
@frozen
class InternShape:
    """A layer of InternViT: dummy heads fill up to the tensor-parallel size."""

    sizes: blocks.Sizes
    num_dummy_heads: int = 0
    qkv_bias: bool = True
    has_qk_norm: bool = False
    norm_bias: bool = True


def intern_layer(name: str, shape: InternShape) -> tuple[Module, ...]:
    """Return a layer; ranks that do not divide its heads hold its attention whole."""
    size, mlp = shape.sizes.width, shape.sizes.mlp
    heads = shape.sizes.heads + shape.num_dummy_heads
    head_size = size // shape.sizes.heads
    wide = heads * head_size
    qkv = replace(
        blocks.qkv(f"{name}.attn.qkv", size, heads, bias=shape.qkv_bias),
        head_size=head_size,
    )
    proj = blocks.row(f"{name}.attn.proj", wide, size, bias=True)
    norm = blocks.norms(f"{name}.attn.qk_norm", wide, count=2, bias=False)
    return (
        blocks.WholeUnlessDivided(name=qkv.name, layer=qkv, num_heads=heads),
        blocks.WholeUnlessDivided(name=proj.name, layer=proj, num_heads=heads),
        *blocks.plain_mlp(f"{name}.mlp.fc1", f"{name}.mlp.fc2", size, mlp),
        blocks.norms(f"{name}.norm", size, count=2, bias=shape.norm_bias),
        blocks.replicated(f"{name}.ls", (size,), (size,)),
        *((norm,) if shape.has_qk_norm else ()),
    )


_IMAGES_ONLY = ("NVLM_D", "h2ovl_chat", "qianfan_ocr", "skywork_chat")
_WITH_VIDEO_WORD = ("qwen2", "qwen3", "qwen3_moe", "gpt_oss")
_MOST_TILES = 12
TEXT = Text("qwen2", other_name="llm_config")
"""Source: vLLM 0.33.0 `transformers_utils/config.py` _CONFIG_ATTRS_MAPPING."""


def _internvl_tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/internvl.py` InternVLChatModel, `models/h2ovl.py`."""
    vision = _vision(facts)
    return Tower(
        IMAGE_AND_VIDEO,
        (*_encoder(facts), projector("mlp1", facts, vision, text_size)),
        items=items_of(facts, vision),
        supports_data_parallel=True,
        tile_rows=tiles.tile_rows(vision),
    )


def projector(name: str, facts: Facts, vision: Facts, text_size: int) -> Module:
    """Return a norm over neighbouring patches, and two linear layers."""
    merged = _merged_size(facts, vision)
    first = (merged,), (merged,), (text_size, merged), (text_size,)
    return blocks.replicated(name, *first, (text_size, text_size), (text_size,))


def _qianfan_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower, whose config has Transformers' names.

    Source: vLLM 0.33.0 `models/qianfan_ocr.py`, whose tower FP8 leaves alone.
    """
    if quant_method(facts) == "fp8":
        raise facts.unsupported("quantization_config", "its FP8 is not modelled.")
    given = facts.mapping("vision_config")
    usual = {"qkv_bias": "attention_bias", "qk_normalization": "use_qk_norm"}
    vision = {
        **{new: given[old] for new, old in usual.items() if old in given},
        **given,
    }
    for name in ("image_size", "patch_size"):
        if isinstance(given.get(name), list | tuple):
            vision[name] = given[name][0]
    outer = {**facts.config, "vision_config": vision}
    return _internvl_tower(Facts(outer, facts.model_type), text_size)


def _nvlm_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower, whose projector is as wide as the language model's MLP.

    Seven heads beside the tower's 25 let 2 to 32 ranks divide them.

    Source: vLLM 0.33.0 `models/nvlm_d.py`.
    """
    vision = _vision(facts)
    merged = _merged_size(facts, vision)
    wide = TEXT.facts(facts).integer("intermediate_size")
    shapes = (merged,), (merged,), (wide, merged), (text_size, wide)
    return Tower(
        IMAGE_AND_VIDEO,
        (
            *_encoder(facts, num_dummy_heads=7),
            blocks.replicated("mlp1", *shapes),
        ),
        items=items_of(facts, vision),
        supports_data_parallel=True,
        tile_rows=tiles.tile_rows(vision),
    )


def _skywork_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower, whose projector may be quantised.

    Source: vLLM 0.33.0 `models/skyworkr1v.py`.
    """
    vision = _vision(facts)
    merged = _merged_size(facts, vision)
    modules = (
        *_encoder(facts),
        blocks.norms("mlp1.0", merged, bias=True),
        blocks.whole("mlp1.1", merged, text_size, bias=True),
        blocks.whole("mlp1.3", text_size, text_size, bias=True),
    )
    return Tower(IMAGE, modules, items=items_of(facts, vision))


def items_of(facts: Facts, vision: Facts) -> tuple[MediaItem, ...]:
    """Return its largest images, and videos where its tokenizer has a word for them.

    Source: vLLM 0.33.0 `models/internvl.py` InternVLProcessingInfo.ctx_video_token.
    """
    takes_videos = (
        facts.model_type not in _IMAGES_ONLY
        and TEXT.facts(facts).model_type in _WITH_VIDEO_WORD
    )
    return tiles.intern_vit_items(
        facts,
        vision,
        most_tiles=int(facts.value("max_dynamic_patch") or _MOST_TILES),
        has_videos=takes_videos,
        is_own_format=facts.model_type == "internvl_chat",
    )


def _vision(facts: Facts) -> Facts:
    return sub_config(facts, "vision_config", "intern_vit_6b")


def _merged_size(facts: Facts, vision: Facts) -> int:
    """Return the width of several neighbouring patches together."""
    ratio = facts.number("downsample_ratio")
    return vision.integer("hidden_size") * int(1 / ratio) ** 2


def _encoder(facts: Facts, *, num_dummy_heads: int = 0) -> tuple[Module, ...]:
    chosen = facts.value("select_layer")
    if not isinstance(chosen, int):
        raise facts.unsupported("select_layer", "a whole number is needed.")
    modules = tuple(_internvl_intern_vit(_vision(facts), chosen, num_dummy_heads))
    return blocks.unquantised(*modules) if _is_awq_of_text(facts) else modules


def _is_awq_of_text(facts: Facts) -> bool:
    """Whether vLLM leaves the tower out of an AWQ checkpoint that does not say so.

    Source: vLLM 0.33.0 `models/internvl.py` _patch_quant_config.
    """
    inner = TEXT.facts(facts).value("quantization_config")
    if not isinstance(inner, Mapping) or inner.get("quant_method") != "awq":
        return False
    config = facts.mapping("quantization_config") or inner
    return not config.get("modules_to_not_convert")


def _internvl_intern_vit(
    facts: Facts, select_layer: int, num_dummy_heads: int
) -> Iterator[Module]:
    """Yield the tower up to the layer whose features are used.

    Source: vLLM 0.33.0 `models/intern_vit.py` InternVisionModel; `models/internvl.py`
    _init_vision_model.
    """
    for field in ("qkv_bias", "qk_normalization", "norm_type"):
        if facts.value(field) is None:
            raise facts.unsupported(field, "the vision config must say.")
    sizes, patch = blocks.Sizes.of(facts), facts.integer("patch_size")
    shape = InternShape(
        sizes=sizes,
        num_dummy_heads=num_dummy_heads,
        qkv_bias=facts.flag("qkv_bias"),
        has_qk_norm=facts.flag("qk_normalization"),
        norm_bias=facts.value("norm_type") == "layer_norm",
    )
    positions, size = (facts.integer("image_size") // patch) ** 2 + 1, sizes.width
    name = "vision_model.embeddings"
    yield blocks.replicated(name, (size,), (positions, size))
    yield blocks.convolution(
        f"{name}.patch_embedding", size, 3, patch, patch, bias=True
    )
    num_layers = select_layer + 1 + (sizes.depth if select_layer < 0 else 0)
    for index in range(num_layers):
        yield from intern_layer(f"vision_model.encoder.layers.{index}", shape)


# InternVL and Intern-S1 in the format of Transformers.
_RENAMES = (
    ("lm_head.", "language_model.lm_head."),
    ("model.language_model.", "language_model.model."),
    ("model.vision_tower.", "vision_tower."),
    ("model.multi_modal_projector.", "multi_modal_projector."),
)


def _interns1_tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/interns1.py` InternS1ForConditionalGeneration."""
    vision = sub_config(facts, "vision_config", "internvl_vision")
    connector = projector("multi_modal_projector", facts, vision, text_size)
    return Tower(
        IMAGE_AND_VIDEO,
        (*_interns1_intern_vit(vision), connector),
        items=items_of(facts, vision),
    )


def _interns1_intern_vit(facts: Facts) -> Iterator[Module]:
    """Yield the tower, of which nothing is quantised and only the MLPs are cut.

    Source: vLLM 0.33.0 `models/interns1_vit.py` InternS1VisionModel.
    """
    size, name = facts.integer("hidden_size"), "vision_tower.embeddings"
    image, patch = sides(facts, "image_size"), sides(facts, "patch_size")
    tokens = ((size,),) * (2 if facts.flag("use_mask_token") else 1)
    yield blocks.replicated(name, *tokens)
    if facts.flag("use_absolute_position_embeddings"):
        positions = (image[0] // patch[0]) * (image[1] // patch[1]) + 1
        yield blocks.replicated(f"{name}.position", (positions, size))
    patches = f"{name}.patch_embeddings.projection"
    channels = facts.integer("num_channels")
    yield blocks.convolution(patches, size, channels, *patch, bias=True)
    layers, depth = "vision_tower.encoder.layer", facts.integer("num_hidden_layers")
    yield from blocks.repeated(layers, depth, *_layer(facts))
    if not facts.flag("use_mean_pooling"):
        yield blocks.norms("vision_tower.layernorm", size, bias=True)


def _layer(facts: Facts) -> Iterator[Module]:
    size, bias = facts.integer("hidden_size"), facts.flag("attention_bias")
    wide = facts.integer("intermediate_size")
    norm_bias = facts.value("norm_type") == "layer_norm"
    attention = [(size, size)] * 4 + [(size,)] * (4 if bias else 1)
    if facts.flag("use_qk_norm"):
        attention += [(size,), (size,)]
    yield blocks.replicated("attention", *attention)
    yield from blocks.unquantised(*blocks.plain_mlp("mlp.fc1", "mlp.fc2", size, wide))
    yield blocks.norms("layernorm", size, count=2, bias=norm_bias)
    yield blocks.replicated("lambda", (size,), (size,))


READERS: dict[str, Reader] = {
    "QianfanOCRForConditionalGeneration": Composite(_qianfan_tower, text=TEXT),
    "H2OVLChatModel": Composite(_internvl_tower, text=TEXT),
    "InternVLChatModel": Composite(_internvl_tower, text=TEXT),
    "NVLM_D": Composite(_nvlm_tower, text=TEXT),
    "SkyworkR1VChatModel": Composite(_skywork_tower, text=TEXT),
    **dict.fromkeys(
        ("InternVLForConditionalGeneration", "InternS1ForConditionalGeneration"),
        Composite(_interns1_tower, text=TEXT, renames=_RENAMES),
    ),
}
