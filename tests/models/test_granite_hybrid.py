"""Granite 4: Mamba 2 and attention, with experts or a shared MLP."""

import pytest

from planner.errors import UnknownArchitecture
from tests.configs import architecture
from tests.hybrids import GRANITE_HYBRID, parts

MIXERS = "state-space and linear attention"


def test_a_layer_of_each_kind_by_hand() -> None:
    """16 channels, 2 groups of 3: convolution (16 + 12) x 5 = 140, in 48 x 8 = 384.

    Out 128, norm 16, D and time steps 8 of 2 bytes; A 4 of 4 bytes. Attention
    (2 + 2) x 4 x 8 + 8 x 8 = 192.
    """
    found = parts(GRANITE_HYBRID)
    assert 2 * (140 + 384 + 128 + 16 + 8) + 16 == found[MIXERS]
    assert 2 * 192 == found["attention"]


def test_every_layer_has_experts_and_a_shared_mlp() -> None:
    """4 x 3 x 8 x 6 = 576 and 3 x 8 x 10 = 240 in each of 2 layers."""
    found = parts(GRANITE_HYBRID)
    assert 2 * 2 * 576 == found["experts"]
    assert 2 * 2 * 240 == found["shared experts"]


def test_without_experts_the_shared_mlp_is_the_mlp() -> None:
    """The dense ones of the family."""
    found = parts(GRANITE_HYBRID, num_local_experts=0)
    assert 2 * 2 * 240 == found["mlp"]
    assert not architecture(GRANITE_HYBRID, num_local_experts=0).is_moe


def test_positions_are_rotated_only_where_the_config_says_rope() -> None:
    """10 positions x 4 of 2 bytes beside 4 scales of 4 bytes."""
    assert 16 == parts(GRANITE_HYBRID)["buffers"]
    rotated = parts(GRANITE_HYBRID, position_embedding_type="rope")
    assert 16 + 80 == rotated["buffers"]


def test_layers_without_names_are_recurrent_and_others_are_not_guessed() -> None:
    """No list means Mamba throughout; a window is none of this family's."""
    assert architecture(GRANITE_HYBRID, layer_types=None).is_attention_free
    with pytest.raises(UnknownArchitecture, match="layer_types"):
        architecture(GRANITE_HYBRID, layer_types=["sliding_attention"] * 2)
