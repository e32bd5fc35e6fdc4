"""How large images may be: max_pixels and min_pixels of mm_processor_kwargs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import isqrt

from planner.engine import EngineSettings
from planner.errors import PlannerError, UnknownArchitecture
from planner.memory.towers import built_towers
from planner.model import MediaItem, ModelArchitecture, Resizing
from planner.releases import Release

_KNOWN = ("max_pixels", "min_pixels")
_MOST_ASPECT = 200
"""Wider images are refused by the processors."""


def asked_pixels(settings: EngineSettings) -> int | None:
    """Return max_pixels as asked; None where it is not given."""
    return (settings.mm_processor_kwargs or {}).get("max_pixels")


def resized(item: MediaItem, max_pixels: int | None) -> MediaItem:
    """Return the largest item that `max_pixels` leaves.

    Source: vLLM 0.33.0 `models/qwen2_vl.py` get_image_size_with_most_features;
    `models/qwen3_vl.py` get_max_video_tokens.
    """
    if max_pixels is None or item.resizing is None:
        return item
    tokens = most_tokens(item.resizing, max_pixels)
    return replace(
        item,
        tokens=tokens,
        patches=item.patches // item.tokens * tokens,
        inputs=item.inputs // item.tokens * tokens,
    )


def most_tokens(resizing: Resizing, max_pixels: int) -> int:
    """Return the most tokens that make a rectangle of no more than so many pixels.

    >>> most_tokens(Resizing(token_pixels=28**2, least_pixels=0, most_pixels=0), 10**6)
    1275
    """
    tokens = max_pixels // resizing.parts // resizing.token_pixels
    return next((n for n in range(tokens, 0, -1) if _is_rectangle(n)), 0)


def _is_rectangle(tokens: int) -> bool:
    """Whether the sides nearest to a square are not too far apart."""
    height = next(side for side in range(isqrt(tokens), 0, -1) if tokens % side == 0)
    return tokens // height <= _MOST_ASPECT * height


def check_pixels(
    settings: EngineSettings, model: ModelArchitecture, release: Release
) -> None:
    """Leave out what is not modelled of mm_processor_kwargs.

    Raises:
        PlannerError: for numbers of pixels that cannot be.
        UnknownArchitecture: for other keys, models or releases.
    """
    asked = settings.mm_processor_kwargs
    if not asked or (model.towers and not built_towers(model, settings)):
        return
    for name, value in asked.items():
        if name in _KNOWN and (type(value) is not int or value < 1):
            raise PlannerError(
                f"mm_processor_kwargs: {name}={value!r} must be a whole number from 1."
            )
    items = [item for tower in built_towers(model, settings) for item in tower.items]
    unknown = [name for name in asked if name not in _KNOWN]
    current = [item for item in items if item.resizing is not None]
    if unknown or not current or not release.since(0, 33):
        what = f"its key {unknown[0]!r}" if unknown else f"with {model.architecture}"
        raise UnknownArchitecture(
            f"mm_processor_kwargs: {what} and vLLM {release.version} is not modelled. "
            f"{' and '.join(_KNOWN)} are, for Qwen2-VL, Qwen2.5-VL, Qwen3-VL and "
            "Qwen3.5 from vLLM 0.33.0 on. Leave mm_processor_kwargs out."
        )
    _check_range(asked.get("min_pixels"), asked.get("max_pixels"), current)


def _check_range(
    least: int | None, most: int | None, items: Iterable[MediaItem]
) -> None:
    """Leave out pixels that would enlarge the largest image.

    Raises:
        UnknownArchitecture: naming the range that is modelled.
    """
    for item in items:
        resizing = item.resizing
        if resizing is None or resizing.parts > 1:
            continue
        low = resizing.least_pixels if least is None else least
        pixels = resizing.most_pixels if most is None else most
        largest = most_tokens(resizing, pixels) * resizing.token_pixels
        if not low <= largest or pixels > resizing.most_pixels:
            raise UnknownArchitecture(
                f"mm_processor_kwargs: images of at least {low:,} and at most "
                f"{pixels:,} pixels are not modelled; max_pixels from min_pixels, or "
                f"{resizing.least_pixels:,}, to {resizing.most_pixels:,} is."
            )
