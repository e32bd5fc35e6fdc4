"""The largest images, videos and sounds of families whose towers take any size.

They follow from vLLM's processing classes and from the settings of the processors that
the families' checkpoints publish, which are not in config.json: a checkpoint with other
settings has other sizes.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

from planner.engine.releases.change import Change
from planner.models.architecture import MediaItem, Resizing
from planner.models.families.facts import Facts
from planner.models.families.towers.crops import PaddedPatches
from planner.models.families.towers.grids import RGB, Items, if_known
from planner.models.families.towers.sizing import (
    AnyPixels,
    Clip,
    SoftTokens,
)

_FILLS_QWEN2 = Change(
    since=(0, 10),
    what="The longest video of Qwen2-VL leaves no room for the largest image.",
    source="vLLM 0.9.2 and 0.10.2 `models/qwen2_vl.py` Qwen2VLProcessingInfo",
)
_SHORTENS_QWEN2 = Change(
    since=(0, 11),
    what="The longest video of Qwen2-VL has 14 frames. Before, it had 16.",
    source="vLLM 0.10.2 `models/qwen2_vl.py` (_MAX_FRAMES_PER_VIDEO)",
)
_RESIZES_QWEN3 = Change(
    since=(0, 32),
    what=(
        "min_pixels and max_pixels of mm_processor_kwargs set the sizes of Qwen3-VL's "
        "images and videos."
    ),
)
_COUNTS_QWEN3 = Change(
    since=(0, 13),
    what=(
        "Tokens of Qwen3-VL's videos are counted as they are. Before, 12.5 were "
        "counted for each."
    ),
    source="vLLM 0.12.0 `models/qwen3_vl.py` get_max_video_tokens",
)
_LIMITS_QWEN3 = Change(
    since=(0, 15),
    what=(
        "The largest video of Qwen3-VL has 25,165,824 pixels. Before, frames were "
        "added, which shrink, until it had more tokens than max_model_len."
    ),
    source=(
        "vLLM 0.14.0 `models/qwen3_vl.py` _get_vision_info, _get_max_video_frames, "
        "get_max_video_tokens"
    ),
)


@if_known
def qwen2_vl_items(facts: Facts) -> Items:
    """Return 12,845,056 pixels, and videos of 14 such frames in pairs.

    Source: vLLM 0.33.0 `models/qwen2_vl.py` Qwen2VLProcessingInfo.
    """
    pixels = 12_845_056
    image = replace(
        _merged_patches(facts, "image", pixels),
        resizing=Resizing(
            token_pixels=_unit(facts) ** 2, least_pixels=3136, most_pixels=pixels
        ),
        sizing=AnyPixels(unit=_unit(facts), least_pixels=3136),
    )
    video = replace(
        image,
        modality="video",
        most_parts=8,
        sizing=AnyPixels(unit=_unit(facts), least_pixels=3136, heeds_frames=True),
    )
    return (
        image,
        replace(video, most_parts=7, since=_SHORTENS_QWEN2),
        replace(video, since=_FILLS_QWEN2, until=_SHORTENS_QWEN2),
        replace(video, until=_FILLS_QWEN2, leaves_room=True),
    )


@if_known
def qwen3_vl_items(facts: Facts) -> Items:
    """Return 16,777,216 pixels, and videos of 25,165,824 over all their frames.

    Where older releases add frames, a third makes the video longer than any other, so
    that there are two where 16,200 tokens have no room.

    Source: vLLM 0.33.0 `models/qwen3_vl.py` Qwen3VLProcessingInfo.
    """
    pixels, of_video = 16_777_216, 25_165_824
    resizing = Resizing(
        token_pixels=_unit(facts) ** 2,
        least_pixels=65_536,
        most_pixels=pixels,
        since=_RESIZES_QWEN3,
    )
    image = replace(
        _merged_patches(facts, "image", pixels),
        resizing=resizing,
        sizing=AnyPixels(unit=_unit(facts), least_pixels=65_536),
    )
    video = replace(
        _merged_patches(facts, "video", of_video // 2),
        resizing=replace(resizing, parts=2),
        sizing=AnyPixels(unit=_unit(facts), least_pixels=4096, frames=2),
    )
    return (
        image,
        replace(video, since=_LIMITS_QWEN3),
        *(
            replace(
                one,
                tokens=one.tokens * counted // 2,
                embeddings=one.tokens,
                since=since,
                until=until,
            )
            for one in _by_length(video)
            for counted, since, until in (
                (25, None, _COUNTS_QWEN3),
                (2, _COUNTS_QWEN3, _LIMITS_QWEN3),
            )
        ),
    )


def _by_length(video: MediaItem) -> tuple[MediaItem, MediaItem]:
    """Return the video of many small frames, and of two where there is less room.

    Two frames have 110 x 110 tokens, three would have 2 x 90 x 90.
    """
    two, three = 110 * 110, 2 * 90 * 90
    short = replace(
        video,
        tokens=two,
        patches=video.patches // video.tokens * two,
        inputs=video.inputs // video.tokens * two,
        for_lengths=range(three),
    )
    return short, replace(video, for_lengths=range(three, 1 << 62))


@if_known
def omni_items(facts: Facts) -> Items:
    """Return Qwen2-VL's images, and its videos as counted, with smaller frames.

    The processors of Qwen2.5-Omni and Qwen3-Omni shrink frames to the pixels of 768
    tokens, a square of 27 x 27.

    Source: vLLM 0.33.0 `models/qwen2_5_omni_thinker.py`
    Qwen2_5OmniThinkerProcessingInfo, `models/qwen3_omni_moe_thinker.py`
    Qwen3OmniMoeThinkerProcessingInfo; Transformers' Qwen2_5OmniProcessorKwargs,
    Qwen3OmniMoeProcessorKwargs (videos_kwargs).
    """
    side = isqrt(768)
    frames = _merged_patches(facts, "video", (side * _unit(facts)) ** 2)
    return tuple(
        replace(
            item,
            resizing=None,
            embeddings=frames.tokens,
            patches=frames.patches,
            inputs=frames.inputs,
        )
        if item.modality == "video"
        else replace(item, resizing=None)
        for item in qwen2_vl_items(facts)
    )


_COUNTS_MOST_FRAMES_OF_GLM = Change(
    since=(0, 26),
    what=(
        "The longest video of GLM-4.1V has 600 small frames. Before, frames were added "
        "while the next still fitted, and the first were as large as images."
    ),
    source="vLLM 0.25.0 `models/glm4_1v.py` Glm4vProcessingInfo",
)


@if_known
def glm4v_items(facts: Facts) -> Items:
    """Return 4,816,896 pixels, and videos of 47,040,000 over at most 600 frames.

    A pair of frames has 100 tokens when there are most of them.

    Source: vLLM 0.33.0 `models/glm4_1v.py` Glm4vProcessingInfo.
    """
    side = 78 * _unit(facts)  # a square of less than 4,816,896 pixels
    image = _merged_patches(facts, "image", side * side)
    video = replace(
        _merged_patches(facts, "video", 100 * _unit(facts) ** 2),
        most_parts=300,
        leaves_room=True,
        per_prompt=1,
        since=_COUNTS_MOST_FRAMES_OF_GLM,
    )
    pairs = replace(
        _merged_patches(facts, "video", 6000 * _unit(facts) ** 2),
        most_parts=5,
        leaves_room=True,
        per_prompt=1,
        until=_COUNTS_MOST_FRAMES_OF_GLM,
    )
    return (image, video, pairs)


@if_known
def ernie_vl_items(facts: Facts, temporal: int) -> Items:
    """Return 4,842,768 pixels, and videos counted as if their frames were as large.

    The processor makes frames of 937,664 pixels.

    Source: vLLM 0.33.0 `models/ernie45_vl.py` Ernie4_5_VLProcessingInfo; sizes of
    Transformers' Ernie4_5_VLMoeImageProcessor and Ernie4_5_VLMoeVideoProcessor.
    """
    side, of_frame = 78 * _unit(facts), 34 * _unit(facts)
    image = _merged_patches(facts, "image", side * side, frames=1)
    frame = _merged_patches(facts, "video", of_frame * of_frame, frames=1)
    video = replace(
        frame,
        tokens=image.tokens,
        embeddings=frame.tokens,
        patches=temporal * frame.patches,
        inputs=temporal * frame.inputs,
        most_parts=1_000_000,
        leaves_room=True,
    )
    return (image, video)


@if_known
def dots_items(facts: Facts) -> Items:
    """Return 11,289,600 pixels. Source: vLLM 0.33.0 `models/dots_ocr.py`."""
    return (_merged_patches(facts, "image", 11_289_600, frames=1),)


@if_known
def paddle_ocr_items(facts: Facts) -> Items:
    """Return 2,822,400 pixels. Source: vLLM 0.33.0 `models/paddleocr_vl.py`."""
    return (_merged_patches(facts, "image", 2_822_400, frames=1),)


@if_known
def muse_glimmer_items(facts: Facts) -> Items:
    """Return 4,096 tokens of an image, and a video of 96 frames: 144 of each pair.

    Source: vLLM 0.33.0 `models/muse_glimmer.py` MuseGlimmerProcessingInfo;
    Transformers' processors of the family.
    """
    patch = facts.integer("patch_size")
    pixels = 2 * RGB * patch**2
    image = MediaItem("image", 4096, patches=4 * 4096, inputs=4 * 4096 * pixels)
    video = MediaItem(
        "video", 144, patches=4 * 144, inputs=4 * 144 * pixels, most_parts=48
    )
    return (image, video)


@if_known
def minimax_m3_items(facts: Facts) -> Items:
    """Return 451,584 pixels, and videos of 500 frames of 602,112.

    Source: vLLM 0.33.0 `models/minimax_m3/common/mm_preprocess.py`
    MiniMaxM3VLProcessingInfo, `transformers_utils/processors/minimax_m3.py`.
    """
    sizes = facts.having(spatial_merge_size=2)
    image = _merged_patches(sizes, "image", 451_584)
    video = _merged_patches(sizes, "video", 602_112)
    return (image, replace(video, most_parts=250))


@if_known
def kimi_k25_items(facts: Facts) -> Items:
    """Return an image of 3,000 x 3,000 pixels, 16,384 patches at most before padding.

    Both sides shrink to 1,794 pixels, and grow to 65 times two patches of 14.

    Source: vLLM 0.33.0 `models/kimi_k25.py` KimiK25DummyInputsBuilder.
    """
    patches = (2 * 65) ** 2
    patch = facts.integer("patch_size")
    return (
        MediaItem(
            "vision_chunk",
            patches // 4,
            patches=patches,
            inputs=patches * RGB * patch**2,
        ),
    )


@if_known
def kimi_vl_items(facts: Facts) -> Items:
    """Return an image of 1,024 x 1,024 pixels, though larger ones may come.

    Source: vLLM 0.33.0 `models/kimi_vl.py` KimiVLDummyInputsBuilder, MaxImageTokenMeta.
    """
    rows, _columns = facts.pair("merge_kernel_size")
    sizing = PaddedPatches(patch=facts.integer("patch_size"), merged=rows)
    return (sizing.image(sizing.side, sizing.side),)


ENCODES_IN_TURNS = Change(
    since=(0, 22),
    what=(
        "Gemma 4's images and frames are encoded several in a turn. Before, one at a "
        "time."
    ),
    source=(
        "vLLM 0.33.0 `models/gemma4_mm.py` _process_image_input, _process_video_input"
    ),
)


@if_known
def gemma4_items(facts: Facts, image_tokens: int) -> Items:
    """Return an image, and a video of 32 frames of 70 tokens and 8 of text.

    Source: vLLM 0.33.0 `models/gemma4_mm.py` Gemma4ProcessingInfo.
    """
    pooled = 3 * 3
    inputs = pooled * RGB * facts.integer("patch_size") ** 2
    frames, tokens = 32, 70
    image = MediaItem(
        "image",
        image_tokens,
        patches=image_tokens * pooled,
        inputs=image_tokens * inputs,
        pieces=1,
        sizing=SoftTokens(),
    )
    video = MediaItem(
        "video",
        frames * (tokens + 2 + 6),
        embeddings=frames * tokens,
        patches=frames * tokens * pooled,
        inputs=frames * tokens * inputs,
        pieces=frames,
        sizing=Clip(frames=frames),
    )
    return (
        replace(image, since=ENCODES_IN_TURNS),
        replace(video, since=ENCODES_IN_TURNS),
        replace(image, sizing=None, until=ENCODES_IN_TURNS),
        replace(video, sizing=None, until=ENCODES_IN_TURNS),
    )


def _unit(facts: Facts) -> int:
    """Pixels along the side of a token."""
    return facts.integer("patch_size") * facts.integer("spatial_merge_size")


def _merged_patches(
    facts: Facts, modality: str, pixels: int, *, frames: int = 2
) -> MediaItem:
    """Return an item of this many pixels; an image counts as `frames` alike."""
    tokens = pixels // _unit(facts) ** 2
    patches = tokens * facts.integer("spatial_merge_size") ** 2
    return MediaItem(
        modality,
        tokens,
        patches=patches,
        inputs=patches * frames * RGB * facts.integer("patch_size") ** 2,
    )
