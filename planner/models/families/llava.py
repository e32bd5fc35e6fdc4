"""LLaVA and similar models: a tower for images, a projector, and a language model."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import MediaItem, ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite, siglip_of
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    CAUSAL_LM_OF,
    inner_type,
    named,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks, tiles
from planner.models.families.towers.blocks import IMAGE, IMAGE_AND_VIDEO
from planner.models.families.towers.clip import (
    Depth,
    clip_vision,
    encoder_pass,
    selected_layers,
)
from planner.models.families.towers.pixtral import pixtral_vision
from planner.models.layers import Module
from planner.models.passes import Moment, TowerPass, block_pass

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


def _tower(facts: Facts, text_size: int) -> Tower:
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
    apply_rotary_pos_emb.
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
    return replace(passed, moments=(*passed.moments, rotating))


READERS = {
    name: Composite(tower, text=read_text, renames=RENAMES)
    for name, tower in (
        ("LlavaForConditionalGeneration", _tower),
        ("LlavaNextForConditionalGeneration", _next_tower),
        ("LlavaOnevisionForConditionalGeneration", _onevision_tower),
    )
}
