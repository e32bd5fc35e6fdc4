"""Towers and heads of newer classes for which no answer of vLLM's is recorded.

Each is worked by hand, in elements.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.errors import Refused, UnknownArchitecture
from planner.models.families.bailing_hybrid import GroupNorm
from planner.models.tensors import Tensor
from tests.configs import architecture

TEXT: dict[str, Any] = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 1024,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
}
STEP_VL: dict[str, Any] = {
    "architectures": ["StepVLForConditionalGeneration"],
    "model_type": "llava",
    "torch_dtype": "bfloat16",
    "projector_bias": False,
    "text_config": TEXT,
    "vision_config": {
        "width": 32,
        "layers": 2,
        "heads": 4,
        "mlp_ratio": 2.0,
        "image_size": 8,
        "patch_size": 2,
        "use_cls_token": False,
        "use_abs_posemb": True,
        "use_ln_pre": True,
        "use_ln_post": False,
        "ls_init_value": 0.1,
    },
}
OVIS: dict[str, Any] = {
    "architectures": ["Ovis2_5"],
    "model_type": "llava",
    "torch_dtype": "bfloat16",
    "hidden_size": 64,
    "visual_vocab_size": 104,
    "llm_config": TEXT,
    "vit_config": {
        "model_type": "siglip2_navit",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_channels": 3,
        "num_patches": -1,
        "image_size": 8,
        "patch_size": 2,
        "hidden_stride": 2,
        "preserve_original_pe": True,
    },
}


def _elements(config: dict[str, Any]) -> int:
    (tower,) = architecture(config).towers
    layout = ParallelLayout()
    return sum(t.elements for m in tower.modules for t in m.tensors(layout))


def test_step_vl_has_a_rotary_table_in_each_layer() -> None:
    """16 positions of 8 values, float32, twice, beside the weights.

    Convolutions of 3 x 2 x 2 to 32, and of 3 x 3 from 32 to 64 and on to 128, with
    biases; positions 16 x 32; a norm before; per layer qkv and output with biases, an
    MLP of 64, two norms and two scales; the projector 128 x 64.
    """
    ends = 3 * 4 * 32 + (9 * 32 * 64 + 64) + (9 * 64 * 128 + 128) + 16 * 32 + 2 * 32
    attention = 4 * 32 * 32 + 4 * 32
    mlp = 2 * 32 * 64 + 64 + 32
    layer = attention + mlp + 4 * 32 + 2 * 32
    tables = 2 * 16 * 8
    assert ends + 2 * layer + 128 * 64 + tables == _elements(STEP_VL)


def test_ovis_turns_images_into_words_of_their_own() -> None:
    """100 of the 104 words are predicted from 4 x 32 values, and all are embedded.

    The tower: patches of 3 x 2 x 2 to 32, 16 positions, one layer with an MLP of 64,
    three norms, and two frequencies, of every other of half a head's 8 values.
    """
    head = 100 * 4 * 32 + 2 * 100 + 104 * 64
    attention, mlp = 4 * 32 * 32 + 4 * 32, 2 * 32 * 64 + 64 + 32
    tower = (12 * 32 + 32) + 16 * 32 + attention + mlp + 3 * 2 * 32
    assert head + tower + 2 == _elements(OVIS)


def test_ovis_with_another_tower_is_not_modelled() -> None:
    """Its type is named."""
    other = {**OVIS["vit_config"], "model_type": "aimv2"}
    with pytest.raises(UnknownArchitecture, match="vit_config"):
        architecture(OVIS, vit_config=other)


@pytest.mark.parametrize(
    ("ranks", "words"),
    [(8, "tp_size must be <= group_norm_size"), (3, "must be divisible by tp_size")],
)
def test_ling_2_5s_norm_is_divided_by_its_groups_only(ranks: int, words: str) -> None:
    """Four groups: on four ranks a quarter each, on eight or three none."""
    norm = GroupNorm(name="norm", size=64, groups=4)
    assert (Tensor(16),) == norm.tensors(ParallelLayout(tensor_parallel_size=4))
    with pytest.raises(Refused, match=words):
        norm.tensors(ParallelLayout(tensor_parallel_size=ranks))


OCR: dict[str, Any] = {
    "architectures": ["UnlimitedOCRForCausalLM"],
    "model_type": "deepseek_vl_v2",
    "torch_dtype": "bfloat16",
    "rswa_window": 32,
    "projector_config": {
        "projector_type": "linear",
        "input_dim": 2048,
        "n_embed": 64,
    },
    "language_config": {
        "architectures": ["DeepseekV2ForCausalLM"],
        "hidden_size": 64,
        "intermediate_size": 128,
        "moe_intermediate_size": 32,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "q_lora_rank": None,
        "kv_lora_rank": None,
        "qk_nope_head_dim": 0,
        "qk_rope_head_dim": 0,
        "v_head_dim": 0,
        "use_mla": False,
        "vocab_size": 1024,
        "max_position_embeddings": 256,
        "topk_method": "greedy",
    },
}


def test_unlimited_ocr_has_a_group_of_its_own_kind(tmp_path: Path) -> None:
    """Two layers whose blocks of 16 tokens hold 2 x 4 heads of 16 values."""
    (tmp_path / "config.json").write_text(json.dumps(OCR), encoding="utf-8")
    plan = planner.plan(tmp_path, gpu="H100")
    (group,) = plan.kv_groups
    assert ("RSWASpec", 2) == (group.kind, group.num_layers)
    assert 16 * 2 * 4 * 16 * 2 == group.page_size_bytes
    with pytest.raises(UnknownArchitecture, match="kv_cache_dtype='fp8'"):
        planner.plan(tmp_path, gpu="H100", kv_cache_dtype="fp8")
