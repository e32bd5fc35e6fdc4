"""Drafts that guess whole blocks: DFlash, DFlash2, XPress and DSpark."""

from __future__ import annotations

from typing import Any

import pytest

from tests.configs import LLAMA_8B
from tests.models.test_speculating import draft_bytes, drafted
from tests.plans import assert_draft_uncounted

QWEN3: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": False,
}
DFLASH: dict[str, Any] = {
    **QWEN3,
    "architectures": ["DFlashDraftModel"],
    "num_hidden_layers": 5,
    "block_size": 16,
    "dflash_config": {
        "mask_token_id": 151669,
        "target_layer_ids": [1, 9, 17, 25, 33],
    },
}
DSPARK: dict[str, Any] = {
    **{k: v for k, v in DFLASH.items() if k != "dflash_config"},
    "architectures": ["Qwen3DSparkModel"],
    "block_size": 7,
    "target_layer_ids": [1, 9, 17, 25, 33],
    "mask_token_id": 151669,
    "markov_rank": 256,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}
ASKED = {"method": "dflash", "num_speculative_tokens": 15}
LAYER = 6144 * 4096 + 4096 * 4096 + 3 * 12288 * 4096 + 2 * 4096 + 2 * 128
CONTEXT = 5 * 2 * 8 * 128 * 4096
ELEMENTS = 5 * LAYER + 5 * 4096 * 4096 + 3 * 4096 + CONTEXT + 5 * 128
SCALES = 5 * 4 * 4
FP8 = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "weight_block_size": [128, 128],
}


def test_a_dflash_draft_written_out(tmp_path) -> None:
    """Word embeddings, head and rotary table are the target's.

    A layer: qkv 6144 x 4096, o_proj 4096 x 4096, gate, up and down 3 x 12288 x 4096,
    two norms of 4096, two of 128; 4 scales of attention of 4 bytes.
    fc of five of the target's layers    4096 x 5 x 4096
    two norms and a mask embedding       3 x 4096
    keys and values of five layers, once more    5 x 2 x 8 x 128 x 4096
    their norms of keys, once more               5 x 128
    vLLM 0.33.0's own class holds 2,181,148,496 bytes.
    """
    plan = drafted(tmp_path, QWEN3, ASKED, DFLASH)
    assert 2_181_148_496 == 2 * ELEMENTS + SCALES == draft_bytes(plan)
    assert [41] == [group.num_layers for group in plan.kv_groups]


@pytest.mark.parametrize("draft_ranks", [None, 1])
def test_a_dflash_draft_is_cut_as_its_target_whatever_is_asked(
    tmp_path, draft_ranks
) -> None:
    """vLLM reads draft_tensor_parallel_size, and cuts by the target's ranks."""
    asked = {**ASKED, "draft_tensor_parallel_size": draft_ranks}
    plan = drafted(tmp_path, QWEN3, asked, DFLASH, tensor_parallel_size=2)
    assert 1_174_515_536 == draft_bytes(plan)


def test_windows_of_a_draft_are_a_group_of_their_own(tmp_path) -> None:
    """Four layers look back 2,048 tokens; the fifth joins the target's 36."""
    types = ["sliding_attention"] * 4 + ["full_attention"]
    mixed = {
        **DFLASH,
        "layer_types": types,
        "use_sliding_window": True,
        "sliding_window": 2048,
    }
    plan = drafted(tmp_path, QWEN3, ASKED, mixed)
    found: dict[str, int] = {}
    for group in plan.kv_groups:
        found[group.kind] = found.get(group.kind, 0) + group.num_layers
    assert {"FullAttentionSpec": 37, "SlidingWindowSpec": 4} == found
    unused = {**mixed, "use_sliding_window": False}
    refused = drafted(tmp_path, QWEN3, ASKED, unused)
    assert refused.error is not None
    assert refused.error.message.startswith(
        "DFlash sliding attention requires a window"
    )


def test_a_smaller_vocabulary_takes_a_head_of_its_own(tmp_path) -> None:
    """32,000 x 4096 of the head, and 8 bytes a word for its number in the target."""
    plan = drafted(tmp_path, QWEN3, ASKED, {**DFLASH, "draft_vocab_size": 32000})
    own = 2 * 32000 * 4096 + 8 * 32000
    assert 2 * ELEMENTS + SCALES + own == draft_bytes(plan)


