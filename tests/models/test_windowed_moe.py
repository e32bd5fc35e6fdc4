"""Arcee's AFM and K-EXAONE: windows and experts, on small models."""

from __future__ import annotations

from typing import Any

from planner.engine.layout import ParallelLayout
from planner.models.architecture import LayerKind
from planner.models.caches import AttentionLayer
from tests.configs import architecture as model

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
