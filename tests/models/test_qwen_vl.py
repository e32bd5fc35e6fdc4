"""Qwen's models of images and videos, with towers small enough to add up by hand."""

from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.errors import Refused
from planner.models.architecture import Tower
from planner.models.families.facts import Facts
from planner.models.families.towers.qwen_vl import qwen2_5_vl_tower, qwen3_vl_tower
from planner.models.tensors import Tensor
from tests.configs import architecture

ROTARY = 8192 * 2
"""A table of 8,192 rows and half of a head's 4 dimensions."""
PIXEL_NORM = 3 + 3

QWEN2_VL: dict[str, Any] = {
    "architectures": ["Qwen2VLForConditionalGeneration"],
    "model_type": "qwen2_vl",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
    "vocab_size": 128,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": True,
    "vision_config": {
        "model_type": "qwen2_vl",
        "embed_dim": 8,
        "num_heads": 2,
        "mlp_ratio": 4,
        "depth": 1,
        "hidden_size": 64,
    },
}

QWEN3_VL: dict[str, Any] = {
    "architectures": ["Qwen3VLForConditionalGeneration"],
    "model_type": "qwen3_vl",
    "text_config": {
        **{
            k: v for k, v in QWEN2_VL.items() if k.startswith(("h", "i", "n", "m", "v"))
        },
        "head_dim": 16,
        "rope_scaling": {"mrope_section": [2, 3, 3], "rope_type": "default"},
        "dtype": "bfloat16",
    },
    "vision_config": {},
}


def elements(tower: Tower, **layout: int) -> int:
    """Elements of a tower on one rank."""
    ranks = ParallelLayout(**layout)
    return sum(t.elements for m in tower.modules for t in m.tensors(ranks))


def buffers(config: dict[str, Any], **changes: Any) -> list[int]:
    """Elements of what every stage holds."""
    modules = architecture(config, **changes).every_stage
    return [t.elements for m in modules for t in m.tensors(ParallelLayout())]


def test_image_positions_reached_four_times_as_far_before_0_32() -> None:
    """Tables of 16 columns: 512 rows where the model says so, else 4 x 512."""
    (table,) = architecture(QWEN3_VL).every_stage
    older = ParallelLayout(release=Release((0, 31, 0)))
    newer = ParallelLayout(release=Release((0, 32, 0)))
    assert (Tensor(4 * 512 * 16),) == table.tensors(older)
    assert (Tensor(512 * 16),) == table.tensors(newer)


def test_qwen2_vl_counts_its_tower_by_hand() -> None:
    """One block of width 8, patches of 2 x 14 x 14 pixels in 3 colours.

    Patches 8 x 3 x 392 = 9,408; block: norms 4 x 8, qkv 24 x 8 + 24, out 8 x 8 + 8,
    MLP 32 x 8 + 32 and 8 x 32 + 8 = 872; merger: norm 16, 32 x 32 + 32 and 64 x 32 + 64
    = 3,184; with the rotary table and six numbers for pixels.
    """
    (tower,) = architecture(QWEN2_VL).towers
    assert 9408 + 872 + 3184 + ROTARY + PIXEL_NORM == elements(tower)


def test_qwen2_5_vl_has_gated_blocks_without_norm_biases() -> None:
    """Patches 9,408, a block of 468, a merger, the rotary table and the pixels' norm.

    Block: norms 16, qkv 24 x 8 + 24, out 72, gate and up 2 x (6 x 8 + 6), down
    8 x 6 + 8; merger: norm 8, 32 x 32 + 32, 5 x 32 + 5.
    """
    facts = Facts(
        {
            "hidden_size": 8,
            "num_heads": 2,
            "depth": 1,
            "intermediate_size": 6,
            "out_hidden_size": 5,
        },
        "qwen2_5_vl_vision",
    )
    wanted = 9408 + 468 + 8 + 1056 + 165 + ROTARY + PIXEL_NORM
    assert wanted == elements(qwen2_5_vl_tower(facts))


def qwen3_tower(**changes: object) -> Tower:
    """A tower of one block, with a deepstack level for every index."""
    config = {
        "hidden_size": 8,
        "num_heads": 2,
        "depth": 1,
        "intermediate_size": 6,
        "out_hidden_size": 5,
        "num_position_embeddings": 9,
        "deepstack_visual_indexes": [0],
        **changes,
    }
    return qwen3_vl_tower(Facts(config, "qwen3_vl_vision"), deepstack_columns=64)