def test_a_draft_in_fp8_keeps_no_copy_of_its_projections(tmp_path) -> None:
    """vLLM 0.33.0's own class holds 1,048,942,416 bytes."""
    plan = drafted(tmp_path, QWEN3, ASKED, {**DFLASH, "quantization_config": FP8})
    assert 1_048_942_416 == draft_bytes(plan)


def test_a_draft_with_biases_sinks_and_no_states_of_the_target(tmp_path) -> None:
    """Without fc; 12 biases more a layer, 32 sinks; 2,013,499,536 bytes in vLLM."""
    own = {"use_aux_hidden_state": False, "attention_sink_bias": True}
    asked = {**DFLASH["dflash_config"], **own, "use_swa": True, "swa_window_size": 1024}
    draft = {**DFLASH, "attention_bias": True, "dflash_config": asked}
    plan = drafted(tmp_path, QWEN3, ASKED, draft)
    assert 2_013_499_536 == draft_bytes(plan)


def test_dflash2_adds_convolutions_and_a_choice_of_words(tmp_path) -> None:
    """Per layer twice: kernels 2 x 3 x 4096, projection (2 x 3 x 64) x 4096.

    Two codebooks of 151,936 x 256 and a projection of 256 x 4096.
    """
    more = {
        "conv_kernel_size": 3,
        "conv_group_size": 64,
        "selector_rank": 256,
        "selector_top_k": 8,
    }
    draft = {
        **DFLASH,
        "architectures": ["DFlash2DraftModel"],
        "dflash_config": {**DFLASH["dflash_config"], **more},
    }
    plan = drafted(tmp_path, QWEN3, ASKED, draft)
    layers = 5 * 2 * (2 * 3 * 4096 + 2 * 3 * 64 * 4096)
    choice = 2 * 151936 * 256 + 256 * 4096
    assert 2 * (ELEMENTS + layers + choice) + SCALES == draft_bytes(plan)


def test_xpress_refines_with_tables_that_it_also_keeps_turned_over(tmp_path) -> None:
    """Words 2 x 151,936 x 256, from the states 2 x 256 x 4096, and within 256 numbers.

    Once more: 256 x 768, 256 x 16 x 16, 3 x 512 x 256, and 151,936 x 256.
    """
    plan = drafted(
        tmp_path, QWEN3, ASKED, {**DFLASH, "architectures": ["Qwen3XPressModel"]}
    )
    words = 151936 * 256
    copied = 256 * 768 + 256 * 16 * 16 + 3 * 512 * 256 + words
    refiner = words + 2 * 256 * 4096 + 2 * copied
    assert 2 * (ELEMENTS + refiner) + SCALES == draft_bytes(plan)
    assert_draft_uncounted(
        drafted(
            tmp_path,
            QWEN3,
            {**ASKED, "xpress_topc": 0},
            {**DFLASH, "architectures": ["Qwen3XPressModel"]},
        ),
        "xpress_topc=0",
    )


def test_a_dspark_draft_adds_a_bias_by_the_word_before(tmp_path) -> None:
    """Two tables of 151,936 x 256 on each rank, an estimate in float32.

    (4096 + 256 + 1) x 4 bytes; 2,336,748,372 in vLLM, 1,330,115,412 on each of two.
    """
    asked = {"method": "dspark"}
    plan = drafted(tmp_path, QWEN3, asked, DSPARK)
    more = 2 * 2 * 151936 * 256 + 4 * (4096 + 256 + 1)
    assert 2_336_748_372 == 2 * ELEMENTS + SCALES + more == draft_bytes(plan)
    two = drafted(tmp_path, QWEN3, asked, DSPARK, tensor_parallel_size=2)
    assert 1_330_115_412 == draft_bytes(two)
    assert plan.model is not None
    assert plan.model.speculation is not None
    assert 7 == plan.model.speculation.num_speculative_tokens


def test_a_dspark_draft_is_known_by_its_architecture(tmp_path) -> None:
    """No method is named; in fp8 it takes 1,204,542,292 bytes in vLLM."""
    asked = {"num_speculative_tokens": 7}
    plan = drafted(tmp_path, QWEN3, asked, {**DSPARK, "quantization_config": FP8})
    assert 1_204_542_292 == draft_bytes(plan)


