"""AFM, K-EXAONE and gpt-oss: windows and experts, on small models."""

from __future__ import annotations

from typing import Any

import planner
from planner.engine.layout import ParallelLayout
from planner.models.architecture import LayerKind
from planner.models.caches import AttentionLayer
from tests.configs import architecture as model
from tests.configs import gpu

AFM: dict[str, Any] = {
    "architectures": ["AfmoeForCausalLM"],
    "model_type": "afmoe",
    "torch_dtype": "bfloat16",
    "hidden_size": 256,
    "intermediate_size": 512,
    "moe_intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_dense_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "num_shared_experts": 1,
    "route_norm": True,
    "score_func": "sigmoid",
    "global_attn_every_n_layers": 4,
    "sliding_window": 128,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
K_EXAONE: dict[str, Any] = {
    **{name: AFM[name] for name in AFM if name not in ("num_dense_layers",)},
    "architectures": ["ExaoneMoEForCausalLM"],
    "model_type": "exaone_moe",
    "first_k_dense_replace": 1,
    "norm_topk_prob": True,
    "sliding_window_pattern": 2,
}
GPT_OSS: dict[str, Any] = {
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


def test_afm_sees_everything_every_fourth_layer() -> None:
    """Three layers look back 128 tokens, the fourth over everything."""
    assert [128, 128, 128, None] == _windows(AFM)


def test_afm_gates_the_output_of_attention() -> None:
    """A column-parallel matrix of 8 x 64 rows, 256 wide; half of it on two ranks."""
    first = _layers(AFM)[0]
    whole, half = ParallelLayout(), ParallelLayout(tensor_parallel_size=2)
    assert [512 * 256] == _elements(first, "self_attn.gate_proj", whole)
    assert [256 * 256] == _elements(first, "self_attn.gate_proj", half)


def test_afm_has_experts_after_its_dense_layers() -> None:
    """16 experts of w13 256 x 256 and w2 256 x 128 from the third layer."""
    found = [
        _elements(layer, "mlp.experts", ParallelLayout()) for layer in _layers(AFM)
    ]
    assert [[], []] == found[:2]
    assert 16 * (256 * 256 + 256 * 128) == sum(found[2][:2])


def test_k_exaone_takes_its_windows_from_the_pattern() -> None:
    """A pattern of 2: every second layer sees everything; layer_types go first."""
    assert [128, None, 128, None] == _windows(K_EXAONE)
    types = ["full_attention", "sliding_attention"] * 2
    assert [None, 128, None, 128] == _windows({**K_EXAONE, "layer_types": types})


def test_k_exaone_takes_its_sparse_layers_from_the_list() -> None:
    """first_k_dense_replace leaves layer 0 dense; mlp_layer_types go first."""
    assert [False, True, True, True] == _sparse(K_EXAONE)
    types = ["dense", "dense", "sparse", "dense"]
    assert [False, False, True, False] == _sparse(
        {**K_EXAONE, "mlp_layer_types": types}
    )


def _layers(config: dict[str, Any]) -> list[LayerKind]:
    made = model(config)
    return [made.layer_kinds[kind] for kind in made.layers]


def _windows(config: dict[str, Any]) -> list[int | None]:
    caches = [layer.caches[0] for layer in _layers(config)]
    return [c.sliding_window for c in caches if isinstance(c, AttentionLayer)]


def _sparse(config: dict[str, Any]) -> list[bool]:
    whole = ParallelLayout()
    return [bool(_elements(x, "mlp.experts", whole)) for x in _layers(config)]


def _elements(layer: LayerKind, name: str, layout: ParallelLayout) -> list[int]:
    return [
        tensor.elements
        for module in layer.modules
        if module.name == name
        for tensor in module.tensors(layout)
    ]


def test_every_other_layer_has_a_window_and_all_have_sinks() -> None:
    """Layers 0 and 2 look back 128 tokens, 1 and 3 over everything."""
    made = model(GPT_OSS)
    caches = [made.layer_kinds[kind].caches[0] for kind in made.layers]
    assert all(isinstance(c, AttentionLayer) and c.has_sinks for c in caches)
    assert [128, None, 128, None] == [
        c.sliding_window for c in caches if isinstance(c, AttentionLayer)
    ]


def test_attention_has_biases_and_sinks() -> None:
    """qkv 768 x 256 + 768, o 256 x 512 + 256, eight sinks; half of it on two ranks."""
    modules = model(GPT_OSS).layer_kinds[0].modules
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
    modules = model(GPT_OSS).layer_kinds[0].modules
    (experts,) = (m for m in modules if m.name == "mlp.experts")
    assert [16 * 256 * 256, 16 * 256 * 128, 16 * 256, 16 * 256] == [
        t.elements for t in experts.tensors(ParallelLayout())
    ]


def test_only_experts_are_quantised() -> None:
    """Four layers of 98,304 x 16 weights go from two bytes to 17/32."""
    plain, packed = (
        planner.plan(model({**GPT_OSS, **extra}), gpu(), kv_cache_memory_bytes=1 << 30)
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
