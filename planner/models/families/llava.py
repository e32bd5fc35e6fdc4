"""LLaVA and similar models: a tower for images, a projector, and a language model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from planner.engine.releases.change import Change
from planner.models.architecture import MediaItem, ModelArchitecture, Tower
from planner.models.families.assembly import Label, Reader
from planner.models.families.composite import (
    CAUSAL_LM_OF,
    Composite,
    Text,
    Tie,
    inner_type,
    named,
    nested,
    quant_method,
    read_language_model,
    siglip_of,
    sub_config,
    text_facts,
)
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks, tiles
from planner.models.families.towers.blocks import IMAGE, IMAGE_AND_VIDEO
from planner.models.families.towers.clip import (
    Depth,
    clip_vision,
    encoder_pass,
    selected_layers,
)
from planner.models.families.towers.tiles import mistral3_items
from planner.models.layers import Module
from planner.models.passes import Moment, TowerPass, block_pass


def pixtral_vision(facts: Facts, name: str, num_layers: int) -> Iterator[Module]:
    """Yield Pixtral's vision model with this many of its layers.

    Source: vLLM 0.33.0 `models/pixtral.py` PixtralHFVisionModel.
    """
    sizes, patch = blocks.Sizes.of(facts), facts.integer("patch_size")
    size, heads, channels = sizes.width, sizes.heads, facts.integer("num_channels")
    if num_layers > sizes.depth:
        raise facts.unsupported(
            "num_hidden_layers", f"features of layer {num_layers} are requested."
        )
    half_head = (facts.optional_integer("head_dim") or size // heads) // 2
    convolution, positions = f"{name}.patch_conv", f"{name}.patch_positional_embedding"
    yield blocks.convolution(convolution, size, channels, patch, patch, bias=False)
    yield blocks.norms(f"{name}.ln_pre", size, bias=False)
    frequencies = (half_head,)
    yield blocks.replicated(positions, frequencies, frequencies, dtype="float32")
    qkv, shards = "attention.qkv_proj", blocks.QKV_SHARDS
    yield from blocks.repeated(
        f"{name}.transformer.layers",
        num_layers,
        blocks.norms("norm", size, count=2, bias=False),
        blocks.qkv(qkv, size, heads, bias=False, shards=shards),
        blocks.row("attention.o_proj", size, size, bias=False),
        *blocks.gated_mlp("feed_forward", size, sizes.mlp, bias=False),
    )


TOWER, PROJECTOR = "vision_tower", "multi_modal_projector"
RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("model.vision_tower.", "vision_tower."),
    ("model.multi_modal_projector.", "multi_modal_projector."),
    ("lm_head.", "language_model.lm_head."),
)
_TEXTS = (
    *("gemma", "gemma2", "granite", "llama", "ministral3"),
    *("mistral", "mixtral", "phi3", "qwen2", "qwen3"),
)


def read_text(
    facts: Facts, label: Label, *, default: str = "llama"
) -> ModelArchitecture:
    """Return the language model that an inner config describes.

    Raises:
        UnknownArchitecture: when it is of another class than LLaVA's checkpoints have.

    Source: vLLM 0.33.0 `models/utils.py` init_vllm_registered_model, `config/vllm.py`
    with_hf_config.
    """
    text = text_facts(facts, inner_type(facts, default))
    if text.model_type not in _TEXTS:
        raise text.unsupported("architectures", "this language model with a tower.")
    architecture, given = CAUSAL_LM_OF[text.model_type], text.value("architectures")
    if given and architecture not in given:
        raise text.unsupported("architectures", f"{architecture} is expected here.")
    return read_language_model(named(text, architecture), label)


def _llava_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower of LLaVA 1.5, or Pixtral's in Transformers' format.

    Source: vLLM 0.33.0 `models/llava.py` LlavaForConditionalGeneration.
    """
    vision, modules = vision_tower(facts)
    own = projector(facts, vision, text_size)
    return images(vision, (*modules, *own), tiles.llava_items(facts, vision))


def _next_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower of LLaVA 1.6.

    Source: vLLM 0.33.0 `models/llava_next.py` LlavaNextForConditionalGeneration.
    """
    layers = facts.value("vision_feature_layer")
    count = len(layers) if isinstance(layers, list | tuple) else 1
    vision, modules = vision_tower(facts)
    newline = blocks.replicated("image_newline", (text_size,))
    own = (newline, *projector(facts, vision, text_size, num_features=count))
    return images(vision, (*modules, *own), tiles.llava_next_items(facts, vision))


def _onevision_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower of LLaVA-OneVision, whose projector no rank divides.

    Source: vLLM 0.33.0 `models/llava_onevision.py`
    LlavaOnevisionForConditionalGeneration.
    """
    vision, modules = vision_tower(facts)
    weights = ((text_size, vision.integer("hidden_size")), (text_size, text_size))
    biases = ((text_size,),) * (2 if facts.flag("multimodal_projector_bias") else 0)
    own = (
        blocks.replicated(PROJECTOR, *weights, *biases),
        blocks.replicated("image_newline", (text_size,)),
    )
    items = tiles.llava_onevision_items(vision)
    return replace(images(vision, (*modules, *own), items), modalities=IMAGE_AND_VIDEO)


