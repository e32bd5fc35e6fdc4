"""MiniMax-M3: sparse layers with an indexer, and what they keep."""

from __future__ import annotations

from typing import Any

import pytest

from planner import plan
from planner.engine.layout import ParallelLayout
from planner.errors import UnknownArchitecture
from planner.models.families.minimax_m3 import (
    ChosenBlocks,
    QKVParallelLinearWithIndexer,
)
from planner.models.layers import Module, QKVParallelLinear
from planner.models.tensors import Tensor
from tests.configs import architecture

TEXT: dict[str, Any] = {
    "architectures": ["MiniMaxM3SparseForCausalLM"],
    "dtype": "bfloat16",
    "hidden_size": 512,
    "intermediate_size": 128,
    "dense_intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": 128,
    "max_position_embeddings": 4096,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_layer_freq": [0, 1],
    "sparse_attention_config": {
        "sparse_index_dim": 64,
        "sparse_num_index_heads": 4,
        "sparse_topk_blocks": 16,
        "sparse_attention_freq": [0, 1],
    },
}
WHOLE: dict[str, Any] = {
    "architectures": ["MiniMaxM3SparseForConditionalGeneration"],
    "model_type": "minimax_m3_vl",
    "torch_dtype": "bfloat16",
    "text_config": TEXT,
    "projector_hidden_size": 512,
    "vision_config": {
        "hidden_size": 96,
        "num_attention_heads": 4,
        "num_hidden_layers": 1,
        "intermediate_size": 192,
        "patch_size": 14,
        "num_channels": 3,
        "img_token_compression_config": {
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
    },
}


def qkv_of(model_config: dict[str, Any], layer: int) -> Module:
    """The projection to query, key and value of a layer."""
    model = architecture(model_config)
    kind = model.layer_kinds[model.layers[layer]]
    return next(m for m in kind.modules if m.name == "self_attn.qkv_proj")


def test_a_sparse_layer_projects_its_index_as_well() -> None:
    """On two ranks: 4 query heads, 2 KV heads, 2 index heads and one index key.

    (4 + 2 + 2 + 2 + 1) x 64 = 704 rows of 512; the dense layer has 8 x 64 = 512.
    """
    layout = ParallelLayout(tensor_parallel_size=2)
    sparse, dense = qkv_of(WHOLE, 1), qkv_of(WHOLE, 0)
    assert isinstance(sparse, QKVParallelLinearWithIndexer)
    assert isinstance(dense, QKVParallelLinear)
    assert sparse.tensors(layout) == (Tensor(704 * 512),)
    assert dense.tensors(layout) == (Tensor(512 * 512),)


def test_chosen_blocks_are_kept_for_the_tokens_of_a_step() -> None:
    """2,046 tokens are rounded up to 2,048; 4 heads on 8 ranks are one on each."""
    blocks = ChosenBlocks(name="topk", num_heads=4, topk=16)
    layout = ParallelLayout(tensor_parallel_size=8, max_num_batched_tokens=2046)
    assert blocks.tensors(layout) == (Tensor(2_048 * 16, "int32"),)


def test_index_keys_stay_16_bit_beside_an_fp8_cache() -> None:
    """Blocks of 128 tokens: two layers of 4 heads x (64 + 64) bytes a token.

    2 x 128 x 4 x 128 = 131,072 bytes, and 128 x 64 x 2 = 16,384 of index keys.
    """
    answer = plan(architecture(WHOLE), "H100", kv_cache_dtype="fp8", max_model_len=4096)
    (group,) = answer.kv_groups
    assert (group.block_size, group.num_layers) == (128, 3)
    assert group.page_size_bytes == 131_072 + 16_384


def test_a_cache_of_4_bits_needs_blackwell() -> None:
    """Only the kernel of B200 reads it; elsewhere the start ends."""
    answer = plan(
        architecture({**WHOLE, "text_config": {**TEXT, "moe_layer_freq": [0, 1]}}),
        "B200",
        kv_cache_dtype="nvfp4",
        max_model_len=4096,
    )
    assert "NVFP4 KV cache only" not in str(answer.error)


def test_the_tower_ends_in_projector_and_merger() -> None:
    """Projector 96 -> 512 -> 512, merger 4 x 512 -> 512 -> 512, each with biases."""
    (tower,) = architecture(WHOLE).towers
    elements = {
        module.name: sum(t.elements for t in module.tensors(ParallelLayout()))
        for module in tower.modules
    }
    projector = "vision_tower.multi_modal_projector.linear"
    merger = "vision_tower.patch_merge_mlp.linear"
    assert elements[f"{projector}_1"] == 96 * 512 + 512
    assert elements[f"{merger}_1"] == 2_048 * 512 + 512
    assert elements[f"{merger}_2"] == 512 * 512 + 512


def test_an_indexer_with_other_heads_is_named() -> None:
    """The index is cut over the ranks as the KV heads are."""
    sparse = {**TEXT["sparse_attention_config"], "sparse_num_index_heads": 2}
    text = {**TEXT, "sparse_attention_config": sparse}
    with pytest.raises(UnknownArchitecture, match="sparse_attention_config"):
        architecture({**WHOLE, "text_config": text})
