"""The largest images and videos of families whose towers take one size, or tiles of it.

As with `items`, the settings of processors are those that checkpoints publish.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from planner.models.architecture import MediaItem
from planner.models.families.facts import Facts
from planner.models.families.towers.grids import (
    RGB,
    Items,
    Overlaps,
    PinPoints,
    Slices,
    Splits,
    if_known,
)
from planner.models.families.towers.sizing import (
    AnySize,
    Canvas,
    FrameByFrame,
    PatchGrid,
    Tiles,
)

_SLICES = 9
"""max_slice_nums of MiniCPM-V's published processors."""


@if_known
def gemma3_items(facts: Facts) -> Items:
    """Return an image of 256 tokens, whatever its size.

    Source: vLLM 0.33.0 `models/gemma3_mm.py` Gemma3ProcessingInfo.
    """
    image = _square(facts, tokens=256, marks=4)
    return (replace(image, sizing=AnySize()),)


@if_known
def llama4_items(facts: Facts) -> Items:
    """Return 16 tiles and the whole image as one more.

    Source: vLLM 0.33.0 `models/mllama4.py` Mllama4ProcessingInfo.
    """
    tiles, ratio = 17, facts.number("pixel_shuffle_ratio")
    patches = _grid(facts) ** 2
    tokens = round(patches * ratio * ratio)
    image = _tiled(facts, tiles, tokens=tiles * tokens, extra_patches=1, marks=20)
    return (
        replace(image, sizing=Canvas(side=_pair(facts, "image_size"), most=tiles - 1)),
    )


def tile_rows(vision: Facts) -> int:
    """Return the rows of a tile: its patches and one for the class; 0: not known."""
    if None in (vision.value("image_size"), vision.value("patch_size")):
        return 0
    return _grid(vision) ** 2 + 1


@if_known
def intern_vit_items(
    facts: Facts,
    vision: Facts,
    *,
    most_tiles: int,
    has_videos: bool,
    is_own_format: bool = False,
) -> Items:
    """Return an image of tiles with a small copy, and videos of a tile a frame.

    Source: vLLM 0.33.0 `models/internvl.py` BaseInternVLProcessingInfo,
    InternVLProcessingInfo: only max_model_len limits the frames.
    """
    ratio = facts.number("downsample_ratio")
    tiles = most_tiles + int(most_tiles > 1)
    tokens = round(_grid(vision) ** 2 * ratio * ratio)
    image = _tiled(vision, tiles, tokens=tiles * tokens, extra_patches=1, marks=2)
    if is_own_format and facts.value("dynamic_image_size") is not False:
        sizing = Tiles(
            side=_pair(vision, "image_size"),
            least=facts.value("min_dynamic_patch") or 1,
            most=most_tiles,
            has_copy=facts.value("use_thumbnail") is not False,
        )
        image = replace(image, sizing=sizing)
    frame = _tiled(vision, 1, tokens=tokens, extra_patches=1)
    video = replace(
        frame,
        modality="video",
        most_parts=1_000_000,
        leaves_room=True,
        sizing=FrameByFrame(),
    )
    return (image, video) if has_videos else (image,)


