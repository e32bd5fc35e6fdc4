"""Gemma 4 that takes patches and sounds as they are, without encoders."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from planner.models.architecture import Tower
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.gemma4_mm import RENAMES, read_text, step_buffer
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO, IMAGE_AND_VIDEO
from planner.models.layers import Module

_KIND = "gemma4_unified_text"


def _tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/gemma4_unified.py`."""
    if facts.value("vision_config") is None:
        raise facts.unsupported("vision_config", "vLLM requires one.")
    sounds = AUDIO if facts.value("audio_config") is not None else ()
    return Tower((*IMAGE_AND_VIDEO, *sounds), ())


def _beside(facts: Facts, text_size: int) -> Iterator[Module]:
    """Yield what embeds patches and sounds, on every stage.

    Source: vLLM 0.33.0 `models/gemma4_unified.py` Gemma4UnifiedVisionEmbedder,
    `models/gemma4_mm.py` Gemma4MultimodalEmbedder.
    """
    yield from step_buffer(facts, text_size, kind=_KIND)
    vision = sub_config(facts, "vision_config", "gemma4_unified_vision")
    side = vision.integer("patch_size") * vision.integer("pooling_kernel_size")
    pixels, size = 3 * side**2, vision.integer("mm_embed_dim")
    places, name = vision.integer("mm_posemb_size"), "vision_embedder"
    shapes = ((pixels,),) * 2 + ((size,),) * 4 + ((places, 2, size),)
    yield blocks.column(f"{name}.patch_dense", pixels, size, bias=True)
    yield blocks.replicated(name, *shapes)
    widths = [vision.integer("output_proj_dims")]
    if facts.value("audio_config") is not None:
        audio = sub_config(facts, "audio_config", "gemma4_unified_audio")
        widths.append(audio.integer("audio_embed_dim", "hidden_size"))
    for width in widths:
        yield blocks.replicated("embed", (text_size, width), (width,))


READERS = {
    "Gemma4UnifiedForConditionalGeneration": Composite(
        _tower, text=partial(read_text, kind=_KIND), beside=_beside, renames=RENAMES
    )
}
