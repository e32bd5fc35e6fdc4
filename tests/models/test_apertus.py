"""Apertus: an MLP without a gate whose activation learns two scalars."""

from planner.engine.layout import ParallelLayout
from planner.memory.weights import stage_weights
from tests.configs import architecture

TINY = {
    "architectures": ["ApertusForCausalLM"],
    "model_type": "apertus",
    "torch_dtype": "bfloat16",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "vocab_size": 64,
    "max_position_embeddings": 32,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "attention_bias": False,
    "tie_word_embeddings": False,
}


def test_each_layer_holds_four_scalars_of_its_activation() -> None:
    """Two learned and two fixed ones beside up and down.

    A layer in bfloat16: qkv (2 + 2) x 4 x 8 = 128, out 64, up and down 2 x 16 x 8 =
    256, four scalars, norms of queries and keys 2 x 4, of the layer 2 x 8: 476.
    Embeddings and head 2 x 64 x 8, norm 8, rotary table 32 x 4; four scales of 4 bytes
    a layer.
    """
    (stage,) = stage_weights(architecture(TINY), ParallelLayout(), "bfloat16")
    elements = 2 * 476 + 2 * 512 + 8 + 128
    assert 2 * elements + 2 * 16 == stage.weights_bytes
