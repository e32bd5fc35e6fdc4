"""Gemma 4 that takes patches and sounds as they are, without encoders."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.gemma4 import read_gemma4_text
from planner.models.families.gemma4_mm import LAYERS, RENAMES, step_buffer
from planner.models.families.multimodal import (
    known_as,
    sub_config,
    text_facts,
    with_mm_prefix,
    with_towers,
)
from planner.models.layers import ColumnParallelLinear, Module, Part, Replicated


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
        *step_buffer(text, len(model.layers)),
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


READERS = {
    "Gemma4UnifiedForConditionalGeneration": read_unified,
}
