"""mm_processor_kwargs: the sizes of media items, and their number of tiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isqrt

from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings
from planner.errors import PlannerError, UnknownArchitecture
from planner.memory.media.towers import is_of, served_towers
from planner.models.architecture import MediaItem, ModelArchitecture, Resizing

_PIXELS = ("max_pixels", "min_pixels")
_TILES = (
    "max_dynamic_patch",
    "min_dynamic_patch",
    "max_patches",
    "max_soft_tokens",
    "dynamic_hd",
    "num_crops",
    "in_token_limit",
    "max_slice_nums",
)
_EDGES = {"longest_edge": "max_pixels", "shortest_edge": "min_pixels"}
_WITHOUT_EFFECT = ("fps", "use_fast", "do_normalize", "do_rescale", "do_convert_rgb")
"""The profile run's items have a fixed number of frames, whatever their rate."""
_MOST_ASPECT = 200
"""The processors refuse more extreme aspect ratios."""
_MOST_PIXELS = 1 << 32
"""More than any image has; a larger number would take too long to search."""
_FINDS_RECTANGLES = Change(
    since=(0, 13),
    what=(
        "With max_pixels, the largest image is the rectangle with the most tokens. "
        "Before, the largest square."
    ),
    source=(
        "vLLM 0.12.0 and 0.33.0 `models/qwen2_vl.py` get_image_size_with_most_features"
    ),
)
_RESIZES_ITEMS = Change(
    since=(0, 13),
    what=(
        "Sizes in mm_processor_kwargs determine the largest items as from 0.13.0, the "
        "oldest release whose way is modelled."
    ),
)
_SIZES_BY_EDGES = Change(
    since=(0, 17),
    what=(
        "size in mm_processor_kwargs sets the pixels of Qwen-VL's images and videos "
        "by longest_edge and shortest_edge."
    ),
)


def size_settings(settings: EngineSettings) -> tuple[tuple[str, int], ...]:
    """Return the settings that determine sizes, as names and numbers.

    The edges of `size` count as the pixels that Qwen-VL's processors take them for.
    What is no possible number is left out: `check_pixels` refuses it where it counts.
    """
    given = settings.mm_processor_kwargs or {}
    found = {name: given[name] for name in (*_PIXELS, *_TILES) if name in given}
    size = given.get("size")
    edges: Mapping[str, int] = size if isinstance(size, Mapping) else {}
    for edge, name in _EDGES.items():
        if edge in edges:
            found[edge] = edges[edge]
            found.setdefault(name, edges[edge])
    return tuple((name, n) for name, n in found.items() if _is_possible(n))


def resized(
    item: MediaItem, requested: Mapping[str, int], release: Release
) -> MediaItem:
    """Return the largest item that mm_processor_kwargs allows.

    Source: vLLM 0.33.0 `models/qwen2_vl.py` get_image_size_with_most_features;
    `models/qwen3_vl.py` get_max_video_tokens.
    """
    if item.sizing is not None and requested:
        item = item.sizing.processed(item, requested)
    max_pixels = requested.get("max_pixels")
    if max_pixels is None or item.resizing is None:
        return item
    find = most_tokens if release.has(_FINDS_RECTANGLES) else square_tokens
    tokens = find(item.resizing, max_pixels)
    return replace(
        item,
        tokens=tokens,
        patches=item.patches // item.tokens * tokens,
        inputs=item.inputs // item.tokens * tokens,
    )


def most_tokens(resizing: Resizing, max_pixels: int) -> int:
    """Return the most tokens of a rectangle of at most `max_pixels` pixels.

    >>> most_tokens(Resizing(token_pixels=28**2, least_pixels=0, most_pixels=0), 10**6)
    1275
    """
    tokens = max_pixels // resizing.parts // resizing.token_pixels
    return next((n for n in range(tokens, 0, -1) if _is_rectangle(n)), 0)


