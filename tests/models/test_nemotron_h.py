"""Nemotron-H: one mixer, attention, MLP or block of experts to a layer."""

import pytest

from planner.errors import Refused, UnknownArchitecture
from planner.models.states import Mamba2State
from tests.configs import architecture
from tests.hybrids import NEMOTRON_H, parts

MIXERS = "state-space and linear attention"


def test_mamba_2_by_hand() -> None:
    """8 channels, 2 groups of 3.

    Convolution (8 + 6 + 6) x 4 with a bias = 100, in (2 x 8 + 12 + 4) x 8 = 256,
    out 8 x 8 = 64, norm 8, D and time steps 8 of 2 bytes; A 4 of 4 bytes.
    """
    assert 2 * (100 + 256 + 64 + 8 + 8) + 16 == parts(NEMOTRON_H)[MIXERS]


def test_ranks_divide_heads_and_groups() -> None:
    """Two ranks hold half of everything."""
    assert parts(NEMOTRON_H)[MIXERS] // 2 == parts(NEMOTRON_H, ranks=2)[MIXERS]


def test_one_group_is_repeated_on_each_rank() -> None:
    """Two ranks with a group of 3 each.

    Convolution (4 + 3 + 3) x 5 = 50, in (2 x 4 + 6 + 2) x 8 = 128, out 32, norm 4, D
    and time steps 4 of 2 bytes; A 2 of 4 bytes.
    """
    found = parts(NEMOTRON_H, ranks=2, n_groups=1)[MIXERS]
    assert 2 * (50 + 128 + 32 + 4 + 4) + 8 == found


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mamba_num_heads": 6}, "must divide num heads"),
        ({"n_groups": 2}, "num_groups must equal 1"),
    ],
)
def test_ranks_that_divide_neither_are_refused(
    changes: dict[str, object], message: str
) -> None:
    """Four ranks on 6 heads; four on 2 groups."""
    with pytest.raises(Refused, match=message):
        parts(NEMOTRON_H, ranks=4, **changes)


def test_experts_have_no_gate() -> None:
    """4 experts x 2 x 8 x 6 = 384; one shared 2 x 8 x 10 = 160; no MLP gate either."""
    found = parts(NEMOTRON_H)
    assert 2 * 384 == found["experts"]
    assert 2 * 160 == found["shared experts"]
    assert 2 * 2 * 8 * 16 == found["mlp"]
    assert 2 * 4 * 8 + 4 * 4 == found["router"]


def test_latent_experts_live_in_a_narrower_space() -> None:
    """4 x 2 x 4 x 6 = 192, and two projections of 8 x 4."""
    assert 2 * (192 + 64) == parts(NEMOTRON_H, moe_latent_size=4)["experts"]


def test_a_list_of_layers_says_the_same_as_the_pattern() -> None:
    """Transformers writes layers_block_type, older checkpoints the pattern."""
    listed = {k: v for k, v in NEMOTRON_H.items() if k != "hybrid_override_pattern"}
    layers = ["linear_attention", "mlp", "full_attention", "moe"]
    assert architecture(listed, layers_block_type=layers).layers == (
        architecture(NEMOTRON_H).layers
    )
    assert parts(listed, layers_block_type=layers) == parts(NEMOTRON_H)


def test_an_unknown_letter_is_not_guessed() -> None:
    """X stands for nothing."""
    with pytest.raises(UnknownArchitecture, match="hybrid_override_pattern"):
        architecture(NEMOTRON_H, hybrid_override_pattern="MX")


def test_mlps_may_differ_by_layer() -> None:
    """Widths 16 and 4: 2 x 8 x 20 of 2 bytes."""
    found = parts(NEMOTRON_H, hybrid_override_pattern="M--*", intermediate_size=[16, 4])
    assert 2 * 2 * 8 * 20 == found["mlp"]


def test_the_state_is_float32_unless_the_config_says_otherwise() -> None:
    """vLLM's own default for this family."""
    state = architecture(NEMOTRON_H).layer_kinds[0].caches[0]
    assert isinstance(state, Mamba2State)
    assert "float32" == state.recurrent_dtype
    told = architecture(NEMOTRON_H, mamba_ssm_cache_dtype="float16")
    assert "float16" == told.layer_kinds[0].caches[0].recurrent_dtype  # type: ignore[union-attr]
