"""GLM's models of images and videos, with a tower small enough to add up by hand."""

from typing import Any

from planner.engine.layout import ParallelLayout
from tests.configs import architecture

VISION = {
    "hidden_size": 8,
    "num_heads": 2,
    "depth": 1,
    "intermediate_size": 6,
    "out_hidden_size": 4,
    "image_size": 28,
}
GLM4V: dict[str, Any] = {
    "architectures": ["Glm4vForConditionalGeneration"],
    "model_type": "glm4v",
    "torch_dtype": "bfloat16",
    "attention_bias": True,
    "max_position_embeddings": 65536,
    "vision_config": VISION,
}


def test_the_blocks_of_glm4v_take_the_outputs_size_and_its_merger_the_mlps() -> None:
    """One block of width 8, patches of 2 x 14 x 14 pixels, 28 / 14 = 2 patches a side.

    Patches 9,408 + 8; block: norms 16, qkv 192, out 64, gate, up and down 3 x 8 x 4;
    merger: 4 x 4, norm 8, gate, up and down 3 x 4 x 6; 4 positions of 8 and their
    numbers; norms 16; down-sampling 4 x 8 x 2 x 2 + 4; rotary 8,192 x 2; pixels 6.
    """
    (tower,) = architecture(GLM4V).towers
    block, merger = 16 + 192 + 64 + 96, 16 + 8 + 72
    rest = 4 * 8 + 4 + 16 + 132 + 8192 * 2 + 6
    layout = ParallelLayout()
    held = sum(t.elements for m in tower.modules for t in m.tensors(layout))
    assert 9416 + block + merger + rest == held


def test_a_flat_config_says_nothing_to_the_language_model() -> None:
    """GLM-4.1V's own: 65,536 positions and biases stand outside and are not read."""
    model = architecture(GLM4V)
    assert 32768 == model.max_position_embeddings
    qkv = next(m for m in model.layer_kinds[0].modules if "qkv" in m.name)
    # 32 query and 2 x 2 KV heads of 128 on 4,096 inputs, and no bias.
    assert [36 * 128 * 4096] == [t.elements for t in qkv.tensors(ParallelLayout())]


def test_half_of_each_head_is_rotated() -> None:
    """Positions of images stretch the table fourfold where the config has sections."""
    text = {
        "max_position_embeddings": 100,
        "rope_parameters": {"rope_type": "default", "mrope_section": [8, 12, 12]},
    }
    (rotary,) = architecture(GLM4V, text_config=text).every_stage
    assert [4 * 100 * 64] == [t.elements for t in rotary.tensors(ParallelLayout())]


def test_glm4v_moe_reads_its_experts_from_the_inner_config() -> None:
    """GLM-4.5V: two layers, of which the first is plain."""
    model = architecture(
        {
            "architectures": ["Glm4vMoeForConditionalGeneration"],
            "model_type": "glm4v_moe",
            "text_config": {"num_hidden_layers": 2, "n_routed_experts": 16},
            "vision_config": VISION,
        }
    )
    assert (16, 2) == (model.num_experts, len(set(model.layers)))
    assert "glm4v_moe" == model.model_type


def test_glm_ocr_has_no_learned_positions_and_a_merger_of_its_texts_size() -> None:
    """One block of width 8; the language model's MLP is 10 wide.

    Patches 9,416; block: norms 16 + 2 x 4, qkv 192 + 24, out 72, gate and up
    2 x (48 + 6), down 48 + 8; merger: 16, norm 8, 3 x 4 x 10; down-sampling 132,
    norm 8, rotary 8,192 x 2, pixels 6.
    """
    config = {
        "architectures": ["GlmOcrForConditionalGeneration"],
        "model_type": "glm_ocr",
        "text_config": {"intermediate_size": 10},
        "vision_config": VISION,
    }
    (tower,) = architecture(config).towers
    block, merger = 24 + 216 + 72 + 108 + 56, 16 + 8 + 120
    layout = ParallelLayout()
    held = sum(t.elements for m in tower.modules for t in m.tensors(layout))
    assert 9416 + block + merger + 132 + 8 + 8192 * 2 + 6 == held
