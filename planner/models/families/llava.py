"""LLaVA and similar models: a tower for images, a projector, and a language model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from planner.models.architecture import MediaItem, ModelArchitecture, Tower
from planner.models.families import llama, moe
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    inner_type,
    known_as,
    quant_method,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.towers import blocks, tiles
from planner.models.families.towers.clip import (
    Depth,
    clip_vision,
    encoder_pass,
    selected_layers,
    siglip_vision,
)
from planner.models.families.towers.pixtral import pixtral_vision
from planner.models.layers import Module
from planner.models.passes import Moment, TowerPass, block_pass

LAYERS = "language_model.model.layers"

TOWER, PROJECTOR = "vision_tower", "multi_modal_projector"

RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("model.vision_tower.", "vision_tower."),
    ("model.multi_modal_projector.", "multi_modal_projector."),
    ("lm_head.", "language_model.lm_head."),
)

_LLAMA = partial(llama.read, style=llama.LLAMA)

_CLASSES: dict[str, tuple[str, Callable[..., ModelArchitecture]]] = {
    "gemma": ("GemmaForCausalLM", partial(llama.read, style=llama.STYLES["Gemma"])),
    "gemma2": ("Gemma2ForCausalLM", partial(llama.read, style=llama.STYLES["Gemma2"])),
    "granite": ("GraniteForCausalLM", _LLAMA),
    "llama": ("LlamaForCausalLM", _LLAMA),
    "ministral3": ("Ministral3ForCausalLM", _LLAMA),
    "mistral": ("MistralForCausalLM", _LLAMA),
    "mixtral": ("MixtralForCausalLM", moe.read_mixtral),
    "phi3": ("Phi3ForCausalLM", partial(llama.read, style=llama.STYLES["Phi3"])),
    "qwen2": ("Qwen2ForCausalLM", partial(llama.read, style=llama.STYLES["Qwen2"])),
    "qwen3": ("Qwen3ForCausalLM", partial(llama.read, style=llama.STYLES["Qwen3"])),
}


def read_llava(facts: Facts, label: Label) -> ModelArchitecture:
    """Return LLaVA 1.5, or Pixtral in Transformers' format.

    Source: vLLM 0.33.0 `models/llava.py` LlavaForConditionalGeneration.
    """
    vision, modules = vision_tower(facts)
    model = language_model(facts, label)
    projector = projector_of(facts, vision, model)
    return whole_of(
        facts,
        label,
        model,
        images(vision, (*modules, *projector), tiles.llava_items(facts, vision)),
    )


def read_llava_next(facts: Facts, label: Label) -> ModelArchitecture:
    """Return LLaVA 1.6.

    Source: vLLM 0.33.0 `models/llava_next.py` LlavaNextForConditionalGeneration.
    """
    layers = facts.value("vision_feature_layer")
    count = len(layers) if isinstance(layers, list | tuple) else 1
    vision, modules = vision_tower(facts)
    model = language_model(facts, label)
    projector = projector_of(facts, vision, model, num_features=count)
    newline = blocks.replicated("image_newline", (model.hidden_size,))
    return whole_of(
        facts,
        label,
        model,
        images(
            vision,
            (*modules, newline, *projector),
            tiles.llava_next_items(facts, vision),
        ),
    )


def read_llava_onevision(facts: Facts, label: Label) -> ModelArchitecture:
    """Return LLaVA-OneVision.

    Source: vLLM 0.33.0 `models/llava_onevision.py`
    LlavaOnevisionForConditionalGeneration.
    """
    vision, modules = vision_tower(facts)
    model = language_model(facts, label)
    size, text_size = vision.integer("hidden_size"), model.hidden_size
    weights = ((text_size, size), (text_size, text_size))
    biases = ((text_size,),) * (2 if facts.flag("multimodal_projector_bias") else 0)
    own = (
        blocks.replicated(PROJECTOR, *weights, *biases),  # no rank divides it
        blocks.replicated("image_newline", (text_size,)),
    )
    tower = Tower(
        modalities=("image", "video"),
        modules=(*modules, *own),
        items=tiles.llava_onevision_items(vision),
        forward=_vision_pass(vision),
    )
    return whole_of(facts, label, model, tower)


def language_model(facts: Facts, label: Label) -> ModelArchitecture:
    text_type = inner_type(facts, "llama")
    return read_language_model(text_facts(facts, text_type), label)


def vision_tower(facts: Facts) -> tuple[Facts, tuple[Module, ...]]:
    """Return the tower's config, and the layers that its features need.

    Source: vLLM 0.33.0 `models/llava.py` init_vision_tower_for_llava.
    """
    vision_type = inner_type(facts, "clip_vision_model", "vision_config")
    vision = sub_config(facts, "vision_config", vision_type)
    depth = Depth(
        num_layers=selected_layers(facts, vision.integer("num_hidden_layers")),
        has_post_norm=False,
    )
    if vision_type == "clip_vision_model":
        return vision, clip_vision(vision, TOWER, depth)
    if vision_type == "siglip_vision_model":
        method = quant_method(facts)
        return vision, siglip_vision(vision, TOWER, depth, quant_method=method)
    if vision_type == "pixtral":
        return vision, pixtral_vision(vision, TOWER, depth.num_layers or 0)
    raise vision.unsupported("model_type", "CLIP, SigLIP and Pixtral are.")


def projector_of(
    facts: Facts, vision: Facts, model: ModelArchitecture, *, num_features: int = 1
) -> tuple[Module, ...]:
    """Return two linear layers.

    Source: vLLM 0.33.0 `models/llava.py` LlavaMultiModalProjector.
    """
    size, text_size = vision.integer("hidden_size"), model.hidden_size
    bias = facts.flag("multimodal_projector_bias")
    return (
        blocks.column(
            f"{PROJECTOR}.linear_1", size * num_features, text_size, bias=bias
        ),
        blocks.row(f"{PROJECTOR}.linear_2", text_size, text_size, bias=bias),
    )


def images(
    vision: Facts, modules: tuple[Module, ...], items: tuple[MediaItem, ...]
) -> Tower:
    return Tower(
        modalities=("image",),
        modules=modules,
        items=items,
        forward=_vision_pass(vision),
    )


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
    size, heads = vision.integer("hidden_size"), vision.integer("num_attention_heads")
    tables = 2 * size // heads
    passed = block_pass(
        size, vision.integer("intermediate_size"), beside=5, is_gated=True, more=tables
    )
    rotating = Moment(name="rotating", whole=4 * size + tables, cut=7 * size)
    return replace(passed, moments=(*passed.moments, rotating))


def whole_of(
    facts: Facts, label: Label, model: ModelArchitecture, tower: Tower
) -> ModelArchitecture:
    whole = with_towers(
        model,
        (tower,),
        layer_prefix=LAYERS,
        prefix_renames=RENAMES,
        head_prefix="language_model.",
    )
    return known_as(whole, facts, label)


def read_language_model(text: Facts, label: Label) -> ModelArchitecture:
    """Return the language model that an inner config describes.

    Raises:
        UnknownArchitecture: when it is of another class.

    Source: vLLM 0.33.0 `models/utils.py` init_vllm_registered_model, `config/vllm.py`
    with_hf_config.
    """
    found = _CLASSES.get(text.model_type)
    if found is None:
        raise text.unsupported("architectures", "this language model with a tower.")
    architecture, reader = found
    given = text.value("architectures")
    if given and architecture not in given:
        raise text.unsupported("architectures", f"{architecture} is expected here.")
    return reader(text, label.of(architecture))


READERS = {
    "LlavaForConditionalGeneration": read_llava,
    "LlavaNextForConditionalGeneration": read_llava_next,
    "LlavaOnevisionForConditionalGeneration": read_llava_onevision,
}
