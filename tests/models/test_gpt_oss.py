"""gpt-oss: sinks, biases and windows, on a small model."""

from __future__ import annotations

from typing import Any

import planner
from planner.engine.layout import ParallelLayout
from planner.models.caches import AttentionLayer
from tests.configs import architecture as model
from tests.configs import gpu

SMALL: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "torch_dtype": "bfloat16",
    "hidden_size": 256,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_local_experts": 16,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "original_max_position_embeddings": 128,
    },
}
MXFP4 = {"quantization_config": {"quant_method": "mxfp4"}}


def test_every_other_layer_has_a_window_and_all_have_sinks() -> None:
    """Layers 0 and 2 look back 128 tokens, 1 and 3 over everything."""
    made = model(SMALL)
    caches = [made.layer_kinds[kind].caches[0] for kind in made.layers]
    assert all(isinstance(c, AttentionLayer) and c.has_sinks for c in caches)
    assert [128, None, 128, None] == [
        c.sliding_window for c in caches if isinstance(c, AttentionLayer)
    ]


def test_attention_has_biases_and_sinks() -> None:
    """qkv 768 x 256 + 768, o 256 x 512 + 256, eight sinks; half of it on two ranks."""
    modules = model(SMALL).layer_kinds[0].modules
    found = {m.name: m.tensors(ParallelLayout()) for m in modules}
    halves = {
        m.name: m.tensors(ParallelLayout(tensor_parallel_size=2)) for m in modules
    }
    assert [768 * 256, 768] == [t.elements for t in found["attn.qkv_proj"]]
    assert [256 * 512, 256] == [t.elements for t in found["attn.o_proj"]]
    assert [8] == [t.elements for t in found["attn.sinks"]]
    assert [4] == [t.elements for t in halves["attn.sinks"]]


def test_unquantised_experts_have_biases() -> None:
    """w13 256 rows of 256, w2 256 of 128, biases of 256 each, 16 times."""
    modules = model(SMALL).layer_kinds[0].modules
    (experts,) = (m for m in modules if m.name == "mlp.experts")
    assert [16 * 256 * 256, 16 * 256 * 128, 16 * 256, 16 * 256] == [
        t.elements for t in experts.tensors(ParallelLayout())
    ]


def test_only_experts_are_quantised() -> None:
    """Four layers of 98,304 x 16 weights go from two bytes to 17/32."""
    plain, packed = (
        planner.plan(model({**SMALL, **extra}), gpu(), kv_cache_memory_bytes=1 << 30)
        for extra in ({}, MXFP4)
    )
    assert "gpt_oss_mxfp4" == packed.resolved.quantization
    parts = [
        {part.name: part.size_bytes for part in made.ranks[0].weight_parts}
        for made in (plain, packed)
    ]
    assert parts[0]["attention"] == parts[1]["attention"]
    assert parts[0]["router"] == parts[1]["router"]
    # Triton on H100: w13 256 rows of 8 groups, w2 256 rows of 4; biases in 32 bits.
    expert = 98304 // 2 + 256 * 8 + 256 * 4 + 512 * 4
    assert 4 * 16 * expert == parts[1]["experts"]
