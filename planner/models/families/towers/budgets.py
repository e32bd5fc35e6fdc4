"""Images and videos of GLM-5.3-Flash, whose sizes follow from a budget of tokens."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from math import ceil, prod

from planner.models.architecture import MediaItem
from planner.models.families.facts import Facts
from planner.models.families.towers.grids import RGB, Items, if_known

_IMAGE = (80, 100)
"""Rows and columns of tokens: 8,000 as the most nearly square rectangle of them."""
_SIDE = 28
"""Pixels of a token: it has no effect but that of rounding."""
_OF_VIDEO = 30_000
"""vLLM's own limit; the processor's is 240,000."""
_FRAMES = 64
"""Of 600 that vLLM tries: the best of more are few tokens better."""
_ANY_LENGTH = 1 << 62
_PAIRS, _TOKENS_OF_A_TIME = 320, 6
"""Marks of time in the longest video, whose tokens depend on the tokeniser."""


@if_known
def glm5_next_items(facts: Facts) -> Items:
    """Return 8,000 tokens of an image, and the video of most for each length.

    vLLM rounds an odd number of frames to an even number of pairs when it fits them
    into the budget, and then pads them, so that 9 frames have more tokens than it: for
    lengths of 37,345 tokens and more.

    Source: vLLM 0.33.0 `models/glm5next/common/multimodal.py` Glm5NextProcessingInfo,
    `models/glm4_1v.py` Glm4vProcessingInfo; Transformers 5.20
    Glm5NextImageProcessor, Glm5NextVideoProcessor.
    """
    height, width = _IMAGE
    counted = _OF_VIDEO + _PAIRS * _TOKENS_OF_A_TIME + 2
    return (
        _item(facts, "image", height * width, height * width),
        *(
            _item(facts, "video", counted, tokens, lengths=lengths)
            for tokens, lengths in _videos()
        ),
    )


@cache
def _videos() -> tuple[tuple[int, range], ...]:
    """Return each video's tokens with the lengths for which most of them fit."""
    tokens = sorted({_video_tokens(frames) for frames in range(1, _FRAMES + 1)})
    starts, ends = [0, *tokens[1:]], [*tokens[1:], _ANY_LENGTH]
    return tuple(zip(tokens, map(range, starts, ends), strict=True))


def _video_tokens(frames: int) -> int:
    """Return the tokens of a video of the largest image's shape.

    Source: Transformers 5.20 `models/glm5_next/image_processing_glm5_next.py`
    smart_resize.
    """
    # Python rounds halves to even numbers, as the processor does.
    pairs = max(1, round(frames / 2))
    height, width = _IMAGE
    if pairs * height * width > _OF_VIDEO:
        height, width = _within(_OF_VIDEO // pairs)
    return ceil(frames / 2) * height * width


def _within(tokens: int) -> tuple[int, int]:
    """Return the largest rectangle of the image's shape that has no more tokens."""
    heights = range(1, _IMAGE[0] * _SIDE + 1)
    fitting = bisect_right(heights, tokens, key=lambda pixels: prod(_grid(pixels)))
    return _grid(max(fitting, 1))


def _grid(pixels: int) -> tuple[int, int]:
    """Return the rows and columns of tokens of the image's shape, so many pixels high.

    Source: as `_video_tokens`.
    """
    height, width = _IMAGE
    return ceil(pixels / _SIDE), ceil(max(1, width * pixels // height) / _SIDE)


def _item(
    facts: Facts,
    modality: str,
    counted: int,
    tokens: int,
    *,
    lengths: range | None = None,
) -> MediaItem:
    patches = tokens * facts.integer("spatial_merge_size") ** 2
    times, patch = facts.integers("temporal_patch_size", "patch_size")
    return MediaItem(
        modality,
        counted,
        patches=patches,
        inputs=patches * times * RGB * patch**2,
        embeddings=tokens,
        for_lengths=lengths,
    )
