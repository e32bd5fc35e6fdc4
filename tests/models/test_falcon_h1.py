"""Falcon-H1: attention and Mamba 2 in every layer."""

from planner.models.caches import AttentionLayer
from planner.models.states import Mamba2State
from tests.configs import architecture
from tests.hybrids import FALCON_H1, parts

MIXERS = "state-space and linear attention"


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
