"""LFM2: short convolutions and attention."""

import pytest

from planner.errors import UnknownArchitecture
from planner.models.states import ShortConvolutionState
from tests.configs import architecture
from tests.hybrids import LFM2, parts

MIXERS = "state-space and linear attention"
LFM2_MOE = {
    **LFM2,
    "architectures": ["Lfm2MoeForCausalLM"],
    "model_type": "lfm2_moe",
    "layer_types": ["conv", "full_attention"],
    "num_dense_layers": 1,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 6,
}


def test_a_short_convolution_by_hand() -> None:
    """8 x 3 taps, in 24 x 8, out 8 x 8: 24 + 192 + 64 of 2 bytes."""
    assert 2 * (24 + 192 + 64) == parts(LFM2)[MIXERS]
    assert 2 * (24 + 192 + 64 + 8 + 24 + 8) == parts(LFM2, conv_bias=True)[MIXERS]
    (state,) = architecture(LFM2).layer_kinds[0].caches
    assert ShortConvolutionState(intermediate_size=8, conv_kernel=3) == state


def test_the_mlp_is_two_thirds_in_round_numbers() -> None:
    """2 x 12 / 3 = 8, a multiple of 4; unadjusted 12; block_ff_dim comes first."""
    assert 2 * 2 * 3 * 8 * 8 == parts(LFM2)["mlp"]
    plain = parts(LFM2, block_auto_adjust_ff_dim=False)
    assert 2 * 2 * 3 * 8 * 12 == plain["mlp"]
    assert 2 * 2 * 3 * 8 * 16 == parts(LFM2, block_ff_dim=24)["mlp"]
    larger = parts(LFM2, block_ffn_dim_multiplier=1.3)
    assert 2 * 2 * 3 * 8 * 12 == larger["mlp"]


def test_the_head_is_always_tied() -> None:
    """Whatever the config says."""
    assert "lm_head" not in parts(LFM2, tie_word_embeddings=False)


def test_experts_follow_the_dense_layers() -> None:
    """Layer 0: 3 x 8 x 12; layer 1: 4 x 3 x 8 x 6, router 4 x 8 and a float32 bias."""
    found = parts(LFM2_MOE)
    assert 2 * 3 * 8 * 12 == found["mlp"]
    assert 2 * 4 * 3 * 8 * 6 == found["experts"]
    assert 2 * 32 + 4 * 4 == found["router"]
    assert 2 * 32 == parts(LFM2_MOE, use_expert_bias=False)["router"]


def test_another_kind_of_layer_is_not_guessed() -> None:
    """Convolutions and full attention are known."""
    with pytest.raises(UnknownArchitecture, match="layer_types"):
        architecture(LFM2, layer_types=["mamba", "conv"])
