"""Mamba, Falcon Mamba and Mamba 2, states and nothing else, and Jamba."""

from planner import plan
from planner.models.states import Mamba1State
from tests.configs import architecture
from tests.hybrids import JAMBA, MAMBA, MAMBA2, parts

MIXERS = "state-space and linear attention"
# 64 channels, rank 2, 3 states: convolution 320, in 4,096, x 512, dt 192, out 2,048, D.
MAMBA_VALUES = 320 + 4096 + 512 + 192 + 2048 + 64


def test_mamba_by_hand() -> None:
    """As Jamba's layer but without norms; the head is tied by default."""
    found = parts(MAMBA)
    assert 2 * (2 * MAMBA_VALUES + 4 * 64 * 3) == found[MIXERS]
    assert "lm_head" not in found
    assert 64 * 32 * 2 == parts(MAMBA, tie_word_embeddings=False)["lm_head"]


def test_falcon_mamba_keeps_norms_of_ones() -> None:
    """2 + 3 + 3 more values of 2 bytes in each of 2 layers."""
    falcon = {**MAMBA, "model_type": "falcon_mamba"}
    falcon["architectures"] = ["FalconMambaForCausalLM"]
    assert 2 * 2 * 8 == parts(falcon)[MIXERS] - parts(MAMBA)[MIXERS]


def test_a_time_step_rank_of_its_own_wins() -> None:
    """x 64 x (5 + 6) and dt 64 x 5 + 64 instead of rank 2."""
    more = parts(MAMBA, time_step_rank=5)[MIXERS] - parts(MAMBA)[MIXERS]
    assert 2 * 2 * (64 * 3 + 64 * 3) == more


def test_mamba_2_by_hand() -> None:
    """8 channels, 2 groups of 3: convolution 100, in (16 + 12 + 4) x 4 = 128.

    Out 8 x 4 = 32, norm 8, D and time steps 8 of 2 bytes; A 4 of 4 bytes.
    """
    assert 2 * (2 * (100 + 128 + 32 + 8 + 8) + 16) == parts(MAMBA2)[MIXERS]
    assert not architecture(MAMBA2).supports_pp


def test_a_request_keeps_one_state_of_all_layers() -> None:
    """64 x 3 + 64 x 3 values of 2 bytes in each of 2 layers: 1,536 bytes a block.

    vLLM does not keep states for other requests unless it is asked to, and knows no
    length of its own, so it takes 2,048 tokens.
    """
    found = plan(architecture(MAMBA), "L4", num_gpu_blocks_override=300)
    assert found.fits
    assert [("MambaSpec", 2, 2048, 768)] == [
        (g.kind, g.num_layers, g.block_size, g.page_size_bytes) for g in found.kv_groups
    ]
    assert 1 == found.blocks_per_request
    asked = plan(architecture(MAMBA), "L4", enable_prefix_caching=True)
    assert 2 == asked.blocks_per_request
    assert 16 == asked.kv_groups[0].block_size


def test_decode_context_parallel_stops_without_heads() -> None:
    """vLLM divides by their number."""
    found = plan(
        architecture(MAMBA),
        "L4",
        tensor_parallel_size=2,
        decode_context_parallel_size=2,
    )
    assert found.error is not None
    assert "ZeroDivisionError" in found.error.message


def test_jambas_mamba_by_hand() -> None:
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