def vision_tower(facts: Facts) -> tuple[Facts, tuple[Module, ...]]:
    """Return the tower's config, and the layers that its features need.

    Source: vLLM 0.33.0 `models/llava.py` init_vision_tower_for_llava.
    """
    vision_type = inner_type(facts, "clip_vision_model", "vision_config")
    vision = sub_config(facts, "vision_config", vision_type)
    built = selected_layers(facts, vision.integer("num_hidden_layers"))
    depth = Depth(num_layers=built, has_post_norm=False)
    if vision_type == "clip_vision_model":
        return vision, clip_vision(vision, TOWER, depth)
    if vision_type == "siglip_vision_model":
        return siglip_of(facts, TOWER, depth)
    if vision_type == "pixtral":
        return vision, tuple(pixtral_vision(vision, TOWER, built))
    raise vision.unsupported("model_type", "CLIP, SigLIP and Pixtral are.")


def projector(
    facts: Facts, vision: Facts, text_size: int, *, num_features: int = 1
) -> tuple[Module, ...]:
    """Return two linear layers.

    Source: vLLM 0.33.0 `models/llava.py` LlavaMultiModalProjector.
    """
    size = vision.integer("hidden_size") * num_features
    bias = facts.flag("multimodal_projector_bias")
    return (
        blocks.column(f"{PROJECTOR}.linear_1", size, text_size, bias=bias),
        blocks.row(f"{PROJECTOR}.linear_2", text_size, text_size, bias=bias),
    )


def images(
    vision: Facts, modules: tuple[Module, ...], items: tuple[MediaItem, ...]
) -> Tower:
    """Return a tower for images."""
    return Tower(IMAGE, modules, items=items, forward=_vision_pass(vision))


def _vision_pass(vision: Facts) -> TowerPass:
    """Return the widest points of the tower.

    Pixtral's MLP has names for its gate and for what that reads, beside the patches,
    the input of the first block and of this one, and both norms. Its attention rotates
    keys beside rotated queries.

    Source: vLLM 0.33.0 `models/pixtral.py` PixtralHFTransformer,
    PixtralHFTransformerBlock, PixtralHFMLP, PixtralHFAttention; Transformers'
    apply_rotary_pos_emb; a traced dry run of Mistral Small 3.1 on eight ranks.
    """
    if vision.model_type != "pixtral":
        is_clip = vision.model_type == "clip_vision_model"
        return encoder_pass(vision, has_class_token=is_clip)
    size, heads = vision.integers("hidden_size", "num_attention_heads")
    tables = 2 * size // heads
    passed = block_pass(
        size, vision.integer("intermediate_size"), beside=5, is_gated=True, more=tables
    )
    rotating = Moment("rotating", whole=4 * size + tables, cut=7 * size)
    # Natively the input, the normed and the weighted one are in fp32.
    norm = Moment("norm", whole=5 * size + tables, native_whole=6 * size)
    return replace(passed, moments=(*passed.moments, rotating, norm))


