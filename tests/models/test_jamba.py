"""Jamba: Mamba with attention and experts in between."""

from planner.models.states import Mamba1State
from tests.configs import architecture
from tests.hybrids import JAMBA, parts

MIXERS = "state-space and linear attention"


def test_mamba_by_hand() -> None:
    """64 channels, time step rank 32 / 16 = 2, 3 states.

    Convolution 64 x 4 + 64 = 320, in 128 x 32 = 4,096, x 64 x (2 + 6) = 512,
    dt 64 x 2 + 64 = 192, out 32 x 64 = 2,048, D 64, norms
    2 + 3 + 3 = 8 of 2 bytes; A 64 x 3 of 4 bytes.
    """
    expected = 2 * (320 + 4096 + 512 + 192 + 2048 + 64 + 8) + 4 * 192
    assert expected == parts(JAMBA)[MIXERS]


def test_two_ranks_share_all_but_the_norms() -> None:
    """Half of each, and the norms of 8 whole."""
    halves = (320 + 4096 + 512 + 192 + 2048 + 64) // 2
    assert 2 * (halves + 8) + 4 * 96 == parts(JAMBA, ranks=2)[MIXERS]


def test_experts_and_attention_come_in_their_turns() -> None:
    """Layer 0 has experts, layer 1 attention; 4 x 3 x 32 x 16 and 3 x 32 x 16."""
    model = architecture(JAMBA)
    first, second = (model.layer_kinds[layer] for layer in model.layers)
    assert (Mamba1State(intermediate_size=64, state_size=3, conv_kernel=4),) == (
        first.caches
    )
    assert second.caches == model.attention_layers
    found = parts(JAMBA)
    assert 2 * 4 * 3 * 32 * 16 == found["experts"]
    assert 2 * 3 * 32 * 16 == found["mlp"]


def test_one_expert_is_an_mlp() -> None:
    """Both layers: 3 x 32 x 16 each."""
    assert 2 * 2 * 3 * 32 * 16 == parts(JAMBA, num_experts=1)["mlp"]
