"""Granite 4 and Falcon-H1: Mamba 2 and attention, in turns or in every layer."""

import pytest

from planner.errors import UnknownArchitecture
from planner.models.caches import AttentionLayer
from planner.models.states import Mamba2State
from tests.configs import architecture
from tests.hybrids import FALCON_H1, GRANITE_HYBRID, parts

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


def test_each_layer_keeps_keys_values_and_a_state() -> None:
    """In this order."""
    (kind,) = architecture(FALCON_H1).layer_kinds
    assert [AttentionLayer, Mamba2State] == [type(cache) for cache in kind.caches]


def test_both_branches_by_hand() -> None:
    """Mamba as Nemotron's but without a norm; attention (4 + 2 x 2) x 4 x 8 + 16 x 8.

    Convolution 100, in 256, out 64, D and time steps 8 of 2 bytes; A 4 of 4 bytes.
    """
    found = parts(FALCON_H1)
    assert 2 * (2 * (100 + 256 + 64 + 8) + 16) == found[MIXERS]
    assert 2 * 2 * (256 + 128) == found["attention"]
    assert 2 * 2 * 3 * 8 * 16 == found["mlp"]


def test_multipliers_are_a_buffer() -> None:
    """2 x 8 + 2 x 6 + 4 = 32 of 2 bytes and 4 scales a layer; 10 positions x 4."""
    assert 2 * (2 * 32 + 16) + 10 * 4 * 2 == parts(FALCON_H1)["buffers"]


def test_a_norm_is_there_where_the_config_asks() -> None:
    """8 values of 2 bytes in each of 2 layers."""
    more = parts(FALCON_H1, mamba_rms_norm=True)[MIXERS] - parts(FALCON_H1)[MIXERS]
    assert 2 * 2 * 8 == more


def test_the_width_follows_from_the_hidden_size_where_it_is_null() -> None:
    """2 x 8 = 16 channels, so heads of 4."""
    state = architecture(FALCON_H1, mamba_d_ssm=None).layer_kinds[0].caches[1]
    assert isinstance(state, Mamba2State)
    assert (16, 4) == (state.intermediate_size, state.head_dim)
