"""Gemma 3 with images and Gemma 4: sizes by kind of layer, and the towers."""

from typing import Any

import pytest

from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.settings import EngineSettings
from planner.errors import Refused, UnknownArchitecture
from planner.memory.media.towers import is_prefix_lm, least_batched_tokens
from planner.memory.runner import check_kv_sources
from planner.models.architecture import ModelArchitecture
from planner.models.families.decoder import AttentionShape
from planner.models.families.gemma4 import QueryProjection
from planner.models.layers import Module
from planner.models.tensors import Tensor
from tests.configs import architecture

GEMMA4: dict[str, Any] = {
    "architectures": ["Gemma4ForConditionalGeneration"],
    "model_type": "gemma4",
    "dtype": "bfloat16",
    "text_config": {
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_global_key_value_heads": 1,
        "attention_k_eq_v": True,
        "head_dim": 4,
        "global_head_dim": 6,
        "hidden_size_per_layer_input": 2,
        "vocab_size": 64,
        "vocab_size_per_layer_input": 64,
        "max_position_embeddings": 100,
        "num_kv_shared_layers": 2,
        "use_double_wide_mlp": True,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "use_bidirectional_attention": "vision",
    },
    "vision_config": {
        "hidden_size": 8,
        "intermediate_size": 6,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "patch_size": 2,
        "position_embedding_size": 10,
    },
}

GEMMA3: dict[str, Any] = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "torch_dtype": "bfloat16",
    "text_config": {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "sliding_window": 4,
    },
    "vision_config": {
        "hidden_size": 8,
        "intermediate_size": 6,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 4,
        "patch_size": 2,
    },
}


def elements(modules: tuple[Module, ...]) -> int:
    """Elements of all tensors on the only rank."""
    layout = ParallelLayout(max_num_batched_tokens=10)
    return sum(t.elements for m in modules for t in m.tensors(layout))


def by_name(model: ModelArchitecture, layer: int) -> dict[str, int]:
    """Elements of each module of a decoder layer."""
    modules = model.layer_kinds[model.layers[layer]].modules
    return {module.name: elements((module,)) for module in modules}


def test_gemma4_has_larger_heads_and_fewer_kv_heads_where_it_sees_everything() -> None:
    """(4 + 2 x 2) x 4 rows with a window, (4 + 2 x 1) x 6 without, of 8 columns."""
    model = architecture(GEMMA4)
    assert 256 == by_name(model, 0)["self_attn.qkv_proj"]
    assert 288 == by_name(model, 1)["self_attn.qkv_proj"]
    assert (6, 2) == (model.head_size, model.num_kv_heads)


def test_a_tower_of_gemma4_needs_positions() -> None:
    """Its class divides by the bytes of a row of them."""
    vision = {**GEMMA4["vision_config"], "position_embedding_size": 0}
    with pytest.raises(UnknownArchitecture, match="a whole number from 1 to"):
        architecture({**GEMMA4, "vision_config": vision})


def test_layers_of_gemma4_that_share_keep_no_cache_and_project_queries_only() -> None:
    """The last two of four: 4 x 4 rows of 8, and an MLP of twice the width."""
    model = architecture(GEMMA4)
    shared, own = by_name(model, 2), by_name(model, 0)
    assert 128 == shared["self_attn.q_proj"]
    assert "self_attn.qkv_proj" not in shared
    assert 2 * own["mlp.down_proj"] == shared["mlp.down_proj"]
    assert [1, 1, 0, 0] == [len(model.layer_kinds[i].caches) for i in model.layers]


def test_layers_of_gemma4_that_share_projected_all_before_0_30() -> None:
    """4 heads of 4 over 8 inputs, until 0.29.0 2 x 2 more for keys and values."""
    projection = QueryProjection(
        shape=AttentionShape(
            hidden_size=8, num_heads=4, num_kv_heads=2, head_size=4, qk_norm_sizes=()
        )
    )
    new, old = (
        projection.tensors(ParallelLayout(release=Release((0, minor, 0))))
        for minor in (30, 29)
    )
    assert (Tensor(16 * 8),) == new
    assert (Tensor((16 + 2 * 8) * 8), Tensor(4), Tensor(4)) == old


def test_layers_of_gemma4_that_share_cannot_stand_on_another_stage() -> None:
    """Of two stages of two layers the second reads what the first keeps."""
    model = architecture(GEMMA4)
    assert (0, 1, 0, 1) == model.kv_sources
    check_kv_sources(model, ParallelLayout())
    with pytest.raises(Refused, match=r"layers\.2\.self_attn\.attn is not valid"):
        check_kv_sources(model, ParallelLayout(pipeline_parallel_size=2))


def test_gemma4_holds_a_table_of_embeddings_for_all_layers_and_a_steps_buffer() -> None:
    """64 words x 4 layers x 2, and 10 tokens x 4 layers x 2."""
    sizes = {m.name: elements((m,)) for m in architecture(GEMMA4).every_stage}
    assert 512 == sizes["language_model.model.embed_tokens_per_layer"]
    assert 80 == sizes["per_layer_embeddings"]


def test_gemma4_counts_its_vision_tower_by_hand() -> None:
    """One block of width 8, patches of 2 x 2 pixels in 3 colours.

    Positions 2 x 10 x 8, patches 12 x 8, rotary 1 + 1, attention 4 x 8 x 8 and norms
    4 + 4, MLP 3 x 6 x 8, norms 4 x 8; projection 8 x 8 and its norm 8.
    """
    (tower,) = architecture(GEMMA4).towers
    assert 160 + 96 + 2 + 256 + 8 + 144 + 32 + 64 + 8 == elements(tower.modules)


def test_the_longest_video_of_gemma4_must_fit_in_one_step() -> None:
    """32 frames of 78 tokens, or as many as the user allows; nothing without images."""
    model = architecture(GEMMA4)
    few: Any = {"video": {"count": 1, "num_frames": 8}}
    assert 32 * 78 == least_batched_tokens(model, EngineSettings())
    settings = EngineSettings(limit_mm_per_prompt=few)
    assert 8 * 78 == least_batched_tokens(model, settings)
    text_only = EngineSettings(language_model_only=True)
    assert 0 == least_batched_tokens(model, text_only)
    assert not is_prefix_lm(model, text_only)


def test_gemma3_counts_siglip_and_its_projector_by_hand() -> None:
    """One block of width 8 for 4 patches of 2 x 2 pixels.

    Patches 8 x 12 + 8, positions 4 x 8 and their 4 numbers, norms 4 x 8, qkv
    24 x 8 + 24, out 8 x 8 + 8, MLP 6 x 8 + 6 and 8 x 6 + 8, last norm 16; projector
    8 x 16 and a norm of 8.
    """
    model = architecture(GEMMA3)
    (tower,) = model.towers
    block = 32 + 216 + 72 + 54 + 56
    assert 104 + 36 + block + 16 + 128 + 8 == elements(tower.modules)
    assert all(layer.is_mm_prefix for layer in model.attention_layers)
