"""Images cut into a grid of their shape: LLaVA-NeXT, Idefics 3, MiniCPM-V, Molmo."""

import pytest

from planner.models.architecture import DummySizes, MediaItem
from planner.models.families.towers.grids import (
    Overlaps,
    PinPoints,
    Slices,
    Splits,
    best_fit,
)

PIN = PinPoints(
    sizes=((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008)),
    side=336,
    grid=24,
    base=576,
)


def _item(tokens: int, tiles: int) -> MediaItem:
    return MediaItem(modality="image", tokens=tokens, patches=tiles, inputs=tiles)


def test_padding_is_no_token_of_llava_next() -> None:
    """672 x 672: 48 rows of 48 and a line end. 300 x 500 lies on 336 x 672.

    It is 24 patches wide and 40 of 48 high: 8 rows of padding, half on either side.
    """
    assert PIN.largest == (672, 672)
    assert PIN.tokens((672, 672)) == 48 * 48 + 48 + 576
    assert best_fit(PIN.sizes, (300, 500)) == (336, 672)
    assert PIN.tokens((300, 500)) == 40 * 24 + 40 + 576


@pytest.mark.parametrize(
    ("sides", "tiles"), [((364, 364), 17), ((364, 100), 9), ((90, 300), 9)]
)
def test_idefics_enlarges_every_image(sides: tuple[int, int], tiles: int) -> None:
    """The long side is 1,456 pixels, four tiles; 100 of 364 are 400, two tiles."""
    whole = _item(17 * 169, 17)
    sizes = DummySizes(width=sides[0], height=sides[1])
    assert Splits(side=364).shrunk(whole, sizes).tokens == tiles * 169


def test_slices_of_minicpm_follow_the_shape() -> None:
    """448 x 4,032 has nine below each other; of at most four the four, of two two."""
    sizing = Slices(side=448, most=9, limit=9)
    whole = _item(10 * 64, 10)
    assert sizing.count((448, 9 * 448)) == 10
    assert sizing.processed(whole, {"max_slice_nums": 4}).tokens == 5 * 64
    assert sizing.processed(whole, {"max_slice_nums": 1}).tokens == 64
    assert sizing.shrunk(whole, DummySizes(height=448)).tokens == 64


def test_crops_of_molmo_overlap() -> None:
    """336 x 2,688: 12 crops of 16 new rows and 8 at the ends, 200, pooled to 100.

    An image of 336 x 400 has one crop: 12 x 12, as the whole once more.
    """
    sizing, whole = Overlaps(side=336, patch=14), _item(100 * 12 + 144, 13)
    assert sizing.largest == (336, 8 * 336)
    assert sizing.shrunk(whole, DummySizes()).tokens == 100 * 12 + 144
    assert sizing.shrunk(whole, DummySizes(height=336)).tokens == 2 * 144