def test_each_deepstack_level_of_qwen3_vl_has_a_merger_and_a_buffer() -> None:
    """The buffer holds 100 tokens of the language model's 64.

    Merger after shuffling: norm 2 x 32, 32 x 32 + 32, 5 x 32 + 5 = 1,285.
    """
    plain = elements(qwen3_tower(deepstack_visual_indexes=[]))
    assert 1285 + 100 * 64 == (
        elements(qwen3_tower(), max_num_batched_tokens=100) - plain
    )


def test_tensor_parallel_divides_a_tower_but_not_its_patches() -> None:
    """On two ranks the qkv of 24 x 8 + 24 halves; convolution and norms do not."""
    tower = qwen3_tower(deepstack_visual_indexes=[])
    cut = 216 + 64 + 54 + 48  # qkv, out, fc1 with biases, fc2 without
    cut += 32 * 32 + 32 + 5 * 32  # the merger
    assert cut // 2 == elements(tower) - elements(tower, tensor_parallel_size=2)


def test_heads_of_a_tower_must_divide() -> None:
    """2 heads on 3 ranks; vLLM's message names no layer."""
    (tower,) = architecture(QWEN2_VL).towers
    with pytest.raises(Refused, match=r"^2 is not divisible by 3$"):
        elements(tower, tensor_parallel_size=3)


def test_images_stretch_the_rotary_cache_of_qwen2_vl_only() -> None:
    """512 positions of 16 dimensions: four times as many rows, but not in Qwen3-VL."""
    assert [4 * 512 * 16] == buffers(QWEN2_VL)
    assert [512 * 16] == buffers(QWEN3_VL)


def test_a_flat_config_counts_for_the_language_model() -> None:
    """Qwen2-VL's config has no text_config; its heads, layers and ties are read."""
    model = architecture(QWEN2_VL)
    assert (2, 4, 2, 16) == (
        model.num_hidden_layers,
        model.num_attention_heads,
        model.num_kv_heads,
        model.head_size,
    )
    assert ("bfloat16", "qwen2_vl") == (model.config_dtype, model.model_type)
    assert model.tied_embeddings


def test_the_outer_config_decides_on_tied_embeddings() -> None:
    """Qwen3-VL: silence outside means untied, whatever the inner config says."""
    text = {**QWEN3_VL["text_config"], "tie_word_embeddings": True}
    assert not architecture(QWEN3_VL, text_config=text).tied_embeddings
    assert architecture(QWEN3_VL, tie_word_embeddings=True).tied_embeddings


def test_layers_carry_the_names_of_the_whole_model() -> None:
    """Quantised checkpoints name exceptions so."""
    model = architecture(QWEN3_VL)
    assert "language_model.model.layers" == model.layer_prefix
    assert "language_model.model.embed_tokens" == model.first_stage[0].name
    names = [module.name for module in model.towers[0].modules]
    assert "visual.blocks.0.attn.qkv" in names


def test_qwen3_5_keeps_no_buffers_for_deepstack() -> None:
    """Same tower as Qwen3-VL; tokens of a step change nothing."""
    config = {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "tie_word_embeddings": True,
        "text_config": {"num_hidden_layers": 4},
        "vision_config": {"deepstack_visual_indexes": [1], "depth": 1},
    }
    model = architecture(config)
    (tower,) = model.towers
    assert elements(tower) == elements(tower, max_num_batched_tokens=100)
    assert "visual.deepstack_merger_list.0.norm" in [m.name for m in tower.modules]
    # The language model is built from its own config, which does not tie.
    assert "language_model.lm_head" in [m.name for m in model.last_stage]


def refusal(config: dict[str, Any], **settings: Any) -> str:
    """vLLM's words for not starting."""
    plan = planner.plan(architecture(config), gpu="H100", **settings)
    assert plan.error is not None
    return plan.error.message


def test_a_tower_complains_before_the_decoder_layers() -> None:
    """On 4 ranks neither 2 heads of the tower nor 3 KV heads divide.

    Even a tower that is switched off complains, as vLLM puts it together first.
    """
    config = {**QWEN2_VL, "num_attention_heads": 12, "num_key_value_heads": 3}
    assert "2 is not divisible by 4" == refusal(config, tensor_parallel_size=4)
    switched_off = refusal(config, tensor_parallel_size=4, language_model_only=True)
    assert "2 is not divisible by 4" == switched_off


def test_the_first_stage_must_hold_all_layers_with_deepstack() -> None:
    """Two stages of one layer each; the default tower hands three features on."""
    assert refusal(QWEN3_VL, pipeline_parallel_size=2).startswith(
        "start_layer should be greater than or equal to"
    )
