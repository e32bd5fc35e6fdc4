"""LLaVA-NeXT for videos."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.llava import PROJECTOR, RENAMES, vision_tower
from planner.models.families.multimodal import composed, read_language_model, text_of
from planner.models.families.towers import blocks


def read_llava_next_video(facts: Facts, label: Label) -> ModelArchitecture:
    """Return LLaVA-NeXT for videos.

    Source: vLLM 0.33.0 `models/llava_next_video.py`.
    """
    vision, modules = vision_tower(facts, has_post_norm=False)
    model = read_language_model(text_of(facts), label)
    size, text_size = vision.integer("hidden_size"), model.hidden_size
    bias = facts.flag("multimodal_projector_bias")
    own = (
        blocks.linear(f"{PROJECTOR}.linear_1", size, text_size, bias=bias),
        blocks.linear(f"{PROJECTOR}.linear_2", text_size, text_size, bias=bias),
    )
    tower = Tower(modalities=("video",), modules=(*modules, *own))
    return composed(facts, label, model, tower, renames=RENAMES)


READERS = {
    "LlavaNextVideoForConditionalGeneration": read_llava_next_video,
}
