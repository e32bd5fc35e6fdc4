"""MiMo-V2: keys wider than values, windows with sinks."""

import pytest

from planner.engine.layout import ParallelLayout
from planner.errors import UnknownArchitecture
from planner.memory.weights import stage_weights
from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.mimo_v2 import read_mimo_v2

TINY = {
    "num_hidden_layers": 2,
    "hybrid_layer_pattern": [0, 1],
    "moe_layer_freq": [0, 1],
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 6,
    "v_head_dim": 4,
    "swa_num_attention_heads": 2,
    "swa_num_key_value_heads": 2,
    "swa_head_dim": 6,
    "swa_v_head_dim": 4,
    "sliding_window_size": 16,
    "add_swa_attention_sink_bias": True,
    "intermediate_size": 16,
    "moe_intermediate_size": 4,
    "n_routed_experts": 2,
    "num_experts_per_tok": 1,
    "norm_topk_prob": True,
    "max_position_embeddings": 32,
    "rope_theta": 5000,
    "swa_rope_theta": 100,
    "vocab_size": 64,
    "torch_dtype": "bfloat16",
}


def mimo(**changes: object) -> ModelArchitecture:
    """Return a tiny MiMo-V2 with some fields replaced."""
    label = Label(name="tiny", architecture="MiMoV2FlashForCausalLM")
    return read_mimo_v2(Facts({**TINY, **changes}, "mimo_v2_flash"), label)


def test_layers_with_a_window_have_sinks_and_heads_of_their_own() -> None:
    """The pattern's 1 means a window."""
    full, window = mimo().attention_layers
    assert (None, 1, 6, 4, False) == (
        full.sliding_window,
        full.num_kv_heads,
        full.head_size,
        full.head_size_v,
        full.has_sinks,
    )
    assert (16, 2, True) == (
        window.sliding_window,
        window.num_kv_heads,
        window.has_sinks,
    )


def test_values_narrower_than_keys_make_the_output_narrower_too() -> None:
    """The output reads as many columns as the values have.

    Elements in bfloat16:

    full layer: qkv (2 x 6 + 6 + 4) x 8 = 176, out 8 x 8 = 64, MLP 3 x 16 x 8 = 384;
    window: qkv (2 x 6 + 2 x 6 + 2 x 4) x 8 = 256, out 64, sinks 2, experts
    2 x 3 x 4 x 8 = 192; norms 2 x 16 + 8; embeddings and head 2 x 64 x 8; two rotary
    tables of 32 x 6. Router 2 x 8 and its bias 2, scales 2 x 4, in float32.
    """
    elements = 176 + 64 + 384 + 256 + 64 + 2 + 192 + 40 + 1024 + 2 * 192
    (stage,) = stage_weights(mimo(), ParallelLayout(), "bfloat16")
    assert 2 * elements + 4 * (16 + 2 + 8) == stage.weights_bytes


def test_one_frequency_is_one_table() -> None:
    """32 x 6 elements less."""
    (two,) = stage_weights(mimo(), ParallelLayout(), "bfloat16")
    same = mimo(swa_rope_theta=5000)
    (one,) = stage_weights(same, ParallelLayout(), "bfloat16")
    assert 2 * 192 == two.weights_bytes - one.weights_bytes


def test_projections_in_one_piece_are_not_modelled() -> None:
    """Their rows are padded in a way of their own."""
    with pytest.raises(UnknownArchitecture, match="attention_projection_layout"):
        mimo(attention_projection_layout="fused_qkv")
