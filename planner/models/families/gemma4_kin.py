"""Gemma 4 with images and sounds: through encoders, without, and by diffusion."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.gemma4 import read_gemma4_text
from planner.models.families.multimodal import (
    known_as,
    quant_method,
    sub_config,
    text_facts,
    with_mm_prefix,
    with_towers,
)
from planner.models.families.towers.gemma4 import audio_tower, vision_tower
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    TokenBuffer,
)

LAYERS = "language_model.model.layers"
RENAMES = (
    ("model.vision_tower", "vision_tower"),
    ("model.embed_vision", "embed_vision"),
    ("model.audio_tower.", "audio_tower."),
    ("model.embed_audio.", "embed_audio."),
    ("model.language_model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
    ("model", "language_model.model"),
)


def read_gemma4(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Gemma 4 with its towers.

    Source: vLLM 0.33.0 `models/gemma4_mm.py` Gemma4ForConditionalGeneration;
    `transformers_utils/model_arch_config_convertor.py` Gemma4ModelArchConfigConvertor.
    """
    text = text_facts(facts, "gemma4_text")
    model = read_gemma4_text(text, label)
    if text.value("use_bidirectional_attention") == "vision":
        model = with_mm_prefix(model)
    method = quant_method(facts)
    vision = sub_config(facts, "vision_config", "gemma4_vision")
    towers = [vision_tower(vision, model.hidden_size, method)]
    if facts.value("audio_config") is not None:
        audio = sub_config(facts, "audio_config", "gemma4_audio")
        towers.append(audio_tower(audio, model.hidden_size, method))
    whole = with_towers(
        model,
        tuple(towers),
        layer_prefix=LAYERS,
        prefix_renames=RENAMES,
        head_prefix="language_model.",
    )
    every_stage = (*whole.every_stage, *_step_buffer(text, len(model.layers)))
    return known_as(replace(whole, every_stage=every_stage), facts, label)


def _step_buffer(text: Facts, num_layers: int) -> tuple[Module, ...]:
    """Return the buffer of a step's embeddings for each layer."""
    inner = text.optional_integer("hidden_size_per_layer_input")
    if not inner:
        return ()
    return (TokenBuffer(name="per_layer_embeddings", columns=num_layers * inner),)


def read_unified(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Gemma 4 that takes patches and sounds as they are, without encoders.

    Source: vLLM 0.33.0 `models/gemma4_unified.py`.

    Raises:
        UnknownArchitecture: for a config without patches, which vLLM refuses.
    """
    if facts.value("vision_config") is None:
        raise facts.unsupported("vision_config", "vLLM requires one.")
    text = text_facts(facts, "gemma4_unified_text")
    model = read_gemma4_text(text, label)
    if text.value("use_bidirectional_attention") == "vision":
        model = with_mm_prefix(model)
    sounds = ("audio",) if facts.value("audio_config") is not None else ()
    whole = with_towers(
        model,
        (Tower(modalities=("image", "video", *sounds), modules=()),),
        layer_prefix=LAYERS,
        prefix_renames=RENAMES,
        head_prefix="language_model.",
    )
    every_stage = (
        *whole.every_stage,
        *_step_buffer(text, len(model.layers)),
        *_patches(facts, model.hidden_size),
    )
    return known_as(replace(whole, every_stage=every_stage), facts, label)


def _patches(facts: Facts, text_size: int) -> tuple[Module, ...]:
    """Return what embeds patches and sounds, on every stage.

    Source: vLLM 0.33.0 `models/gemma4_unified.py` Gemma4UnifiedVisionEmbedder,
    `models/gemma4_mm.py` Gemma4MultimodalEmbedder.
    """
    vision = sub_config(facts, "vision_config", "gemma4_unified_vision")
    side = vision.integer("patch_size") * vision.integer("pooling_kernel_size")
    pixels, size = 3 * side**2, vision.integer("mm_embed_dim")
    widths = [vision.integer("output_proj_dims")]
    if facts.value("audio_config") is not None:
        audio = sub_config(facts, "audio_config", "gemma4_unified_audio")
        widths.append(audio.integer("audio_embed_dim", "hidden_size"))
    places = vision.integer("mm_posemb_size")
    return (
        ColumnParallelLinear(
            name="vision_embedder.patch_dense",
            part=Part.TOWERS,
            input_size=pixels,
            output_sizes=(size,),
            bias=True,
        ),
        Replicated(
            name="vision_embedder",
            part=Part.TOWERS,
            shapes=((pixels,),) * 2 + ((size,),) * 4 + ((places, 2, size),),
        ),
        *(
            Replicated(
                name="embed", part=Part.TOWERS, shapes=((text_size, width), (width,))
            )
            for width in widths
        ),
    )


def read_diffusion(facts: Facts, label: Label) -> ModelArchitecture:
    """Return DiffusionGemma: Gemma 4, and an MLP that reads its own guesses.

    Source: vLLM 0.33.0 `models/diffusion_gemma.py`.
    """
    text = text_facts(facts, "diffusion_gemma_text")
    model = read_gemma4_text(text, label)
    size = model.hidden_size
    width = facts.optional_integer("self_conditioning_size")
    width = width or text.integer("intermediate_size")
    guesses = Replicated(
        name="self_conditioning",
        part=Part.MLP,
        shapes=((size,),) * 2 + ((width, size),) * 3,
    )
    towers: tuple[Tower, ...] = ()
    if facts.value("vision_config") is not None:
        vision = sub_config(facts, "vision_config", "gemma4_vision")
        towers = (vision_tower(vision, size, quant_method(facts)),)
    whole = with_towers(
        replace(model, every_stage=(*model.every_stage, guesses), supports_pp=False),
        towers,
        layer_prefix="model.layers",
    )
    return known_as(whole, facts, label)


READERS = {
    "Gemma4ForConditionalGeneration": read_gemma4,
    "Gemma4UnifiedForConditionalGeneration": read_unified,
    "DiffusionGemmaForBlockDiffusion": read_diffusion,
}
