"""DeepSeek-VL2's and Kimi-VL's towers, and what an image becomes in them."""

import pytest

from planner.engine.layout import ParallelLayout
from planner.models.families.deepseek_vl2 import timm_siglip
from planner.models.families.facts import Facts
from planner.models.families.moonvit import moonvit_tower
from planner.models.families.towers.crops import PaddedPatches
from planner.models.families.towers.grids import Candidates, deepseek_vl2_items
from planner.models.layers import Module

SIZES = ((384, 384), (384, 768), (768, 384), (768, 768))


def _elements(modules: tuple[Module, ...], ranks: int = 1) -> int:
    layout = ParallelLayout(tensor_parallel_size=ranks)
    return sum(t.elements for m in modules for t in m.tensors(layout))


@pytest.mark.parametrize("ranks", [1, 2])
def test_mlps_alone_are_cut(ranks: int) -> None:
    """27 layers of attention, norms and an MLP, and a head with one of each.

    Attention is 4 x 1,152 x 1,152 with biases, an MLP 1,152 to 4,304 and back, of which
    a rank has its part but for the last bias.
    """
    attention, norm = 4 * (1152 * 1152 + 1152), 2 * 1152
    mlp = (2 * 1152 * 4304 + 4304) // ranks + 1152
    patches = 1152 * 3 * 14 * 14 + 1152 + 27 * 27 * 1152
    layers = 27 * (attention + 2 * norm + mlp)
    head = 1152 + norm + attention + mlp
    assert (
        _elements(tuple(timm_siglip("vision")), ranks) == patches + layers + norm + head
    )


def test_the_largest_size_has_most_tokens() -> None:
    """Tiles of 14 x 14 tokens and a mark a row: 2 x 2 of them, one more, and a mark."""
    (item,) = deepseek_vl2_items(Facts({"candidate_resolutions": SIZES}, ""))
    assert item.tokens == 14 * 15 + 28 * 29 + 1
    assert item.patches == 5 * 27 * 27


def test_an_image_goes_where_least_is_wasted() -> None:
    """Of 400 x 100 pixels both wide sizes keep all; the smaller one has less left."""
    item = Candidates(sizes=SIZES).image(400, 100)
    assert item.tokens == 14 * 15 + 14 * 29 + 1


def test_padding_makes_whole_tokens() -> None:
    """1,024 pixels are 36.6 tokens of 28: 37 x 37.

    They are 73 x 73 patches. Where 64 x 64 are the most, sides shrink to
    int(1,024 x 64 / 73) = 897 pixels: 33 x 33; where it is 4 x 4, to 56: 2 x 2.
    """
    wide = PaddedPatches(patch=14, merged=2, most=16_384).image(1024, 1024)
    usual = PaddedPatches(patch=14, merged=2).image(1024, 1024)
    small = PaddedPatches(patch=14, merged=2, most=16).image(1024, 1024)
    assert (wide.tokens, usual.tokens, small.tokens) == (37 * 37, 33 * 33, 4)


def test_moonvit_has_positions_and_blocks() -> None:
    """64 x 64 positions by default, two layers here, and a projector to width 8."""
    facts = Facts({"num_hidden_layers": 2}, "moonvit")
    block = 4 * 1152 * 1152 + 4 * 1152 + 2 * 1152 * 4304 + 4304 + 1152 + 4 * 1152
    patches = 1152 * 3 * 14 * 14 + 1152 + 64 * 64 * 1152
    wide = 4 * 1152
    projector = 2 * 1152 + wide * wide + wide + 8 * wide + 8
    expected = patches + 2 * block + 2 * 1152 + projector
    assert _elements(moonvit_tower(facts, 8).modules) == expected
