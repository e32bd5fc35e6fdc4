"""MiniMax-M3's vision tower."""

from __future__ import annotations

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
    compression = facts.mapping("img_token_compression_config")
    size, patch = facts.integers("hidden_size", "patch_size")
    heads = facts.integer("num_attention_heads")
    frames = int(compression.get("temporal_patch_size", 2))
    merged = int(compression.get("spatial_merge_size", 2)) ** 2
    middle = projector_size or text_size
    # Rotary angles are shared out among time, height and width.
    angles = 2 * (size // heads // 2 // _AXES) // 2
    model = f"{name}.vision_model"
    modules: list[Module] = [
        blocks.convolution(
            f"{model}.embeddings.patch_embedding",
            size,
            facts.integer("num_channels", default=3),
            frames,
            patch,
            patch,
            bias=False,
        ),
        blocks.norms(f"{model}.pre_layrnorm", size, bias=True),
        blocks.replicated(f"{model}.inv_freq", *((angles,),) * _AXES, dtype="float32"),
    ]
    parts = replace(blocks.CLIP, mlp=("fc1", "fc2"))
    modules += blocks.layers(f"{model}.encoder.layers", blocks.Sizes.of(facts), parts)
    for part, width in (
        ("multi_modal_projector", size),
        ("patch_merge_mlp", text_size * merged),
    ):
        modules += [
            blocks.column(f"{name}.{part}.linear_1", width, middle, bias=True),
            blocks.row(f"{name}.{part}.linear_2", middle, text_size, bias=True),
        ]
    return Tower(
        modalities=("image", "video"),
        modules=tuple(modules),
        items=items.minimax_m3_items(facts),
        supports_data_parallel=True,
        forward=TowerPass(
            moments=(
                # The projector's first layer and its activation, then its output, for
                # each patch, as wide as the language model.
                Moment(name="projecting", whole=size, cut=2 * middle),
                Moment(
                    name="projected",
                    whole=size + text_size,
                    cut=middle,
                    reduced=text_size,
                ),
                # Queries and keys in fp32 before and after, and cast back.
                Moment(name="rotating", whole=2 * size, cut=15 * size),
            )
        ),
    )
