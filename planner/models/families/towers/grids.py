"""Images cut into a grid that depends on their shape.

LLaVA-NeXT, Idefics 3 and SmolVLM, MiniCPM-V and Molmo; DeepSeek-VL2's, resized to
whichever of several sizes fits them best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from math import ceil, log
from math import inf as infinity
from typing import ParamSpec

from planner.errors import UnknownArchitecture
from planner.models.architecture import DummySizes, MediaItem
from planner.models.families.facts import Facts
from planner.models.families.towers.sizing import ByImage, BySides, scaled, within
from planner.values import frozen

Size = tuple[int, int]
"""Width and height, or columns and rows."""


def best_fit(sizes: tuple[Size, ...], image: Size) -> Size:
    """Return the size that keeps most of an image, then wastes least of its own.

    Source: vLLM 0.33.0 `transformers_utils/processors/deepseek_vl2.py`
    select_best_resolution, as in Transformers' image processors.
    """
    width, height = image

    def worth(size: Size) -> Size:
        scale = min(size[0] / width, size[1] / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        return kept, kept - size[0] * size[1]

    return max(sizes, key=worth)


@frozen
class PinPoints(BySides):
    """LLaVA-NeXT's images: tiles of the size that fits best, less its padding.

    Source: vLLM 0.33.0 `models/llava_next.py` LlavaNextProcessingInfo.
    """

    sizes: tuple[Size, ...]
    """Width and height of each."""
    side: int
    """Pixels along the side of a tile."""
    grid: int
    """Patches along it."""
    base: int
    """Tokens of the whole image."""

    @property
    def largest(self) -> Size:
        """The size with the most tokens, the first of equals."""
        return max(self.sizes, key=self.tokens)

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return the image of at most these sides."""
        image = within(sizes, self.largest)
        now = self._tiles(self.largest)
        tiled = scaled(item, self._tiles(image), now)
        return replace(tiled, tokens=self.tokens(image))

    def tokens(self, image: Size) -> int:
        """Return the tokens of an image: patches that are not padding, and row ends."""
        wide, high = best_fit(self.sizes, image)
        columns, rows = wide // self.side * self.grid, high // self.side * self.grid
        width, height = image
        if width / height > columns / rows:
            rows -= (rows - int(round(height * (columns / width), 7))) // 2 * 2
        else:
            columns -= (columns - int(round(width * (rows / height), 7))) // 2 * 2
        return rows * columns + rows + self.base

    def _tiles(self, image: Size) -> int:
        wide, high = best_fit(self.sizes, image)
        return (wide // self.side) * (high // self.side) + 1


@frozen
class Splits(BySides):
    """Idefics 3's images: the long side always has the same length, in this many tiles.

    The dummy image is a tile, and enlarged as any other.

    Source: vLLM 0.33.0 `models/idefics3.py` Idefics3DummyInputsBuilder; Transformers'
    Idefics3ImageProcessor get_number_of_image_patches.
    """

    side: int
    """Pixels along the side of a tile, max_image_size."""
    along: int = 4
    """Tiles along the long side, by `size` of the published processors."""

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return the image with the tiles of its shape."""
        width, height = within(sizes, (self.side, self.side))
        ratio = width / height
        length = self.along * self.side
        short = int(length / ratio) if ratio >= 1 else int(length * ratio)
        rows = ceil(max(short + short % 2, 1) / self.side)
        return scaled(item, self.along * rows + 1, self.along**2 + 1)


@frozen
class Slices(BySides):
    """MiniCPM-V's images: slices in the shape nearest to theirs, and the whole.

    The budget is counted from the largest image.

    Source: vLLM 0.33.0 `models/minicpmv.py` MiniCPMVProcessingInfo; the image processor
    that the checkpoints contain (get_sliced_grid).
    """

    side: int
    """Pixels of the dummy image, image_size, and of a slice."""
    most: int
    """Slices of the dummy image, by config.json."""
    limit: int
    """Slices of any image, by the processor's max_slice_nums."""
    keys: tuple[str, ...] = ("max_slice_nums",)
    is_counted: bool = False

    def processed(self, item: MediaItem, settings: Mapping[str, int]) -> MediaItem:
        """Return an image of at most as many slices as requested."""
        limit = settings.get("max_slice_nums", self.limit)
        sizing = replace(self, limit=limit)
        whole = (self.side, self.side * self.most)
        sized = scaled(item, sizing.count(whole), self.count(whole))
        return replace(sized, sizing=sizing)

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return the image with the slices of its shape."""
        whole = (self.side, self.side * self.most)
        image = within(sizes, whole)
        return scaled(item, self.count(image), self.count(whole))

    def count(self, image: Size) -> int:
        """Return slices, and the whole image as one more."""
        width, height = image
        wanted = min(ceil(width * height / self.side**2), self.limit)
        if wanted <= 1:
            return 1
        near = [n for n in range(wanted - 1, wanted + 2) if 1 < n <= self.limit]
        shapes = [(m, n // m) for n in near for m in range(1, n + 1) if n % m == 0]
        shape = log(width / height)
        columns, rows = min(shapes, key=lambda s: abs(shape - log(s[0] / s[1])))
        return columns * rows + 1


@frozen
class Overlaps(BySides):
    """Molmo's images: crops that share a margin, and the whole, pooled two by two.

    Source: vLLM 0.33.0 `models/molmo.py` MolmoProcessingInfo, select_tiling,
    get_num_patches; max_crops and margins of 4 patches as the checkpoints publish them.
    """

    side: int
    patch: int
    most: int = 12
    margin: int = 4

    @property
    def largest(self) -> Size:
        """The smallest of the images with the most tokens and line ends."""

        def tokens(image: Size) -> int:
            columns, rows = self._tiling(image)
            return (self._pooled(columns) + 1) * self._pooled(rows)

        return max(
            ((wide * self.side, high * self.side) for wide, high in self.shapes),
            key=tokens,
        )

    @property
    def shapes(self) -> tuple[Size, ...]:
        """Ways to lay crops, from one to the most of them."""
        counts = range(1, self.most + 1)
        shapes = ((m, n) for m in counts for n in counts if m * n <= self.most)
        return tuple(sorted(shapes, key=lambda shape: shape[0] * shape[1]))

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return the image with the crops of its shape."""
        columns, rows = self._tiling(within(sizes, self.largest))
        grid = self.side // self.patch
        tokens = (self._pooled(rows) * self._pooled(columns)) + (grid // 2) ** 2
        sized = scaled(item, rows * columns + 1, self.most + 1)
        return replace(sized, tokens=tokens)

    def _pooled(self, crops: int) -> int:
        """Return tokens along this many crops; those at the ends keep their margin."""
        grid = self.side // self.patch
        return (crops * (grid - 2 * self.margin) + 2 * self.margin) // 2

    def _tiling(self, image: Size) -> Size:
        """Return columns and rows: the least enlarging, or else the least shrinking."""
        margins = 2 * self.margin * self.patch
        unit = self.side - margins
        width, height = (side - margins for side in image)
        scales = [
            min(_ratio(rows * unit, height), _ratio(columns * unit, width))
            for rows, columns in self.shapes
        ]
        enlarging = [scale for scale in scales if scale >= 1]
        best = min(enlarging) if enlarging else max(scales)
        rows, columns = self.shapes[scales.index(best)]
        return columns, rows


def _ratio(new: int, old: int) -> float:
    return new / old if old else infinity


# What a config says of its images, where a model is read even if that is missing.
P = ParamSpec("P")
Items = tuple[MediaItem, ...]
RGB = 3


def if_known(reader: Callable[P, Items]) -> Callable[P, Items]:
    """Return nothing where a config lacks what the weights do not depend on."""

    @wraps(reader)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Items:
        try:
            return reader(*args, **kwargs)
        except (UnknownArchitecture, TypeError, ValueError, ArithmeticError):
            return ()

    return guarded


def sides(facts: Facts, name: str) -> tuple[int, int]:
    """Return height and width of what the config gives as one number or two."""
    value = facts.value(name)
    if isinstance(value, list | tuple):
        height, width = value
        return int(height), int(width)
    return facts.integer(name), facts.integer(name)


@frozen
class Candidates(ByImage):
    """Tiles of the size that fits best, and the whole image as one more.

    Source: vLLM 0.33.0 `models/deepseek_vl2.py` DeepseekVL2ProcessingInfo;
    `transformers_utils/processors/deepseek_vl2.py` select_best_resolution; patches of
    14 pixels, merged two by two, as the checkpoints publish them.
    """

    sizes: tuple[Size, ...]
    patch: int = 14
    merged: int = 2

    @property
    def largest(self) -> Size:
        """Width and height of the image with the most tokens, the first of equals."""
        sizes = [(width, height) for height, width in self.sizes]
        return max(sizes, key=lambda size: self.image(*size).tokens)

    def image(self, width: int, height: int) -> MediaItem:
        """Return an image on the tiles of its size."""
        side = self.sizes[0][0]
        wide, high = best_fit(self.sizes, (width, height))
        columns, rows = wide // side, high // side
        grid = -(-(side // self.patch) // self.merged)
        tiles = columns * rows + 1
        return MediaItem(
            modality="image",
            # Each row of tokens ends in a mark, with one more between both views.
            tokens=grid * (grid + 1) + rows * grid * (columns * grid + 1) + 1,
            patches=tiles * (side // self.patch) ** 2,
            inputs=tiles * RGB * side**2,
            sizing=self,
        )


@if_known
def deepseek_vl2_items(facts: Facts) -> Items:
    """Return the largest of the sizes that the config names."""
    sizes = tuple((int(a), int(b)) for a, b in facts.value("candidate_resolutions"))
    sizing = Candidates(sizes=sizes)
    return (sizing.image(*sizing.largest),)
