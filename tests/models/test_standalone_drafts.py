"""Drafts from checkpoints of their own: quantised, cut, short; Gemma 4's assistant."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.test_drafts_of_blocks import DFLASH, FP8, QWEN3
from tests.models.test_speculating import draft_bytes, drafted
from tests.plans import assert_draft_uncounted

SMALL: dict[str, Any] = {
    **QWEN3,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "tie_word_embeddings": True,
}
ASKED = {"num_speculative_tokens": 3}
PACKED = {"bits": 4, "group_size": 128}
AWQ = {"quant_method": "awq", **PACKED, "zero_point": True, "version": "gemm"}
FOUR_LAYERS = {**QWEN3, "num_hidden_layers": 4}
GPTQ = {"quant_method": "gptq", **PACKED, "desc_act": False, "sym": True}
BY_CHANNEL = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 8,
                "type": "float",
                "strategy": "channel",
                "symmetric": True,
                "dynamic": False,
            },
            "input_activations": {
                "num_bits": 8,
                "type": "float",
                "strategy": "token",
                "symmetric": True,
                "dynamic": True,
            },
        }
    },
    "ignore": ["lm_head", "model.layers.0.mlp.down_proj"],
}


@pytest.mark.parametrize(
    ("config", "settings", "size_bytes"),
    [
        (SMALL, FP8, 751_805_888),
        # Exceptions named in full do not fit layers that vLLM names after the draft.
        (
            SMALL,
            {**FP8, "ignored_layers": ["model.layers.0.mlp.down_proj"]},
            751_805_888,
        ),
        (SMALL, AWQ, 545_259_968),
        # A part of a name fits all the same.
        (SMALL, {**AWQ, "modules_to_not_convert": ["model.layers.0."]}, 568_361_408),
        (FOUR_LAYERS, BY_CHANNEL, 3_261_769_792),
        (FOUR_LAYERS, GPTQ, 2_890_344_512),
    ],
)
def test_a_quantised_draft_is_vllms_to_the_byte(
    tmp_path, config, settings, size_bytes
) -> None:
    """What vLLM 0.33.0's own classes hold after loading, as a draft."""
    draft = {**config, "quantization_config": settings}
    plan = drafted(tmp_path, QWEN3, ASKED, draft)
    assert size_bytes == draft_bytes(plan)


def test_a_draft_is_quantised_by_its_own_argument_alone(tmp_path) -> None:
    """speculative_config's, not its target's; 751,698,816 bytes in vLLM."""
    asked = {**ASKED, "quantization": "fp8"}
    assert 751_698_816 == draft_bytes(drafted(tmp_path, QWEN3, asked, SMALL))
    plain = drafted(tmp_path, QWEN3, ASKED, SMALL, quantization="fp8")
    assert 1_192_100_288 == draft_bytes(plain)
    block = {**asked, "method": "dflash"}
    assert 1_048_686_500 == draft_bytes(drafted(tmp_path, QWEN3, block, DFLASH))
    refused = drafted(
        tmp_path, QWEN3, {**ASKED, "quantization": "awq"}, {**SMALL, **_of(FP8)}
    )
    assert refused.error is not None
    assert "does not match the quantization method" in refused.error.message


def _of(settings: dict[str, Any]) -> dict[str, Any]:
    return {"quantization_config": settings}


def test_a_draft_on_one_rank_is_cut_as_its_target(tmp_path) -> None:
    """Since 0.33.0, 596,115,904 bytes on each of two; the first runner refuses it."""
    asked = {**ASKED, "draft_tensor_parallel_size": 1}
    plan = drafted(tmp_path, QWEN3, asked, SMALL, tensor_parallel_size=2)
    assert 596_115_904 == draft_bytes(plan)
    old = drafted(
        tmp_path, QWEN3, asked, SMALL, tensor_parallel_size=2, vllm_version="0.30.0"
    )
    assert old.error is not None
    assert old.error.message.startswith(
        "Currently, 'draft_tensor_parallel_size' and 'tensor_parallel_size' must be "
        "the same. Got 1 and 2."
    )
    assert_draft_uncounted(
        drafted(
            tmp_path,
            QWEN3,
            asked,
            SMALL,
            tensor_parallel_size=2,
            vllm_version="0.32.0",
        ),
        r"0\.32\.0",
    )


