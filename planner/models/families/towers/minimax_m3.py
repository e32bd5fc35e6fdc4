"""MiniMax-M3's vision tower."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import Tower
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks, items
from planner.models.layers import Module
from planner.models.passes import Moment, TowerPass

_AXES = 3


def minimax_m3_tower(
    facts: Facts,
    *,
    text_size: int,
    projector_size: int | None,
    name: str = "vision_tower",
) -> Tower:
    """Return the tower with its projector and the merger of its patches.

    `projector_size` is the width between the projector's two layers; None: the language
    model's.

    Source: vLLM 0.33.0 `models/minimax_m3/common/vision_tower.py`
    MiniMaxVLVisionModel, MiniMaxVLMultiModalProjector.
    """
    middle, size = projector_size or text_size, facts.integer("hidden_size")
    return Tower(
        modalities=blocks.IMAGE_AND_VIDEO,
        modules=tuple(_modules(facts, name, text_size, middle)),
        items=items.minimax_m3_items(facts),
        supports_data_parallel=True,
        forward=TowerPass(
            moments=(
                # The projector's first layer and its activation, then its output, for
                # each patch, as wide as the language model.
                Moment("projecting", whole=size, cut=2 * middle),
                Moment(
                    "projected", whole=size + text_size, cut=middle, reduced=text_size
                ),
                # Queries and keys in fp32 before and after, and cast back.
                Moment("rotating", whole=2 * size, cut=15 * size),
            )
        ),
    )


def _modules(facts: Facts, name: str, text_size: int, middle: int) -> Iterator[Module]:
    compression = facts.mapping("img_token_compression_config")
    sizes, patch = blocks.Sizes.of(facts), facts.integer("patch_size")
    frames = int(compression.get("temporal_patch_size", 2))
    merged = int(compression.get("spatial_merge_size", 2)) ** 2
    size, channels = sizes.width, facts.integer("num_channels", default=3)
    # Rotary angles are shared out among time, height and width.
    angles = ((2 * (size // sizes.heads // 2 // _AXES) // 2,),) * _AXES
    model, kernel = f"{name}.vision_model", (frames, patch, patch)
    embedding = f"{model}.embeddings.patch_embedding"
    yield blocks.convolution(embedding, size, channels, *kernel, bias=False)
    yield blocks.norms(f"{model}.pre_layrnorm", size, bias=True)
    yield blocks.replicated(f"{model}.inv_freq", *angles, dtype="float32")
    parts = replace(blocks.CLIP, mlp=("fc1", "fc2"))
    yield from blocks.layers(f"{model}.encoder.layers", sizes, parts)
    projector, merger = f"{name}.multi_modal_projector", f"{name}.patch_merge_mlp"
    for part, width in ((projector, size), (merger, text_size * merged)):
        yield blocks.column(f"{part}.linear_1", width, middle, bias=True)
        yield blocks.row(f"{part}.linear_2", middle, text_size, bias=True)
