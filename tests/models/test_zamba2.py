"""Zamba 2: shared transformer blocks beside Mamba 2."""

from planner.models.caches import AttentionLayer
from planner.models.states import Mamba2State
from tests.configs import architecture
from tests.hybrids import ZAMBA2, parts

MIXERS = "state-space and linear attention"


def test_hybrid_layers_keep_keys_values_and_a_state() -> None:
    """Heads are twice as wide as usual: 2 x 8 / 2 = 8."""
    kinds = architecture(ZAMBA2).layer_kinds
    assert [Mamba2State] == [type(cache) for cache in kinds[0].caches]
    attention, state = kinds[1].caches
    assert AttentionLayer(num_heads=2, num_kv_heads=2, head_size=8) == attention
    assert isinstance(state, Mamba2State)


def test_mamba_is_in_every_layer() -> None:
    """16 channels, 2 groups of 3: convolution 28 x 5, in 48 x 8, out 128, norm 16.

    D and time steps 8 of 2 bytes, A 4 of 4 bytes; three layers.
    """
    expected = 2 * (140 + 384 + 128 + 16 + 8) + 16
    assert 3 * expected == parts(ZAMBA2)[MIXERS]


def test_blocks_are_shared_and_projections_are_not() -> None:
    """QKV (2 + 2 x 2) heads x 8 x 16 = 768, out 128, once; linear 8 x 8 twice."""
    assert 2 * (768 + 128 + 2 * 64) == parts(ZAMBA2)["attention"]
    two = parts(ZAMBA2, num_mem_blocks=2)["attention"]
    assert 2 * (2 * (768 + 128) + 2 * 64) == two


def test_each_hybrid_layer_has_adapters() -> None:
    """MLP 3 x 8 x 12 once, adapters (8 + 24) x 4 twice; of attention only if asked."""
    assert 2 * (288 + 2 * 128) == parts(ZAMBA2)["mlp"]
    adapted = parts(ZAMBA2, use_shared_attention_adapter=True)["attention"]
    assert 2 * 2 * 3 * (16 + 16) * 4 == adapted - parts(ZAMBA2)["attention"]


def test_a_long_context_is_16384_positions() -> None:
    """Of 8 rotated values of 2 bytes, beside 4 scales in each hybrid layer."""
    assert 32 + 10 * 16 == parts(ZAMBA2, use_mem_rope=True)["buffers"]
    long = architecture(ZAMBA2, use_mem_rope=True, use_long_context=True)
    assert 16384 == long.max_position_embeddings
    found = parts(ZAMBA2, use_mem_rope=True, use_long_context=True)
    assert 32 + 16384 * 16 == found["buffers"]


def test_without_a_list_54_layers_follow_the_published_pattern() -> None:
    """Nine hybrid layers among them."""
    silent = {k: v for k, v in ZAMBA2.items() if k != "layers_block_type"}
    model = architecture(silent, num_hidden_layers=54)
    assert 54 == model.num_hidden_layers
    assert 9 == model.layers.count(1)
    assert not model.supports_pp