@pytest.mark.parametrize(
    ("asked", "changed"),
    [({}, {"max_position_embeddings": 4096}), ({"max_model_len": 4096}, {})],
)
def test_a_short_draft_shortens_requests_since_0_33(tmp_path, asked, changed) -> None:
    """To its 4,096 tokens of 40,960, and the plan says so; before, it does not."""
    draft = {**SMALL, **changed}
    plan = drafted(tmp_path, QWEN3, {**ASKED, **asked}, draft)
    assert plan.resolved is not None
    assert 4096 == plan.resolved.max_model_len
    assert any("lowers max_model_len from 40,960" in note for note in plan.notes)
    old = drafted(tmp_path, QWEN3, {**ASKED, **asked}, draft, vllm_version="0.32.0")
    assert old.resolved is not None
    assert 40960 == old.resolved.max_model_len


def test_a_draft_without_layers_stops_vllm(tmp_path) -> None:
    """It divides by their number."""
    asked = {"method": "mtp", "num_speculative_tokens": 1}
    none = {**QWEN3, "architectures": ["MiMoForCausalLM"], "model_type": "mimo"}
    plan = drafted(tmp_path, {**none, "num_nextn_predict_layers": 0}, asked)
    assert plan.error is not None
    assert "integer modulo by zero" == plan.error.message


ROPE = {
    "full_attention": {
        "partial_rotary_factor": 0.25,
        "rope_theta": 1000000.0,
        "rope_type": "proportional",
    },
    "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
}
GEMMA: dict[str, Any] = {
    "model_type": "gemma4_text",
    "hidden_size": 5376,
    "intermediate_size": 21504,
    "num_hidden_layers": 6,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "num_global_key_value_heads": 4,
    "head_dim": 256,
    "global_head_dim": 512,
    "attention_k_eq_v": True,
    "sliding_window": 1024,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    "hidden_size_per_layer_input": 0,
    "vocab_size": 262144,
    "max_position_embeddings": 262144,
    "rope_parameters": ROPE,
    "tie_word_embeddings": True,
}
GEMMA_4 = {
    "architectures": ["Gemma4ForConditionalGeneration"],
    "model_type": "gemma4",
    "dtype": "bfloat16",
    "text_config": GEMMA,
}
ASSISTANT: dict[str, Any] = {
    "architectures": ["Gemma4AssistantForCausalLM"],
    "model_type": "gemma4_assistant",
    "dtype": "bfloat16",
    "backbone_hidden_size": 5376,
    "use_ordered_embeddings": False,
    "text_config": {
        **GEMMA,
        "hidden_size": 1024,
        "intermediate_size": 8192,
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 4,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
    },
}


def test_gemma_4s_assistant_written_out(tmp_path) -> None:
    """On each of two ranks; it keeps no keys and values of its own.

    head                    131072 x 1024
    projections             512 x 10752, 5376 x 512
    queries and output      3 layers of 2 x 4096 x 1024, one of 2 x 8192 x 1024
    gate, up and down       4 x 3 x 4096 x 1024
    four norms a layer, one more; norms of queries 3 x 256 + 512
    a number a layer, and one more; 4 scales a layer of 4 bytes
    vLLM 0.33.0's own class holds 469,537,354 bytes.
    """
    elements = (
        131072 * 1024
        + 512 * 10752
        + 5376 * 512
        + (3 * 2 * 4096 + 2 * 8192) * 1024
        + 4 * 3 * 4096 * 1024
        + 17 * 1024
        + 3 * 256
        + 512
        + 5
    )
    plan = drafted(tmp_path, GEMMA_4, ASKED, ASSISTANT, tensor_parallel_size=2)
    assert 469_537_354 == 2 * elements + 4 * 4 * 4 == draft_bytes(plan)
    assert 6 == sum(group.num_layers for group in plan.kv_groups)


def test_ordered_words_take_centroids_and_their_order(tmp_path) -> None:
    """2,048 x 1024 of them; 8 bytes a word."""
    ordered = {**ASSISTANT, "use_ordered_embeddings": True}
    plain, more = (
        draft_bytes(drafted(tmp_path, GEMMA_4, ASKED, draft))
        for draft in (ASSISTANT, ordered)
    )
    assert 2 * 2048 * 1024 + 8 * 262144 == more - plain


@pytest.mark.parametrize(
    ("changed", "more", "words"),
    [
        ({"backbone_hidden_size": 1536}, {}, "backbone_hidden_size"),
        ({}, {"pipeline_parallel_size": 2}, "pipeline_parallel_size"),
        ({}, {"vllm_version": "0.24.0"}, "0.25.0"),
        (
            {"text_config": {**ASSISTANT["text_config"], "head_dim": 128}},
            {},
            "another head_dim",
        ),
    ],
)
def test_what_is_not_modelled_of_assistants_is_named(
    tmp_path, changed, more, words
) -> None:
    """With the reason."""
    assert_draft_uncounted(
        drafted(tmp_path, GEMMA_4, ASKED, {**ASSISTANT, **changed}, **more),
        words,
    )
