"""GLM-5.3-Flash: pooled index keys, their tail, and blocks that suit its states."""

from __future__ import annotations

from typing import Any

import pytest

from planner import plan
from planner.engine.layout import ParallelLayout
from planner.errors import UnknownArchitecture
from planner.memory.kv_cache.kv_spec import Request
from planner.memory.kv_cache.specs_of_latent import CircularBufferSpec
from planner.memory.weights import stage_weights
from planner.models.caches import IndexerTailLayer, MLALayer, PooledIndexerLayer
from planner.models.states import KimiDeltaAttentionState
from tests.configs import architecture

TEXT: dict[str, Any] = {
    "model_type": "glm5_next_text",
    "dtype": "bfloat16",
    "vocab_size": 128,
    "hidden_size": 256,
    "intermediate_size": 512,
    "moe_intermediate_size": 128,
    "num_hidden_layers": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "index_kpool": 4,
    "mhc": True,
    "topk_method": "noaux_tc",
    "max_position_embeddings": 8192,
}
WHOLE: dict[str, Any] = {
    "architectures": ["Glm5NextForConditionalGeneration"],
    "model_type": "glm5_next",
    "dtype": "bfloat16",
    "text_config": TEXT,
    "vision_config": {
        "depth": 1,
        "hidden_size": 128,
        "num_heads": 2,
        "in_channels": 3,
        "intermediate_size": 256,
        "out_hidden_size": 256,
        "patch_size": 14,
        "projection_intermediate_size": 512,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
}


def test_every_fourth_layer_attends_to_chosen_tokens() -> None:
    """Three layers keep states; the fourth pooled keys, their tail and vectors.

    A key takes 128 bytes and a float32 scale; 2,048 choices and 3 of a pool not full
    yet are padded to 2,176.
    """
    model = architecture(WHOLE)
    kinds = [model.layer_kinds[i].caches for i in model.layers]
    assert all(isinstance(c[0], KimiDeltaAttentionState) for c in kinds[:3])
    keys, tail, kept = kinds[3]
    assert keys == PooledIndexerLayer(row_bytes=132, tokens_per_state=4)
    assert tail == IndexerTailLayer(head_size=128, num_tokens=4)
    assert isinstance(kept, MLALayer)
    assert (kept.head_size, kept.choice_width) == (512, 2_176)


def test_blocks_hold_a_state_of_64_heads() -> None:
    """A state of 64 x 128 x 128 float32 and 3 x 24,576 bfloat16: 4,341,760 bytes.

    In vectors of 1,024 bytes these are 4,240 tokens, rounded up to 34 x 128 = 4,352.
    """
    answer = plan(architecture(WHOLE), "H100", max_model_len=4096)
    assert answer.resolved is not None
    assert answer.resolved.block_size == 4_352
    pages = {g.block_size: g.page_size_bytes for g in answer.kv_groups}
    assert pages[4] == 2 * 4 * 128 * 2
    found = {(g.num_layers, g.page_size_bytes) for g in answer.kv_groups}
    assert (2, 4_352 * 1_024 + 4_352 // 4 * 132) in found


def test_kv_cache_is_fp8_on_blackwell() -> None:
    """vLLM takes it for the model on a B200; elsewhere auto stays."""
    model = architecture(WHOLE)
    dtypes = []
    for gpu in ("B200", "H100"):
        resolved = plan(model, gpu, max_model_len=4096).resolved
        assert resolved is not None
        dtypes.append(resolved.kv_cache_dtype)
    assert dtypes == ["fp8", "auto"]


def test_attention_is_never_quantised() -> None:
    """FP8 holds the MLPs and experts; attention stays as the model's dtype has it."""
    fp8 = {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
    }
    layout = ParallelLayout(max_num_batched_tokens=8)

    def bytes_of(config: dict[str, Any], part: str) -> int:
        (stage,) = stage_weights(architecture(config), layout, "bfloat16")
        return {p.name: p.size_bytes for p in stage.parts}[part]

    quantised = {**WHOLE, "quantization_config": fp8}
    for part in ("attention", "state-space and linear attention"):
        assert bytes_of(quantised, part) == bytes_of(WHOLE, part)
    assert bytes_of(quantised, "mlp") < bytes_of(WHOLE, "mlp")


def test_a_tail_is_one_block_however_long_the_request() -> None:
    """The ring of a pool is written over and over."""
    tail = CircularBufferSpec(
        block_size=4, num_kv_heads=2, head_size=128, head_size_v=0, element_bytes=2
    )
    assert tail.blocks(Request(max_model_len=1)) == 1
    assert tail.blocks(Request(max_model_len=1_000_000)) == 1


def test_rotated_vectors_are_named() -> None:
    """The class is known without a rotated part only."""
    text = {**TEXT, "qk_rope_head_dim": 64}
    with pytest.raises(UnknownArchitecture, match="qk_rope_head_dim"):
        architecture({**WHOLE, "text_config": text})
