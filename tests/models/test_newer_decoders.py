"""Decoders of vLLM 0.33.0's registry, each with what is its own, worked by hand.

`tests/models/test_registry_answers.py` holds the whole against vLLM's answers.
"""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.errors import PlannerError, Refused, UnknownArchitecture
from planner.memory.weights import stage_weights
from planner.models.architecture import LayerKind
from planner.models.caches import AttentionLayer
from tests.configs import architecture
from tests.hybrids import parts

# Where no model_type of Transformers is the model's, Llama's stands for it.
TINY: dict[str, Any] = {
    "torch_dtype": "bfloat16",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 1000,
    "max_position_embeddings": 100,
    "tie_word_embeddings": False,
}
MIXED = ["sliding_attention", "full_attention"] * 2
BAILING: dict[str, Any] = {
    **TINY,
    "architectures": ["BailingMoeV2ForCausalLM"],
    "model_type": "llama",
    "moe_intermediate_size": 32,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "num_shared_experts": 1,
    "first_k_dense_replace": 1,
    "use_qk_norm": True,
    "use_rmsnorm": True,
    "moe_router_enable_expert_bias": True,
    "norm_topk_prob": True,
}
LAGUNA: dict[str, Any] = {
    **TINY,
    "architectures": ["LagunaForCausalLM"],
    "model_type": "laguna",
    "gating": True,
    "layer_types": MIXED,
    "sliding_window": 32,
    "num_attention_heads_per_layer": [4, 8, 4, 8],
    "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}
STEP3: dict[str, Any] = {
    **TINY,
    "architectures": ["Step3TextForCausalLM"],
    "model_type": "step3_text",
    "share_q_dim": 48,
    "moe_num_experts": 4,
    "moe_top_k": 2,
    "moe_intermediate_size": 32,
    "share_expert_dim": 32,
    "norm_expert_weight": True,
    "moe_layers_enum": "2,3",
}
LOOPED: dict[str, Any] = {
    **TINY,
    "architectures": ["IQuestLoopCoderForCausalLM"],
    "model_type": "llama",
    "head_dim": 8,
    "loop_num": 2,
    "loop_window_size": 64,
}


def _layers(config: dict[str, Any], **changes: object) -> list[LayerKind]:
    made = architecture(config, **changes)
    return [made.layer_kinds[kind] for kind in made.layers]


def _attention(layer: LayerKind) -> list[AttentionLayer]:
    return [cache for cache in layer.caches if isinstance(cache, AttentionLayer)]


def _elements(layer: LayerKind, name: str, ranks: int = 1) -> int:
    layout = ParallelLayout(tensor_parallel_size=ranks)
    return sum(
        tensor.elements
        for module in layer.modules
        if module.name == name
        for tensor in module.tensors(layout)
    )


def test_ling_has_experts_after_its_first_layers() -> None:
    """4 experts of 3 x 64 x 32 and as much shared; the first layer is 3 x 64 x 128."""
    found = parts(BAILING)
    assert 3 * 4 * 3 * 64 * 32 * 2 == found["experts"]
    assert 3 * 3 * 64 * 32 * 2 == found["shared experts"]
    assert 3 * 64 * 128 * 2 == found["mlp"]


def test_ling_without_a_dense_layer_has_none() -> None:
    """first_k_dense_replace: 0."""
    assert "mlp" not in parts(BAILING, first_k_dense_replace=0)


def test_cohere_2_moe_looks_one_token_further_and_ties_its_head() -> None:
    """Its window does not count the token itself."""
    config = {
        **TINY,
        "architectures": ["Cohere2MoeForCausalLM"],
        "model_type": "cohere2_moe",
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 32,
        "layer_types": MIXED,
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    }
    caches = [_attention(layer)[0] for layer in _layers(config)]
    assert [33, None, 33, None] == [cache.sliding_window for cache in caches]
    assert "lm_head" not in parts(config)


def test_laguna_has_more_heads_where_it_sees_everything() -> None:
    """Four heads in a window and eight without; the gate has a column for each."""
    layers = _layers(LAGUNA)
    assert [4, 8, 4, 8] == [_attention(layer)[0].num_heads for layer in layers]
    gates = [_elements(layer, "self_attn.g_proj") for layer in layers]
    assert [4 * 64, 8 * 64, 4 * 64, 8 * 64] == gates


def test_a_gate_by_element_has_a_column_for_each_value() -> None:
    """Eight heads of 16; half of them on two ranks."""
    layer = _layers(LAGUNA, gating="per-element")[1]
    assert 8 * 16 * 64 == _elements(layer, "self_attn.g_proj")
    assert 8 * 16 * 64 // 2 == _elements(layer, "self_attn.g_proj", 2)


def test_layer_types_that_laguna_does_not_have_are_named() -> None:
    """No window is guessed."""
    with pytest.raises(UnknownArchitecture, match="layer_types"):
        architecture(LAGUNA, layer_types=["chunked_attention"] * 4)


def test_step_3_narrows_its_queries_and_keeps_one_head() -> None:
    """48 for the queries, 16 each for the one key and value, then 48 x 128."""
    layer = _layers(STEP3)[0]
    assert (48 + 16 + 16) * 64 == _elements(layer, "self_attn.qkv_proj")
    assert 48 * 8 * 16 == _elements(layer, "self_attn.wq")
    assert 1 == _attention(layer)[0].num_kv_heads


def test_step_3_lists_its_layers_with_experts() -> None:
    """The third and the fourth, from 0."""
    assert 2 * 4 * 3 * 64 * 32 * 2 == parts(STEP3)["experts"]
    assert 2 * 3 * 64 * 128 * 2 == parts(STEP3)["mlp"]


def test_a_looped_model_keeps_a_window_for_each_later_turn() -> None:
    """The same weights twice: all tokens the first time, then the last 64."""
    first = _layers(LOOPED)[0]
    windows = [cache.sliding_window for cache in _attention(first)]
    assert [None, 64] == windows
    assert not architecture(LOOPED).supports_pp


def test_dory_is_for_one_rank_of_tensor_parallelism() -> None:
    """vLLM's class refuses to divide it."""
    config = {
        **TINY,
        "architectures": ["DoryForCausalLM"],
        "model_type": "dory",
        "layer_types": ["full_attention", "mlp", "full_attention", "mlp"],
        "n_input_layers": 2,
        "n_recurrent_layers": 2,
        "n_recurrent_loops": 3,
    }
    model = architecture(config)
    layout = ParallelLayout(tensor_parallel_size=2)
    with pytest.raises((PlannerError, Refused)):
        stage_weights(model, layout, "bfloat16")
    caches = [len(layer.caches) for layer in _layers(config)]
    assert [1, 0, 3, 0] == caches


def test_openpangu_has_two_more_norms_where_configured() -> None:
    """Four layers with two and four norms of 64, and the final one."""
    config = {
        **TINY,
        "architectures": ["PanguEmbeddedForCausalLM"],
        "model_type": "llama",
        "head_dim": None,
    }
    plain = parts(config)["norms"]
    sandwiched = parts(config, sandwich_norm=True)["norms"]
    assert (4 * 2 + 1) * 64 * 2 == plain
    assert 4 * 2 * 64 * 2 == sandwiched - plain


def test_openpangu_holds_keys_and_values_as_sinks() -> None:
    """On each of 4 layers 128 keys of 24 and values of 16, for 2 KV heads."""
    config = {
        **TINY,
        "architectures": ["PanguEmbeddedForCausalLM"],
        "model_type": "llama",
        "param_sink_number": 128,
        "qk_nope_dim": 16,
        "qk_rope_dim": 8,
        "v_channels": 16,
    }
    size, heads, kv_heads = 64, 8, 2
    qkv = size * (heads * 24 + kv_heads * (24 + 16))
    output = heads * 16 * size
    sinks = kv_heads * 128 * (24 + 16)
    assert 4 * (qkv + output + sinks) * 2 == parts(config)["attention"]


def test_a_release_that_does_not_serve_sinks_is_named() -> None:
    """It plans as vLLM measures, and says how its start ends."""
    config = {
        **TINY,
        "architectures": ["PanguEmbeddedForCausalLM"],
        "model_type": "llama",
        "param_sink_number": 128,
        "qk_nope_dim": 16,
        "qk_rope_dim": 8,
        "v_channels": 16,
    }
    plan = planner.plan(architecture(config), gpu="H100")
    assert plan.error is not None
    assert ("not_served", True) == (plan.error.kind, plan.num_gpu_blocks > 0)
    assert "needs_kv_cache_zeroing" in plan.error.message


def test_a_field_that_is_missing_is_named_with_what_to_do() -> None:
    """A copy of config.json may lack it: the published file, or the field."""
    config = {key: value for key, value in STEP3.items() if key != "vocab_size"}
    with pytest.raises(UnknownArchitecture, match=r"published with.* add vocab_size"):
        architecture(config)