@if_known
def idefics3_items(facts: Facts, scale: int) -> Items:
    """Return 4 x 4 tiles and the whole image.

    Source: vLLM 0.33.0 `models/idefics3.py` Idefics3ProcessingInfo.
    """
    tiles, tokens = 17, (_grid(facts) // scale) ** 2
    image = _tiled(facts, tiles, tokens=tiles * tokens, marks=3 * tiles + 6)
    return (replace(image, sizing=Splits(side=_pair(facts, "image_size"))),)


@if_known
def molmo_items(size: int, patch: int) -> Items:
    """Return 1 x 12 crops that overlap, and the whole image.

    Crops of 24 x 24 patches share 8 of them with the next: 200 x 24 patches, pooled
    by two, beside 12 x 12 of the whole.

    Source: vLLM 0.33.0 `models/molmo.py` MolmoProcessingInfo.
    """
    crops, grid = 13, size // patch
    along = 12 * (grid - 8) + 8
    tokens = along // 2 * (grid // 2) + (grid // 2) ** 2
    return (
        MediaItem(
            "image",
            tokens,
            marks=2 + along // 2 + 2 + grid // 2,
            patches=crops * (grid * grid + 1),
            inputs=crops * RGB * size * size,
            sizing=Overlaps(side=size, patch=patch),
        ),
    )


@if_known
def llava_items(facts: Facts, vision: Facts) -> Items:
    """Return an image of the tower's size, less its class token.

    Source: vLLM 0.33.0 `models/llava.py` BaseLlavaProcessingInfo; Pixtral's images
    have a mark at the end of each row.
    """
    grid = _grid(vision)
    if vision.model_type == "pixtral":
        side, patch = _pair(vision, "image_size"), _pair(vision, "patch_size")
        pixtral = _square(vision, tokens=grid * grid, marks=grid)
        return (replace(pixtral, sizing=PatchGrid(side=side, unit=patch)),)
    tokens = _selected(facts, vision)
    image = _square(vision, tokens=tokens, extra_patches=_class_tokens(vision))
    return (replace(image, sizing=AnySize()),)


@if_known
def llava_next_items(facts: Facts, vision: Facts) -> Items:
    """Return the largest of the config's sizes in tiles, and the whole image.

    Source: vLLM 0.33.0 `models/llava_next.py` LlavaNextProcessingInfo.
    """
    sizing = PinPoints(
        sizes=tuple((int(w), int(h)) for h, w in facts.value("image_grid_pinpoints")),
        side=vision.integer("image_size"),
        grid=_grid(vision),
        base=_selected(facts, vision),
    )
    wide, high = sizing.largest
    tiles = (wide // sizing.side) * (high // sizing.side) + 1
    tokens, extra = sizing.tokens(sizing.largest), _class_tokens(vision)
    image = _tiled(vision, tiles, tokens=tokens, extra_patches=extra)
    return (replace(image, sizing=sizing),)


@if_known
def granite4_vision_items(facts: Facts, vision: Facts, rate: Fraction) -> Items:
    """Return the largest of the config's sizes in tiles of fewer tokens than patches.

    Source: vLLM 0.33.0 `models/granite4_vision.py` Granite4VisionProcessingInfo.
    """
    grid = int(_grid(vision) * rate)
    sizing = PinPoints(
        sizes=tuple((int(w), int(h)) for h, w in facts.value("image_grid_pinpoints")),
        side=vision.integer("image_size"),
        grid=grid,
        base=grid * grid,
    )
    wide, high = sizing.largest
    tiles = (wide // sizing.side) * (high // sizing.side) + 1
    image = _tiled(vision, tiles, tokens=sizing.tokens(sizing.largest))
    return (replace(image, sizing=sizing),)


@if_known
def llava_onevision_items(vision: Facts) -> Items:
    """Return an image of 1,153 x 944 pixels, and videos of 16 frames.

    The image covers 3 x 3 tiles, of which 67 rows of 81 are not padding.

    Source: vLLM 0.33.0 `models/llava_onevision.py` LlavaOnevisionProcessingInfo.
    """
    grid = _grid(vision)
    rows, columns = _unpadded(grid, width=1153, height=944)
    frame = ((grid + 1) // 2) ** 2
    image = _tiled(vision, 10, tokens=rows * columns + rows + grid * grid)
    video = _tiled(vision, 1, tokens=frame)
    return (image, replace(video, modality="video", most_parts=16))


@if_known
def mistral3_items(facts: Facts, vision: Facts) -> Items:
    """Return an image of the tower's size, its patches merged.

    Source: vLLM 0.33.0 `models/mistral3.py` Mistral3ProcessingInfo,
    `models/pixtral.py` PixtralHFEncoderInfo.
    """
    merge, side = facts.integer("spatial_merge_size"), vision.integer("image_size")
    grid = -(-side // (vision.integer("patch_size") * merge))
    return (
        MediaItem(
            "image",
            grid * grid,
            marks=grid,
            patches=(grid * merge) ** 2,
            inputs=RGB * side * side,
            sizing=PatchGrid(side=side, unit=vision.integer("patch_size") * merge),
        ),
    )


@if_known
def minicpm_v_items(facts: Facts, *, has_videos: bool) -> Items:
    """Return nine slices below each other and the whole, and videos of 16 frames.

    A slice or frame is 448 x 448 pixels, of which the resampler makes 64 tokens.

    Source: vLLM 0.33.0 `models/minicpmv.py` MiniCPMVProcessingInfo.
    """
    most, tokens = facts.integer("max_slice_num", default=9), _queries(facts)
    side = facts.integer("image_size", default=448)
    sizing = Slices(side=side, most=most, limit=_SLICES)
    slices = sizing.count((side, side * most))
    patches = (side // facts.integer("patch_size", default=14)) ** 2
    image = MediaItem(
        "image",
        slices * tokens,
        patches=slices * patches,
        inputs=slices * RGB * side * side,
        sizing=sizing,
    )
    video = MediaItem(
        "video",
        tokens,
        patches=patches,
        inputs=RGB * side * side,
        most_parts=16,
        leaves_room=True,
        sizing=FrameByFrame(is_counted=False),
    )
    return (image, video) if has_videos else (image,)


@if_known
def ovis_items(facts: Facts, vision: Facts) -> Items:
    """Return 3 x 3 tiles and a small copy, with ends of rows and columns as tokens.

    Source: vLLM 0.33.0 `models/ovis.py` OvisProcessingInfo (9 partitions),
    `transformers_utils/processors/ovis.py` construct_image_placeholders.
    """
    rows = columns = 3
    tiles = rows * columns + 1
    marks = 3 + rows * (columns - 1) + (rows - 1)
    along = -(-_grid(vision) // facts.integer("hidden_stride", default=1))
    return (_tiled(vision, tiles, tokens=tiles * along**2 + marks),)


def _queries(facts: Facts) -> int:
    return facts.integer("query_num", default=64)


@if_known
def paligemma_items(vision: Facts) -> Items:
    """Return one image of the tower's size.

    Source: vLLM 0.33.0 `models/paligemma.py`.
    """
    image = _square(vision, tokens=_grid(vision) ** 2)
    return (replace(image, per_prompt=1),)


def _grid(facts: Facts) -> int:
    """Patches along the side of an image."""
    return _pair(facts, "image_size") // _pair(facts, "patch_size")


def _pair(facts: Facts, name: str) -> int:
    """Return a size, which some configs give for height and width."""
    value = facts.value(name)
    return int(value[0]) if isinstance(value, list | tuple) else facts.integer(name)


def _class_tokens(vision: Facts) -> int:
    return 1 if vision.model_type == "clip_vision_model" else 0


def _selected(facts: Facts, vision: Facts) -> int:
    """Return the tokens of one tile.

    Source: vLLM 0.33.0 `models/vision.py` get_num_selected_vision_tokens.
    """
    is_default = facts.value("vision_feature_select_strategy") == "default"
    return _grid(vision) ** 2 + _class_tokens(vision) - int(is_default)


def _square(
    facts: Facts, *, tokens: int, marks: int = 0, extra_patches: int = 0
) -> MediaItem:
    return _tiled(facts, 1, tokens=tokens, marks=marks, extra_patches=extra_patches)


def _tiled(
    facts: Facts, tiles: int, *, tokens: int, marks: int = 0, extra_patches: int = 0
) -> MediaItem:
    """Return an image cut into tiles of the tower's size."""
    return MediaItem(
        "image",
        tokens,
        marks=marks,
        patches=tiles * (_grid(facts) ** 2 + extra_patches),
        inputs=tiles * RGB * _pair(facts, "image_size") ** 2,
    )


def _unpadded(grid: int, *, width: int, height: int) -> tuple[int, int]:
    """Return rows and columns of an image's patches on 3 x 3 tiles, less padding.

    Source: vLLM 0.33.0 `models/llava_onevision.py` _get_num_unpadded_features.
    """
    side = 3 * grid
    padding = (side - int(height * side / width)) // 2
    return side - 2 * padding, side