# LLaVA-NeXT for videos.
def _llava_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/llava_next_video.py`."""
    vision, encoder = vision_tower(facts)
    size, bias = vision.integer("hidden_size"), facts.flag("multimodal_projector_bias")
    yield from encoder
    yield blocks.linear(f"{PROJECTOR}.linear_1", size, text_size, bias=bias)
    yield blocks.linear(f"{PROJECTOR}.linear_2", text_size, text_size, bias=bias)


# Bee and R-4B: LLaVA-OneVision with a norm before its projector, which is built beside
# the tower: each pipeline stage has it, and it stays when images are switched off.
def _projector(facts: Facts, text_size: int, *, widening: int) -> Iterator[Module]:
    """Yield its layers, whose middle is so much wider than the language model.

    Source: vLLM 0.33.0 `models/bee.py`, `models/rvl.py`.
    """
    size = vision_tower(facts)[0].integer("hidden_size")
    wide = widening * text_size
    yield blocks.norms(f"{PROJECTOR}.pre_norm", size, bias=True)
    yield blocks.linear(f"{PROJECTOR}.linear_1", size, wide, bias=True)
    yield blocks.linear(f"{PROJECTOR}.linear_2", wide, text_size, bias=True)
    yield blocks.replicated("image_newline", (text_size,))


# Mistral Small 3.1 and later, and LightOnOCR: Pixtral's tower, patches merged.
_LLAVA_RENAMES = (*RENAMES, ("model.", "language_model.model."))
_PASSES_RAW_PIXELS = Change(
    since=(0, 32),
    what="The GPU gets the pixels of Mistral 3's images as bytes and normalises them.",
    source=(
        "vLLM 0.32.0 `models/mistral3.py` supports_mm_device_do_normalize; a traced "
        "dry run of Devstral Small 2"
    ),
)


def _mistral3_tower(
    facts: Facts, text_size: int, *, has_own_format: bool = True
) -> Tower:
    """Source: vLLM 0.33.0 `models/mistral3.py` Mistral3ForConditionalGeneration.

    Mistral publishes its own format beside this one; who quantises a model publishes
    only this one. `has_own_format`: whether the model is Mistral's.
    """
    vision, modules = vision_tower(facts)
    size = vision.integer("hidden_size")
    patches = facts.integer("spatial_merge_size") ** 2
    merger = f"{PROJECTOR}.patch_merger.merging_layer"
    own = (
        blocks.norms(f"{PROJECTOR}.norm", size, bias=False),
        blocks.replicated(merger, (size, size * patches)),
        *projector(facts, vision, text_size),
    )
    return replace(
        images(vision, (*modules, *own), tiles.mistral3_items(facts, vision)),
        has_mistral_format=has_own_format and not quant_method(facts),
        reads_raw_pixels_since=_PASSES_RAW_PIXELS if has_own_format else None,
    )


# Pixtral in Mistral's own format: a tower beside any of its language models.
_PIXTRAL_RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("model.vision_tower.", "vision_encoder."),
    ("model.multi_modal_projector.", "vision_language_adapter."),
)
_MERGES = "patch_merge"


def _tower(facts: Facts, text_size: int) -> Tower:
    """Return Pixtral's tower as params.json describes it.

    Source: vLLM 0.33.0 `models/pixtral.py` PixtralForConditionalGeneration.
    """
    vision = nested(facts, "vision_config")
    longest = vision.integer("max_image_size", "image_size")
    sides = {"image_size": longest, "patch_size": vision.integer("patch_size")}
    merged = vision.integer("spatial_merge_size", default=1)
    merging = Facts({"spatial_merge_size": merged}, "")
    return Tower(
        IMAGE,
        tuple(_pixtral_modules(vision, text_size, merged)),
        items=mistral3_items(merging, Facts(sides, "")),
        rotates_in_fp32=True,
        has_mistral_format=True,
    )


def _pixtral_modules(vision: Facts, text_size: int, merged: int) -> Iterator[Module]:
    size = vision.integer("hidden_size")
    yield from _encoder(vision, "vision_encoder")
    if vision.flag("add_pre_mm_projector_layer_norm"):
        yield blocks.norms("pre_mm_projector_norm", size, bias=False)
    if vision.value("mm_projector_id") == _MERGES:
        shape = (size, size * merged**2)
        yield blocks.replicated("patch_merger.merging_layer", shape)
    biases = ((text_size,),) * 2 if vision.flag("adapter_bias", default=True) else ()
    layers = ((text_size, size), (text_size, text_size))
    yield blocks.replicated("vision_language_adapter", *layers, *biases)


def _encoder(facts: Facts, name: str) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/pixtral.py` VisionTransformer."""
    sizes, patch = blocks.Sizes.of(facts), facts.integer("patch_size")
    size, channels = sizes.width, facts.integer("num_channels")
    convolution = f"{name}.patch_conv"
    yield blocks.convolution(convolution, size, channels, patch, patch, bias=False)
    yield blocks.norms(f"{name}.ln_pre", size, bias=False)
    yield from blocks.repeated(
        f"{name}.transformer.layers",
        sizes.depth,
        blocks.norms("norm", size, count=2, bias=False),
        *blocks.unquantised(
            blocks.qkv("attention.wqkv", size, sizes.heads, bias=False),
            blocks.row("attention.wo", size, size, bias=False),
            *blocks.gated_mlp("feed_forward", size, sizes.mlp, bias=False),
        ),
    )


READERS: dict[str, Reader] = {
    **{
        name: Composite(tower, text=read_text, renames=RENAMES)
        for name, tower in (
            ("LlavaForConditionalGeneration", _llava_tower),
            ("LlavaNextForConditionalGeneration", _next_tower),
            ("LlavaOnevisionForConditionalGeneration", _onevision_tower),
        )
    },
    "LlavaNextVideoForConditionalGeneration": Composite(
        _llava_modules, modalities=("video",), renames=RENAMES
    ),
    **{
        name: Composite(
            lambda facts, _size: vision_tower(facts)[1],
            modalities=IMAGE_AND_VIDEO,
            beside=partial(_projector, widening=widening),
            renames=RENAMES,
        )
        for name, widening in (
            ("BeeForConditionalGeneration", 4),
            ("RForConditionalGeneration", 1),
        )
    },
    "Mistral3ForConditionalGeneration": Composite(
        _mistral3_tower, text=read_text, renames=_LLAVA_RENAMES
    ),
    # Mistral 3's tower before Qwen3. Source: vLLM 0.33.0 `models/lightonocr.py`.
    "LightOnOCRForConditionalGeneration": Composite(
        partial(_mistral3_tower, has_own_format=False),
        text=read_text,
        renames=(
            ("model.vision_encoder.", "vision_tower."),
            ("model.vision_projection.", "multi_modal_projector."),
            *_LLAVA_RENAMES,
        ),
    ),
    "PixtralForConditionalGeneration": Composite(
        _tower, text=Text("", tie=Tie.INNER), renames=_PIXTRAL_RENAMES
    ),
}