def test_a_speculators_draft_is_read_by_its_inner_config(tmp_path) -> None:
    """The same draft, as the speculators library publishes it.

    Its quantisation stands outside, and takes 1,048,942,416 bytes in vLLM.
    """
    inner = {
        k: v for k, v in DFLASH.items() if k not in ("architectures", "dflash_config")
    }
    outer = {
        "architectures": ["DFlashSpeculator"],
        "speculators_model_type": "dflash",
        "aux_hidden_state_layer_ids": [2, 10, 18, 26, 34],
        "mask_token_id": 151669,
        "transformer_layer_config": inner,
    }
    asked = {"num_speculative_tokens": 15}
    plan = drafted(tmp_path, QWEN3, asked, outer)
    assert 2 * ELEMENTS + SCALES == draft_bytes(plan)
    packed = drafted(tmp_path, QWEN3, asked, {**outer, "quantization_config": FP8})
    assert 1_048_942_416 == draft_bytes(packed)


def test_the_profile_run_has_as_many_requests_as_blocks_fit(tmp_path) -> None:
    """8,192 tokens / 16 of a block: 512 requests, whose 7,680 guesses need logits.

    7,680 x 151,936 words x 2 bytes, beside six hidden states of 8,192 x 4096.
    """
    plan = drafted(tmp_path, QWEN3, ASKED, DFLASH, max_num_batched_tokens=8192)
    line = next(x for x in plan.ranks[0].lines if x.name == "peak activation")
    seen = 6 * 2 * 8192 * 4096
    assert 7680 * 151936 * 2 + seen == line.size_bytes
    assert "logits of 7,680 guesses" in line.why


@pytest.mark.parametrize(
    ("asked", "changed", "words"),
    [
        (
            {"dspark_draft_topk": 4},
            {},
            "dspark_draft_topk is only supported by DSpark",
        ),
        ({"xpress_topc": 4}, {}, "xpress_topc is only supported by XPress"),
        (
            {},
            {"dflash_config": {"sample_from_anchor": True}},
            "sample_from_anchor=True is not supported for DFlash.",
        ),
        (
            {},
            {"architectures": ["Qwen3XPressModel"], "draft_vocab_size": 32000},
            "XPress currently requires a full-vocab draft",
        ),
    ],
)
def test_what_vllm_refuses_of_blocks_is_refused(
    tmp_path, asked, changed, words
) -> None:
    """In its words."""
    plan = drafted(tmp_path, QWEN3, {**ASKED, **asked}, {**DFLASH, **changed})
    assert plan.error is not None
    assert plan.error.message.startswith(words)


def test_a_step_needs_room_for_the_bonus_too(tmp_path) -> None:
    """DFlash writes one place more than it guesses."""
    few = {"max_num_batched_tokens": 16, "max_num_seqs": 4, "max_model_len": 512}
    plan = drafted(tmp_path, QWEN3, ASKED, DFLASH, **few)
    assert plan.error is not None
    assert plan.error.message.endswith("=16 and num_lookahead_tokens=16.")


@pytest.mark.parametrize(
    ("asked", "changed", "more", "words"),
    [
        (ASKED, {"architectures": ["LiLiCorrDraftModel"]}, {}, "LiLiCorrDraftModel"),
        (ASKED, {"model_type": "laguna"}, {}, "laguna"),
        (ASKED, {}, {"pipeline_parallel_size": 2}, "pipeline_parallel_size"),
        (ASKED, {}, {"vllm_version": "0.30.0"}, "before 0.31.0"),
    ],
)
def test_what_is_not_modelled_of_blocks_is_named(
    tmp_path, asked, changed, more, words
) -> None:
    """With the reason."""
    assert_draft_uncounted(
        drafted(tmp_path, QWEN3, asked, {**DFLASH, **changed}, **more),
        words,
    )


def test_dspark_in_the_targets_own_checkpoint_is_not_modelled(tmp_path) -> None:
    """Only DeepSeek-V4 ships it so."""
    asked = {"method": "dspark", "num_speculative_tokens": 4}
    assert_draft_uncounted(
        drafted(tmp_path, LLAMA_8B, asked),
        "own checkpoint",
    )
