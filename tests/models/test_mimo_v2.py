"""MiMo-V2: keys wider than values, windows with sinks."""

from typing import Any

import pytest

from planner.engine.layout import ParallelLayout
from planner.errors import UnknownArchitecture
from planner.memory.weights import stage_weights
from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.mimo_v2 import read_mimo_v2

TINY: dict[str, Any] = {
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


def test_a_rank_with_several_packed_chunks_pads_each() -> None:
    """Four chunks of 192 key and 128 value rows: 384 rows each, as blocks have 128.

    On four ranks each has one chunk, and nothing is padded.
    """
    own = {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 192,
        "v_head_dim": 128,
    }
    changes = {**own, **{f"swa_{name}": count for name, count in own.items()}}
    packed = mimo(
        **changes,
        attention_projection_layout="fused_qkv",
        quantization_config={"weight_block_size": [128, 128]},
    )
    split = mimo(**changes)

    def rows(model: ModelArchitecture, ranks: int) -> int:
        (qkv,) = (m for m in model.layer_kinds[0].modules if "qkv_proj" in m.name)
        layout = ParallelLayout(tensor_parallel_size=ranks)
        return sum(t.elements for t in qkv.tensors(layout)) // TINY["hidden_size"]

    assert rows(split, 1) == 8 * 192 + 4 * (192 + 128)
    assert rows(packed, 1) == 8 * 192 + 4 * 384
    assert rows(packed, 2) == rows(packed, 1) // 2
    assert rows(packed, 4) == rows(split, 4)


def test_a_model_that_sees_is_not_read_as_one_of_text() -> None:
    """vLLM takes another class where there is a vision_config."""
    with pytest.raises(UnknownArchitecture, match="vision_config"):
        mimo(vision_config={"depth": 1})
