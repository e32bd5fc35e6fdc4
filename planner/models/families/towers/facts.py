"""What a config says of its images, where a model is read even if that is missing.

Also DeepSeek-VL2's images, resized to whichever of several sizes fits them best.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from planner.errors import UnknownArchitecture
from planner.models.architecture import DummySizes, MediaItem
from planner.models.families.facts import Facts
from planner.models.families.towers.grids import Size, best_fit
from planner.models.families.towers.sizing import BySides
from planner.values import frozen

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
class Candidates(BySides):
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

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return the image of at most these sides."""
        del item
        width, height = self.largest
        return self.image(
            min(sizes.width or width, width), min(sizes.height or height, height)
        )

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
