"""Layers for multi-token prediction of families whose layers are of another kind."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from tests.models.test_speculating import draft_bytes, drafted
from tests.plans import assert_draft_uncounted
from tools.configs import folder

ASKED = {"method": "mtp", "num_speculative_tokens": 1}
ERNIE: dict[str, Any] = {
    "architectures": ["Ernie4_5_MoeForCausalLM"],
    "model_type": "ernie4_5_moe",
    "torch_dtype": "bfloat16",
    "hidden_size": 2560,
    "intermediate_size": 12288,
    "moe_intermediate_size": 1536,
    "num_hidden_layers": 28,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": 20,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 103424,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "moe_num_experts": 64,
    "moe_num_shared_experts": 2,
    "moe_k": 6,
    "moe_layer_start_index": 1,
    "moe_layer_end_index": 28,
    "use_bias": False,
    "tie_word_embeddings": True,
}
LONGCAT: dict[str, Any] = {
    "architectures": ["LongcatFlashForCausalLM"],
    "model_type": "longcat_flash",
    "torch_dtype": "bfloat16",
    "vocab_size": 131072,
    "hidden_size": 6144,
    "ffn_hidden_size": 12288,
    "expert_ffn_hidden_size": 2048,
    "num_layers": 28,
    "num_attention_heads": 64,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "qk_nope_head_dim": 128,
    "n_routed_experts": 512,
    "zero_expert_num": 256,
    "moe_topk": 12,
    "max_position_embeddings": 131072,
    "rope_theta": 10000000.0,
}
EXAONE: dict[str, Any] = {
    "architectures": ["ExaoneMoEForCausalLM"],
    "model_type": "exaone_moe",
    "torch_dtype": "bfloat16",
    "hidden_size": 6144,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 153600,
    "max_position_embeddings": 262144,
    "rope_theta": 1000000.0,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
    "first_k_dense_replace": 1,
    "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 12,
    "sliding_window": 128,
    "sliding_window_pattern": "LLLG",
    "num_nextn_predict_layers": 1,
    "norm_topk_prob": True,
    "tie_word_embeddings": False,
}


def test_ernies_head_is_a_dense_layer_with_a_rotary_table_of_its_own(tmp_path) -> None:
    """Its table turns pairs that lie apart, the target's neighbours: it is another.

    two norms and a projection       2 x 2560, 2560 x 5120
    qkv and o_proj                   28 x 128 x 2560, 2560 x 2560
    gate, up, down; two norms        3 x 12288 x 2560, 2 x 2560
    table                            131072 x 128; 4 scales of 4 bytes
    vLLM 0.33.0's own class holds 279,990,288 bytes, and 169,889,808 on each of two.
    """
    plan = drafted(tmp_path, ERNIE, ASKED)
    elements = (
        2 * 2560
        + 2560 * 5120
        + 28 * 128 * 2560
        + 2560 * 2560
        + 3 * 12288 * 2560
        + 2 * 2560
        + 131072 * 128
    )
    assert 279_990_288 == 2 * elements + 16 == draft_bytes(plan)
    two = drafted(tmp_path, ERNIE, ASKED, tensor_parallel_size=2)
    assert 169_889_808 == draft_bytes(two)
    assert_draft_uncounted(
        drafted(tmp_path, {**ERNIE, "use_bias": True}, ASKED),
        "use_bias",
    )


@pytest.mark.parametrize(("ranks", "size_bytes"), [(8, 253_034_512), (4, 329_056_272)])
def test_longcats_head_is_one_of_deepseeks_dense_layers(
    tmp_path, ranks, size_bytes
) -> None:
    """One attention and one MLP where its own layers have two, and no experts."""
    plan = drafted(tmp_path, LONGCAT, ASKED, tensor_parallel_size=ranks)
    assert size_bytes == draft_bytes(plan)
    assert 57 == sum(group.num_layers for group in plan.kv_groups)


def test_exaones_head_has_a_window_and_no_experts(tmp_path) -> None:
    """37 layers with a window of 48 + 1; 264,303,120 bytes on each of four ranks."""
    plan = drafted(tmp_path, EXAONE, ASKED, tensor_parallel_size=4)
    assert 264_303_120 == draft_bytes(plan)
    windows = [g for g in plan.kv_groups if g.kind == "SlidingWindowSpec"]
    assert 37 == sum(group.num_layers for group in windows)
    assert_draft_uncounted(
        drafted(tmp_path, {**EXAONE, "mtp_sliding_windows": [64]}, ASKED),
        "layer_types",
    )


RECORDED = [
    # What vLLM 0.33.0's own classes hold after loading, less what they share.
    ("XiaomiMiMo--MiMo-V2-Flash", 4, 149_479_088),
    ("deepseek-ai--DeepSeek-V4-Flash", 4, 949_286_380 - 4 * 8192 * 512),
    ("deepseek-ai--DeepSeek-V4-Pro", 8, 2_159_462_860 - 4 * 8192 * 1024),
    ("zai-org--GLM-5.3-Flash", 2, 3_918_941_328),
    ("nvidia--MiniMax-M3-NVFP4", 4, 3_863_016_976),
]


@pytest.mark.parametrize(("config", "ranks", "size_bytes"), RECORDED)
def test_heads_of_other_kinds_are_vllms_to_the_byte(config, ranks, size_bytes) -> None:
    """MiMo-V2's output projection is never quantised; V4's table may be its first.

    V4 shares its buffer of choices with its target, GLM-5.3-Flash does not.
    """
    plan = planner.plan(
        folder(config),
        gpu="H100",
        tensor_parallel_size=ranks,
        trust_remote_code=True,
        speculative_config=ASKED,
    )
    assert size_bytes == draft_bytes(plan)


def test_deepseek_v4_hands_four_streams_on_to_its_head() -> None:
    """The head's buffer and the target's own: 2 x 8,192 tokens x 4 x 4,096 x 2 bytes.

    Beside it 13 bytes a token, and 40 bytes a request of 1,024.
    """
    plan = planner.plan(
        folder("deepseek-ai--DeepSeek-V4-Flash"),
        gpu="B200",
        tensor_parallel_size=4,
        max_num_batched_tokens=8192,
        max_num_seqs=1024,
        speculative_config=ASKED,
    )
    line = next(x for x in plan.ranks[0].lines if x.name == "persistent buffers")
    assert "draft buffers 512.1 MiB" in line.why


def test_before_a_family_came_it_is_not_modelled(tmp_path) -> None:
    """With the release from which it is."""
    assert_draft_uncounted(
        drafted(tmp_path, ERNIE, ASKED, vllm_version="0.17.0"),
        r"before 0\.18\.0",
    )


@pytest.mark.parametrize(
    ("config", "ranks", "groups"),
    [
        # As vLLM 0.33.0's own planning groups target and draft together.
        (
            "XiaomiMiMo--MiMo-V2-Flash",
            4,
            [(9, 32), (8, 16), (8, 16), (8, 16), (8, 16), (8, 16)],
        ),
        (
            "zai-org--GLM-5.3-Flash",
            2,
            [(12, 2176), (11, 2176), (11, 2176), (24, 2176), (12, 8)],
        ),
    ],
)
def test_groups_with_a_head_are_vllms(config, ranks, groups) -> None:
    """MiMo-V2's windows stay windows; a tail of four tokens grows to eight."""
    plan = planner.plan(
        folder(config),
        gpu="H200",
        tensor_parallel_size=ranks,
        trust_remote_code=True,
        speculative_config=ASKED,
    )
    found = [(group.num_layers, group.block_size) for group in plan.kv_groups]
    assert sorted(groups) == sorted(found)
