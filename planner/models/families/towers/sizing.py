"""What sizes of limit_mm_per_prompt and mm_processor_kwargs make of media items.

vLLM makes dummy items of the largest size, or of a smaller one where
limit_mm_per_prompt says so, and has the model's processor turn them into tokens. Some
classes count the budget from the largest size all the same.

Source: vLLM 0.33.0 `multimodal/processing/dummy_inputs.py` BaseDummyInputsBuilder,
`multimodal/encoder_budget.py` get_mm_max_toks_per_item.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, isqrt, sqrt

from planner.models.architecture import DummySizes, MediaItem
from planner.values import frozen

SOFT_TOKENS = (70, 140, 280, 560, 1120)
"""Tokens that an image of Gemma 4 may have."""
SIDES = ("width", "height")


def within(sizes: DummySizes, largest: tuple[int, int]) -> tuple[int, int]:
    """Return the width and height requested, as far as the largest image has them."""
    width, height = largest
    return min(sizes.width or width, width), min(sizes.height or height, height)


@frozen
class BySides:
    """What most sizings have in common: sides count, and the processor has no say."""

    keys: tuple[str, ...] = ()
    options: tuple[str, ...] = SIDES
    is_counted: bool = True

    def processed(self, item: MediaItem, settings: Mapping[str, int]) -> MediaItem:
        """Return the item as it is."""
        del settings
        return item

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return the item as it is."""
        del sizes
        return item


