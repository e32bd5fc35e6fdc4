"""Olmo Hybrid: gated delta nets beside attention with wide norms."""

import pytest

from planner.errors import UnknownArchitecture
from planner.models.states import GatedDeltaNetState
from tests.configs import architecture
from tests.hybrids import OLMO_HYBRID, parts

MIXERS = "state-space and linear attention"


def test_sizes_follow_from_the_attention_where_the_config_is_silent() -> None:
    """2 heads; keys of 0.75 x 16 / 2 = 6, values of 12; FlashInfer saves no states."""
    expected = GatedDeltaNetState(
        num_k_heads=2,
        num_v_heads=2,
        head_k_dim=6,
        head_v_dim=12,
        conv_kernel=4,
        exports_checkpoints=False,
    )
    assert (expected,) == architecture(OLMO_HYBRID).layer_kinds[0].caches
    told = architecture(OLMO_HYBRID, linear_key_head_dim=4).layer_kinds[0].caches[0]
    assert isinstance(told, GatedDeltaNetState)
    assert (4, 8) == (told.head_k_dim, told.head_v_dim)


def test_a_gated_delta_net_by_hand() -> None:
    """Keys 12, values 24: qkvg 72 x 16, b and a 2 x 16 each, convolution 48 x 4.

    Time steps and A 4, norm 12, out 24 x 16 of 2 bytes, in three of four layers.
    """
    values = 1152 + 64 + 192 + 4 + 12 + 384
    assert 3 * 2 * values == parts(OLMO_HYBRID)[MIXERS]


def test_norms_of_query_and_key_are_whole_on_every_rank() -> None:
    """Two of 16 in the layer with attention, two in all 4, and the last one."""
    for ranks in (1, 2):
        assert 2 * 16 * (2 + 8 + 1) == parts(OLMO_HYBRID, ranks)["norms"]


def test_positions_are_rotated_unless_the_config_says_null() -> None:
    """10 positions x 8 of 2 bytes beside 4 scales."""
    assert 16 + 160 == parts(OLMO_HYBRID)["buffers"]
    assert 16 == parts(OLMO_HYBRID, rope_parameters={"rope_theta": None})["buffers"]


def test_every_fourth_layer_attends_and_at_least_the_last() -> None:
    """Four layers: three and one; two layers: one and one."""
    assert (0, 0, 0, 1) == architecture(OLMO_HYBRID).layers
    assert (0, 1) == architecture(OLMO_HYBRID, num_hidden_layers=2).layers
    with pytest.raises(UnknownArchitecture, match="layer_types"):
        architecture(OLMO_HYBRID, layer_types=["conv"] * 4)