def square_tokens(resizing: Resizing, max_pixels: int) -> int:
    """Return the tokens of the largest square, which older releases search for.

    >>> square_tokens(Resizing(token_pixels=784, least_pixels=0, most_pixels=0), 10**6)
    1225
    """
    return isqrt(max_pixels // resizing.parts // resizing.token_pixels) ** 2


def _is_rectangle(tokens: int) -> bool:
    """Whether the most square rectangle of so many tokens has a valid aspect ratio."""
    height = next(side for side in range(isqrt(tokens), 0, -1) if tokens % side == 0)
    return tokens // height <= _MOST_ASPECT * height


def check_pixels(
    settings: EngineSettings, model: ModelArchitecture, release: Release
) -> None:
    """Leave out entries of mm_processor_kwargs that are not modelled.

    For text-only models vLLM ignores them, and where the encoders are disabled the plan
    does not depend on them.

    Raises:
        PlannerError: for impossible numbers.
        UnknownArchitecture: for other keys, models or releases.
    """
    requested = settings.mm_processor_kwargs
    towers = served_towers(model, settings)
    if not requested or not towers:
        return
    _check_numbers(requested)
    items = [item for tower in towers for item in tower.items if is_of(item, release)]
    for name in requested:
        if name in _WITHOUT_EFFECT:
            continue
        if not any(_understands(item, name, release) for item in items):
            raise UnknownArchitecture(
                f"mm_processor_kwargs: its key {name!r} is not modelled with "
                f"{model.architecture} and vLLM {release.version}. Modelled are "
                "max_pixels, min_pixels and size for Qwen2-VL and Qwen2.5-VL, and from "
                "vLLM 0.32.0 on Qwen3-VL and Qwen3.5; max_dynamic_patch and "
                "min_dynamic_patch for InternVL, max_patches for Llama 4, "
                "max_soft_tokens for Gemma 4, size for Mistral 3, dynamic_hd for "
                "Phi-4-multimodal, num_crops for Phi-3-vision, in_token_limit for "
                "Kimi-VL, and max_slice_nums for MiniCPM-V. Leave it out."
            )
    numbers = dict(size_settings(settings))
    _check_range(numbers.get("min_pixels"), numbers.get("max_pixels"), items)
    least, most = (numbers.get(f"{end}_dynamic_patch") for end in ("min", "max"))
    if least is not None and most is not None and least > most:
        raise PlannerError(
            f"mm_processor_kwargs: min_dynamic_patch={least} is more than "
            f"max_dynamic_patch={most}."
        )


def understood_keys(model: ModelArchitecture, release: Release) -> tuple[str, ...]:
    """Return the keys that determine sizes and are modelled for a model's items."""
    items = [i for tower in model.towers for i in tower.items if is_of(i, release)]
    return tuple(
        name
        for name in (*_PIXELS, *_TILES, "longest_edge")
        if any(_understands(item, name, release) for item in items)
    )


def _understands(item: MediaItem, name: str, release: Release) -> bool:
    keys = item.sizing.keys if item.sizing is not None else ()
    if name in keys or (name == "size" and "longest_edge" in keys):
        return release.has(_RESIZES_ITEMS)
    if item.resizing is None:
        return False
    since = item.resizing.since
    if since is not None and not release.has(since):
        return False
    return name in _PIXELS or (name == "size" and release.has(_SIZES_BY_EDGES))


def _check_numbers(requested: Mapping[str, object]) -> None:
    size = requested.get("size")
    edges = size if isinstance(size, Mapping) else {}
    if size is not None and (not edges or not set(edges) <= set(_EDGES)):
        raise PlannerError(
            f"mm_processor_kwargs: size={size!r}: longest_edge and shortest_edge are "
            "needed."
        )
    for name, value in {**requested, **edges}.items():
        if name not in (*_PIXELS, *_TILES, *_EDGES):
            continue
        if not _is_possible(value):
            raise PlannerError(
                f"mm_processor_kwargs: {name}={value!r} must be a whole number from 1 "
                f"to {_MOST_PIXELS:,}."
            )


def _is_possible(value: object) -> bool:
    return type(value) is int and 1 <= value <= _MOST_PIXELS


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
        if not low <= largest:
            raise UnknownArchitecture(
                f"mm_processor_kwargs: images of at least {low:,} and at most "
                f"{pixels:,} pixels are not modelled; max_pixels from min_pixels, or "
                f"{resizing.least_pixels:,}, on is."
            )
