"""What recurrent layers keep of a request, on one rank."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import Refused
from planner.models.states import (
    GatedDeltaNetState,
    KimiDeltaAttentionState,
    LinearAttentionState,
    Mamba1State,
    Mamba2State,
    Role,
    ShortConvolutionState,
    State,
    StateLayer,
    held_groups,
)

QWEN3_NEXT = GatedDeltaNetState(
    num_k_heads=16, num_v_heads=32, head_k_dim=128, head_v_dim=128, conv_kernel=4
)
NEMOTRON = Mamba2State(
    intermediate_size=8192,
    n_groups=8,
    num_heads=128,
    head_dim=64,
    state_size=128,
    conv_kernel=4,
)


def sizes(layer: StateLayer, ranks: int) -> tuple[int, ...]:
    """Elements of each state on a rank."""
    return tuple(state.elements for state in layer.states(ranks))


def test_a_gated_delta_net_keeps_its_last_inputs_and_a_matrix_per_head() -> None:
    """(2 x 16 + 32) x 128 = 8,192 channels x 3 inputs; 32 heads x 128 x 128."""
    assert (
        State(8192 * 3, Role.CONVOLUTION),
        State(32 * 128 * 128, Role.RECURRENCE),
    ) == QWEN3_NEXT.states(1)
    assert (2048 * 3, 8 * 128 * 128) == sizes(QWEN3_NEXT, 4)


def test_ranks_that_do_not_divide_the_heads_are_refused() -> None:
    """32 value heads on 64 ranks."""
    with pytest.raises(Refused, match="32 is not divisible by 64"):
        QWEN3_NEXT.states(64)


def test_mamba_2_convolves_its_groups_too() -> None:
    """8,192 + 2 x 8 groups x 128 = 10,240 channels; 128 heads of 64 x 128."""
    assert (10240 * 3, 128 * 64 * 128) == sizes(NEMOTRON, 1)
    assert (5120 * 3, 64 * 64 * 128) == sizes(NEMOTRON, 2)


def test_groups_that_the_ranks_do_not_divide_are_held_once_each() -> None:
    """One group on 4 ranks: (8,192 + 2 x 4 x 128) / 4 = 2,304 channels a rank."""
    one_group = Mamba2State(
        intermediate_size=8192,
        n_groups=1,
        num_heads=128,
        head_dim=64,
        state_size=128,
        conv_kernel=4,
    )
    assert 2304 * 3 == sizes(one_group, 4)[0]


def test_mamba_1_keeps_a_row_per_channel() -> None:
    """8,192 channels: 3 inputs and 16 states each, halved on two ranks."""
    jamba = Mamba1State(intermediate_size=8192, state_size=16, conv_kernel=4)
    assert (8192 * 3, 8192 * 16) == sizes(jamba, 1)
    assert (4096 * 3, 4096 * 16) == sizes(jamba, 2)


def test_kimi_delta_attention_keeps_float32_unless_told() -> None:
    """3 x 32 x 128 = 12,288 channels x 3 inputs; 32 heads x 128 x 128."""
    kimi = KimiDeltaAttentionState(num_heads=32, head_dim=128)
    assert (12288 * 3, 32 * 128 * 128) == sizes(kimi, 1)
    assert "float32" == kimi.recurrent_dtype


def test_kimi_delta_attention_may_have_fewer_keys() -> None:
    """(8 x 64 + 2 x 4 x 32) = 768 channels x 3; the matrix is as wide as its values."""
    layer = KimiDeltaAttentionState(
        num_heads=8, head_dim=64, num_k_heads=4, head_k_dim=32
    )
    assert (768 * 3, 8 * 64 * 64) == sizes(layer, 1)


def test_a_short_convolution_keeps_its_last_inputs_alone() -> None:
    """2,048 channels x (3 - 1) inputs."""
    assert (2048 * 2,) == sizes(
        ShortConvolutionState(intermediate_size=2048, conv_kernel=3), 1
    )


def test_linear_attention_keeps_a_square_per_head_of_the_cache_dtype() -> None:
    """32 heads on 4 ranks: 8 x 128 x 128, which no SSM dtype changes."""
    layer = LinearAttentionState(num_heads=32, head_dim=128)
    assert (State(8 * 128 * 128, Role.CONVOLUTION),) == layer.states(4)


@given(n_groups=st.integers(1, 64), ranks=st.integers(1, 64))
def test_groups_are_held_evenly(n_groups: int, ranks: int) -> None:
    """Every rank holds as many groups; all of them where the ranks divide them."""
    held = held_groups(n_groups, ranks)
    assert 0 == held % ranks
    assert held == n_groups or n_groups % ranks
