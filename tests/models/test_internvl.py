"""InternVL and its kin, with a tower small enough to add up by hand."""

from typing import Any

from planner.engine.layout import ParallelLayout
from planner.models.architecture import Tower
from tests.configs import LLAMA_8B, architecture

TEXT: dict[str, Any] = {
    **LLAMA_8B,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 64,
}
INTERNVL: dict[str, Any] = {
    "architectures": ["InternVLChatModel"],
    "model_type": "internvl_chat",
    "torch_dtype": "bfloat16",
    "downsample_ratio": 0.5,
    "select_layer": -1,
    "llm_config": TEXT,
    "vision_config": {
        "hidden_size": 8,
        "intermediate_size": 12,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "image_size": 28,
        "patch_size": 14,
        "qkv_bias": True,
        "qk_normalization": False,
        "norm_type": "layer_norm",
    },
}
# Class token 8, 2 x 2 + 1 positions of 8, patches of 14 x 14 in 3 colours.
EMBEDDINGS = 8 + 40 + 8 * 3 * 196 + 8
ATTENTION = 192 + 24 + 64 + 8
MLP = 96 + 12 + 96 + 8
NORMS = 4 * 8 + 2 * 8
# Norm over four patches, then to 16 and from 16 to 16.
PROJECTOR = 2 * 32 + 32 * 16 + 16 + 16 * 16 + 16


def elements(tower: Tower, ranks: int = 1) -> int:
    """Elements of a tower on one rank."""
    layout = ParallelLayout(tensor_parallel_size=ranks)
    return sum(t.elements for m in tower.modules for t in m.tensors(layout))


def test_internvl_counts_its_tower_by_hand() -> None:
    """One layer with two scales beside its norms, and a projector."""
    (tower,) = architecture(INTERNVL).towers
    assert EMBEDDINGS + ATTENTION + MLP + NORMS + PROJECTOR == elements(tower)


def test_ranks_that_do_not_divide_the_heads_hold_attention_in_full() -> None:
    """2 heads on 4 ranks: only the MLP is cut, less its second bias."""
    (tower,) = architecture(INTERNVL).towers
    cut = (96 + 12 + 96) * 3 // 4
    assert cut == elements(tower) - elements(tower, ranks=4)


def test_layers_after_the_selected_one_are_not_built() -> None:
    """select_layer -2 of one layer leaves none."""
    (tower,) = architecture(INTERNVL, select_layer=-2).towers
    assert EMBEDDINGS + PROJECTOR == elements(tower)


def test_the_language_model_is_the_one_its_config_names() -> None:
    """Llama, under the names of the whole."""
    model = architecture(INTERNVL)
    assert ("InternVLChatModel", 2) == (model.architecture, model.num_hidden_layers)
    assert "language_model.model.layers" == model.layer_prefix
    assert "language_model.lm_head" == model.last_stage[-1].name


def test_nvlm_d_adds_heads_that_ranks_can_divide() -> None:
    """2 + 7 heads of 4, and a projector without biases as wide as the MLP's 24."""
    (tower,) = architecture(INTERNVL, architectures=["NVLM_D"]).towers
    attention = 3 * 36 * 8 + 3 * 36 + 36 * 8 + 8
    projector = 2 * 32 + 32 * 24 + 24 * 16
    assert EMBEDDINGS + attention + MLP + NORMS + projector == elements(tower)


def test_skywork_r1v_takes_images_alone_and_may_quantise_its_projector() -> None:
    """Its two projections are linear layers of vLLM."""
    model = architecture(INTERNVL, architectures=["SkyworkR1VChatModel"])
    (tower,) = model.towers
    assert ("image",) == tower.modalities
    assert EMBEDDINGS + ATTENTION + MLP + NORMS + PROJECTOR == elements(tower)
    assert {"mlp1.1", "mlp1.3"} <= {m.name for m in tower.modules}


def test_an_awq_language_model_leaves_the_tower_alone() -> None:
    """OpenGVLab's AWQ checkpoints do not say so; vLLM knows."""
    text = {**TEXT, "quantization_config": {"quant_method": "awq"}}
    (tower,) = architecture(INTERNVL, llm_config=text).towers
    flags = [m.is_quantizable for m in tower.modules if hasattr(m, "is_quantizable")]
    assert flags
    assert not any(flags)


def test_internvl_in_transformers_format_cuts_its_mlps_alone() -> None:
    """No bias in attention but the output's; the norms' config says layer_norm."""
    (tower,) = architecture(
        {
            "architectures": ["InternVLForConditionalGeneration"],
            "model_type": "internvl",
            "text_config": {**TEXT, "architectures": None, "model_type": "llama"},
            "vision_config": {
                "hidden_size": 8,
                "intermediate_size": 12,
                "num_attention_heads": 2,
                "num_hidden_layers": 1,
                "image_size": [28, 28],
            },
        }
    ).towers
    attention = 4 * 64 + 8
    held = EMBEDDINGS + attention + MLP + NORMS + PROJECTOR
    assert held == elements(tower)
    assert (96 + 12 + 96) // 2 == held - elements(tower, ranks=2)
