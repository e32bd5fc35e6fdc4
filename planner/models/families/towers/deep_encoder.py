"""DeepSeek-OCR's tower: SAM's encoder, whose output CLIP processes further.

Source: vLLM 0.33.0 `models/deepencoder.py`, `models/deepseek_ocr.py`.
"""

from __future__ import annotations

from planner.models.architecture import MediaItem, Tower
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import Depth, clip_layers
from planner.models.families.towers.facts import RGB
from planner.models.families.towers.sizing import AnySize
from planner.models.layers import Module

_WIDTH, _LAYERS, _HEAD = 768, 12, 64
_GLOBAL = (2, 5, 8, 11)
"""SAM's layers that attend to the whole image, not to windows of 14 patches."""
_WINDOW, _PATCH, _BASE, _CROP = 14, 16, 1024, 640
_CLIP = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "image_size": 224,
    "patch_size": 14,
    "num_channels": 3,
}


def deep_encoder(input_size: int, output_size: int) -> Tower:
    """Return the tower with its projector, and the largest image.

    That has 1,280 x 1,280 pixels: the whole at 1,024 and four crops of 640, one token
    for 16 x 16 patches' pixels by four, and a line's end each.
    """
    projector = blocks.replicated(
        "projector", (output_size, input_size), (output_size,)
    )
    return Tower(
        modalities=("image",),
        modules=(*_sam("sam_model"), *_clip("vision_model"), projector),
        items=(_image(),),
    )


def _image() -> MediaItem:
    whole, crop = _BASE // _PATCH // 4, _CROP // _PATCH // 4
    crops = 4
    return MediaItem(
        modality="image",
        tokens=whole * (whole + 1) + 2 * crop * (2 * crop + 1) + 1,
        patches=crops * (_CROP // _PATCH) ** 2,
        inputs=RGB * (_BASE**2 + crops * _CROP**2),
        pieces=1,  # one image after the other
        sizing=AnySize(),
    )


def _sam(name: str) -> tuple[Module, ...]:
    grid = _BASE // _PATCH
    modules: list[Module] = [
        blocks.convolution(f"{name}.patch_embed", _WIDTH, RGB, 16, 16, bias=True),
        blocks.replicated(f"{name}.pos_embed", (grid, grid, _WIDTH)),
    ]
    for index in range(_LAYERS):
        block, reach = f"{name}.blocks.{index}", grid if index in _GLOBAL else _WINDOW
        positions = ((2 * reach - 1, _HEAD),) * 2
        modules += [
            blocks.norms(f"{block}.norm", _WIDTH, count=2, bias=True),
            blocks.replicated(
                block,
                *((3 * _WIDTH, _WIDTH), (3 * _WIDTH,), (_WIDTH, _WIDTH), (_WIDTH,)),
                *((4 * _WIDTH, _WIDTH), (4 * _WIDTH,), (_WIDTH, 4 * _WIDTH), (_WIDTH,)),
            ),
            blocks.replicated(f"{block}.rel_pos", *positions),
        ]
    sizes = ((256, _WIDTH, 1), (256, 256, 3), (512, 256, 3), (1024, 512, 3))
    for number, (out, into, kernel) in enumerate(sizes):
        modules.append(
            blocks.convolution(
                f"{name}.neck.{number}", out, into, kernel, kernel, bias=False
            )
        )
    modules.append(blocks.norms(f"{name}.neck.norms", 256, count=2, bias=True))
    return tuple(modules)


def _clip(name: str) -> tuple[Module, ...]:
    """Return CLIP's layers, without the norm after them."""
    depth = Depth(has_post_norm=False)
    return clip_layers(Facts(_CLIP, "clip_vision_model"), name, depth)