@frozen
class ByImage(BySides):
    """What makes an image of its sides alone."""

    most: int = 0
    """Pieces of an image, for which `keys` names the processor's setting."""

    @property
    def largest(self) -> tuple[int, int]:
        """Width and height of the largest image."""
        raise NotImplementedError

    def image(self, width: int, height: int) -> MediaItem:
        """Return an image of this size."""
        raise NotImplementedError

    def processed(self, item: MediaItem, settings: Mapping[str, int]) -> MediaItem:
        """Return the largest image of as many pieces as requested."""
        if not self.keys:
            return item
        sizing = replace(self, most=settings.get(self.keys[0], self.most))
        return sizing.image(*sizing.largest)

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return the image of at most these sides."""
        del item
        return self.image(*within(sizes, self.largest))


@frozen
class AnySize(BySides):
    """Items that the processor resizes to one size."""

    options: tuple[str, ...] = (*SIDES, "num_frames", "length")
    is_counted: bool = False


@frozen
class PaddedSound(BySides):
    """Sounds that the processor pads with silence, which yields no tokens.

    Source: vLLM 0.33.0 `models/qwen2_audio.py` _get_feat_extract_output_lengths.
    """

    hop: int = 160
    """Samples of a step of the spectrogram."""
    options: tuple[str, ...] = ("length",)
    is_counted: bool = False

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return the sound with the tokens of its length."""
        if sizes.length is None:
            return item
        halved = (sizes.length // self.hop - 1) // 2 + 1
        tokens = (halved - 2) // 2 + 1
        return replace(item, embeddings=max(0, min(item.tokens, tokens)))


@frozen
class AnyPixels(BySides):
    """Images and frames of Qwen-VL, whose sides are rounded to those of a token.

    Source: vLLM 0.33.0 `models/qwen2_vl.py` Qwen2VLDummyInputsBuilder; Transformers'
    smart_resize of its processors.
    """

    unit: int
    """Pixels along the side of a token."""
    least_pixels: int
    """Smaller images are enlarged to it."""
    frames: int = 1
    """Frames of a part, all of which count as its pixels."""
    heeds_frames: bool = False
    """Whether num_frames leaves fewer parts, of two frames each."""

    options: tuple[str, ...] = (*SIDES, "num_frames")
    is_counted: bool = False

    def processed(self, item: MediaItem, settings: Mapping[str, int]) -> MediaItem:
        """Return the item as it is: `Resizing` has taken max_pixels into account."""
        least = settings.get("min_pixels", self.least_pixels)
        return replace(item, sizing=replace(self, least_pixels=least))

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return an item of at most these sides and frames."""
        rows = next(n for n in range(isqrt(item.tokens), 0, -1) if not item.tokens % n)
        high, wide = rows * self.unit, item.tokens // rows * self.unit
        width, height = within(sizes, (wide, high))
        tokens = item.tokens
        if (height, width) != (high, wide):
            tokens = self._tokens(height, width)
        parts = item.most_parts
        if self.heeds_frames and sizes.num_frames is not None:
            parts = min(parts, -(-sizes.num_frames // 2))
        return replace(scaled(item, tokens, item.tokens), most_parts=parts)

    def _tokens(self, height: int, width: int) -> int:
        unit = self.unit
        rows, columns = round(height / unit), round(width / unit)
        if rows * columns * unit * unit * self.frames < self.least_pixels:
            growth = sqrt(self.least_pixels / (self.frames * height * width))
            rows, columns = ceil(height * growth / unit), ceil(width * growth / unit)
        return rows * columns


@frozen
class Clip(BySides):
    """A video counted with all its frames.

    Source: vLLM 0.33.0 `models/gemma4_mm.py` Gemma4ProcessingInfo.
    """

    frames: int
    options: tuple[str, ...] = (*SIDES, "num_frames")

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return the video with as many frames as requested, at most its own."""
        frames = min(self.frames, sizes.num_frames or self.frames)
        shorter = scaled(item, item.tokens * frames // self.frames, item.tokens)
        pieces = item.pieces and item.pieces * frames // self.frames
        return replace(shorter, pieces=pieces)


@frozen
class FrameByFrame(BySides):
    """A video of which each frame is a part of one size.

    Source: vLLM 0.33.0 `models/internvl.py` InternVLDummyInputsBuilder.
    """

    options: tuple[str, ...] = (*SIDES, "num_frames")

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return the video with at most as many frames as requested."""
        most = item.most_parts
        return replace(item, most_parts=min(most, sizes.num_frames or most))


@frozen
class SoftTokens(BySides):
    """Gemma 4's images, whose number of tokens is a setting.

    Source: vLLM 0.33.0 `models/gemma4_mm.py` _get_max_soft_tokens,
    _SUPPORTED_SOFT_TOKENS; the processor pads to it whatever the image's size is.
    """

    keys: tuple[str, ...] = ("max_soft_tokens",)
    is_counted: bool = False

    def processed(self, item: MediaItem, settings: Mapping[str, int]) -> MediaItem:
        """Return an image of as many tokens; the class ignores other numbers."""
        tokens = settings.get("max_soft_tokens")
        if tokens not in SOFT_TOKENS:
            return item
        return scaled(item, tokens, item.tokens)


@frozen
class PatchGrid(BySides):
    """Mistral's images: one token for each square, cut off ones among them.

    Source: vLLM 0.33.0 `models/pixtral.py` PixtralHFEncoderInfo.get_patch_grid_size,
    `models/mistral3.py` Mistral3DummyInputsBuilder.
    """

    side: int
    """Pixels along an image's longest side."""
    unit: int
    keys: tuple[str, ...] = ("longest_edge",)

    def processed(self, item: MediaItem, settings: Mapping[str, int]) -> MediaItem:
        """Return an image with the longest side that `size` requests."""
        side = settings.get("longest_edge", self.side)
        grid = -(-side // self.unit)
        resized = replace(item, sizing=replace(self, side=side), marks=grid)
        return scaled(resized, grid * grid, item.tokens)

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return an image of at most these sides."""
        width, height = within(sizes, (self.side, self.side))
        rows, columns = -(-height // self.unit), -(-width // self.unit)
        return replace(scaled(item, rows * columns, item.tokens), marks=rows)


@frozen
class Tiles(BySides):
    """InternVL's images: tiles in the shape nearest to theirs, and a small copy.

    Source: vLLM 0.33.0 `transformers_utils/processors/internvl.py`
    get_internvl_target_ratios, find_closest_aspect_ratio.
    """

    side: int
    """Pixels along the side of a tile."""
    least: int
    most: int
    has_copy: bool
    """Whether more than one tile come with a small copy of the whole."""
    keys: tuple[str, ...] = ("max_dynamic_patch", "min_dynamic_patch")

    def processed(self, item: MediaItem, settings: Mapping[str, int]) -> MediaItem:
        """Return an image of as many tiles as requested."""
        least = settings.get("min_dynamic_patch", self.least)
        most = settings.get("max_dynamic_patch", self.most)
        sizing = replace(self, least=least, most=most)
        tiles = scaled(item, sizing._count(most), self._count(self.most))
        return replace(tiles, sizing=sizing)

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return the image with the tiles that its sides make."""
        whole = self._shapes(self._count(self.most))
        wide, high = next((c, r) for c, r in whole if c * r == self.most)
        sides = within(sizes, (wide * self.side, high * self.side))
        columns, rows = self._nearest(*sides)
        now = self._count(self.most)
        return scaled(item, self._count(columns * rows), now)

    def _count(self, tiles: int) -> int:
        return tiles + int(self.has_copy and tiles > 1)

    def _shapes(self, most: int) -> list[tuple[int, int]]:
        """Return columns and rows of tiles, in the class's order."""
        shapes = {
            (columns, rows)
            for tiles in range(self.least, most + 1)
            for columns in range(1, tiles + 1)
            for rows in range(1, tiles + 1)
            if self.least <= columns * rows <= most
        }
        return sorted(shapes, key=lambda shape: shape[0] * shape[1])

    def _nearest(self, width: int, height: int) -> tuple[int, int]:
        best, least = (1, 1), float("inf")
        for shape in self._shapes(self.most):
            away = abs(width / height - shape[0] / shape[1])
            fills = width * height > 0.5 * self.side**2 * shape[0] * shape[1]
            if away < least or (away == least and fills):
                best, least = shape, away
        return best


@frozen
class Canvas(BySides):
    """Llama 4's images: tiles of the canvas that fits best, and the whole once more.

    Source: vLLM 0.33.0 `models/mllama4.py` Mllama4ProcessingInfo; Transformers'
    Llama4ImageProcessor get_best_fit.
    """

    side: int
    most: int
    keys: tuple[str, ...] = ("max_patches",)

    def processed(self, item: MediaItem, settings: Mapping[str, int]) -> MediaItem:
        """Return an image of as many tiles as requested, one below the other."""
        most = settings.get("max_patches", self.most)
        sized = scaled(item, _with_whole(most), _with_whole(self.most))
        return replace(sized, sizing=replace(self, most=most))

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return the image with the tiles of its canvas."""
        width, height = within(sizes, (self.side, self.most * self.side))
        tiles = _with_whole(self._fitting(height, width))
        return scaled(item, tiles, _with_whole(self.most))

    def _fitting(self, height: int, width: int) -> int:
        """Return the tiles of the canvas that needs the least enlarging."""
        shapes = [
            (rows, tiles // rows)
            for tiles in range(self.most, 0, -1)
            for rows in range(1, tiles + 1)
            if tiles % rows == 0
        ]
        scales = {
            shape: min(shape[0] * self.side / height, shape[1] * self.side / width)
            for shape in shapes
        }
        enlarging = [scale for scale in scales.values() if scale >= 1]
        best = min(enlarging) if enlarging else max(scales.values())
        return min(r * c for (r, c), scale in scales.items() if scale == best)


def _with_whole(tiles: int) -> int:
    return tiles + int(tiles > 1)


def scaled(item: MediaItem, new: int, old: int) -> MediaItem:
    """Return an item of this many tokens, or tiles, as against `old` of them."""
    embeddings = None if item.embeddings is None else item.embeddings * new // old
    return replace(
        item,
        tokens=item.tokens * new // old,
        patches=item.patches * new // old,
        inputs=item.inputs * new // old,
        embeddings=embeddings,
    )
