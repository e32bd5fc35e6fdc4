"""Speculative decoding: the draft's weights, its KV cache, states, sizes, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.app.cli import main
from planner.errors import PlannerError, UnknownArchitecture
from planner.planning.result import Plan
from planner.units import GIB
from tests.configs import LLAMA_8B
from tests.plans import assert_draft_uncounted
from tests.tiny_models import written
from tools.configs import folder
from tools.starts import read_records

DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "torch_dtype": "bfloat16",
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "moe_intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_nextn_predict_layers": 1,
    "first_k_dense_replace": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "norm_topk_prob": True,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "q_lora_rank": 256,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}
QWEN3_NEXT: dict[str, Any] = {
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "torch_dtype": "bfloat16",
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "moe_intermediate_size": 256,
    "shared_expert_intermediate_size": 256,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "linear_num_key_heads": 8,
    "linear_num_value_heads": 16,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "linear_conv_kernel_dim": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "full_attention_interval": 4,
}
GLM4_MOE: dict[str, Any] = {
    "architectures": ["Glm4MoeForCausalLM"],
    "model_type": "glm4_moe",
    "torch_dtype": "bfloat16",
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "moe_intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_nextn_predict_layers": 1,
    "first_k_dense_replace": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "attention_bias": True,
    "use_qk_norm": True,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
}
NEMOTRON: dict[str, Any] = {
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "torch_dtype": "bfloat16",
    "hidden_size": 1024,
    "hybrid_override_pattern": "ME*E",
    "mtp_hybrid_override_pattern": "*E",
    "num_nextn_predict_layers": 1,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "mamba_num_heads": 16,
    "mamba_head_dim": 64,
    "n_groups": 2,
    "ssm_state_size": 64,
    "conv_kernel": 4,
    "use_conv_bias": True,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 256,
    "moe_shared_expert_intermediate_size": 512,
    "intermediate_size": 1024,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
}
LLAMA_1B = {
    **LLAMA_8B,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "tie_word_embeddings": True,
}
EAGLE3 = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 1,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "draft_vocab_size": 32000,
    "max_position_embeddings": 2048,
    "rope_theta": 500000.0,
}
EAGLE = {
    **{k: v for k, v in EAGLE3.items() if k != "draft_vocab_size"},
    "architectures": ["LlamaForCausalLM"],
}


def drafted(
    tmp_path: Path,
    config: dict[str, Any],
    speculation: dict[str, Any],
    draft: dict[str, Any] | None = None,
    **asked: Any,
) -> Plan:
    """Plan a model with who guesses for it, both from folders."""
    named = dict(speculation)
    if draft is not None:
        named["model"] = str(written(tmp_path / "draft", draft))
    return planner.plan(
        written(tmp_path / "target", config),
        gpu=asked.pop("gpu", "H100"),
        speculative_config=named,
        **asked,
    )


def draft_bytes(plan: Plan) -> int:
    """Return the draft's part of the weights on the last stage."""
    parts = {part.name: part.size_bytes for part in plan.ranks[-1].weight_parts}
    return parts.get("draft model", 0)


def test_a_deepseek_head_is_one_more_layer_behind_a_projection(tmp_path) -> None:
    """Word embeddings and head are the target's.

    enorm, hnorm, the norm before the head    3 x 1024
    eh_proj                                   1024 x 2048
    two norms of the layer                    2 x 1024
    q_a and kv_a                              (256 + 512 + 64) x 1024
    q_a_layernorm, kv_a_layernorm             256 + 512
    q_b                                       16 x 192 x 256
    kv_b, kept in its two halves as well      16 x 256 x 512
    o_proj                                    1024 x 2048
    router and its bias (4 bytes each)        8 x 1024, 8
    8 experts and a shared one                9 x 3 x 512 x 1024
    """
    asked = {"method": "deepseek_mtp", "num_speculative_tokens": 1}
    plan = drafted(tmp_path, DEEPSEEK, asked)
    without = drafted_without(tmp_path, DEEPSEEK)

    longer = {**DEEPSEEK, "num_hidden_layers": 5}
    one_more = drafted_without(tmp_path, longer)
    layer = one_more.ranks[0].weights_bytes - without.ranks[0].weights_bytes
    around = 2 * (3 * 1024 + 1024 * 2048)
    assert layer + around == draft_bytes(plan)
    assert 5 == plan.kv_groups[0].num_layers
    assert draft_bytes(plan) == (
        plan.ranks[0].weights_bytes - without.ranks[0].weights_bytes
    )


def test_an_eagle3_head_with_latent_attention(tmp_path) -> None:
    """One layer of DeepSeek's without experts; its first projection reads both states.

    q_a and kv_a                              (256 + 512 + 64) x 2 x 1024
    q_a_layernorm, kv_a_layernorm             256 + 512
    q_b                                       16 x 192 x 256
    kv_b, kept in its two halves as well      16 x 256 x 512
    o_proj                                    1024 x 2048
    gate and up, down                         3 x 2048 x 1024
    two norms, hidden_norm, the final norm    4 x 1024
    fc of three states                        1024 x 3 x 1024
    scales of attention                       4 x 4 bytes
    """
    head = {
        **DEEPSEEK,
        "architectures": ["Eagle3DeepseekV2ForCausalLM"],
        "num_hidden_layers": 1,
        "intermediate_size": 2048,
    }
    asked = {"method": "eagle3", "num_speculative_tokens": 3}

    plan = drafted(tmp_path, DEEPSEEK, asked, head)

    elements = (
        832 * 2048
        + 768
        + 16 * 192 * 256
        + 16 * 256 * 512
        + 1024 * 2048
        + 3 * 2048 * 1024
        + 4 * 1024
        + 1024 * 3 * 1024
    )
    assert 2 * elements + 16 == draft_bytes(plan)
    assert 5 == plan.kv_groups[0].num_layers


def drafted_without(tmp_path: Path, config: dict[str, Any], **asked: Any) -> Plan:
    """Plan the model alone."""
    return planner.plan(written(tmp_path / "alone", config), gpu="H100", **asked)


def test_qwen3_nexts_head_written_out(tmp_path) -> None:
    """One layer of full attention and experts, fed by `fc`.

    fc                              1024 x 2048
    its two norms, the final norm   3 x 1024
    two norms of the layer          2 x 1024
    qkv with a gate                 (2 x 8 + 2 + 2) x 128 x 1024
    o_proj                          1024 x 1024
    norms of query and key          2 x 128
    scales of attention             4 x 4 bytes
    router, gate of shared expert   8 x 1024, 1 x 1024
    8 experts and a shared one      9 x 3 x 256 x 1024
    """
    elements = (
        1024 * 2048
        + 3 * 1024
        + 2 * 1024
        + 20 * 128 * 1024
        + 1024 * 1024
        + 2 * 128
        + 8 * 1024
        + 1024
        + 9 * 3 * 256 * 1024
    )
    asked = {"method": "mtp", "num_speculative_tokens": 2}
    plan = drafted(tmp_path, QWEN3_NEXT, asked)
    assert 2 * elements + 4 * 4 == draft_bytes(plan)


def test_glm_45s_head_is_one_more_layer(tmp_path) -> None:
    """The difference of three and four layers, and the projection around it."""
    asked = {"method": "mtp", "num_speculative_tokens": 1}
    plan = drafted(tmp_path, GLM4_MOE, asked)
    three = drafted_without(tmp_path, GLM4_MOE).ranks[0].weights_bytes
    four = drafted_without(tmp_path, {**GLM4_MOE, "num_hidden_layers": 4})
    around = 2 * (3 * 1024 + 1024 * 2048)
    assert four.ranks[0].weights_bytes - three + around == draft_bytes(plan)


def test_nemotrons_head_follows_its_pattern(tmp_path) -> None:
    """One layer of attention and one of experts; three norms, a projection, two norms.

    eh_proj                          1024 x 2048
    norms                            (3 + 2) x 1024
    qkv and o_proj                   (8 + 2 + 2) x 128 x 1024, 1024 x 1024
    scales of attention              4 x 4 bytes
    router, its bias of 4 bytes      8 x 1024, 8
    8 experts, a shared one          8 x 2 x 256 x 1024, 2 x 512 x 1024
    """
    asked = {"method": "mtp", "num_speculative_tokens": 1}
    plan = drafted(tmp_path, NEMOTRON, asked)
    elements = (
        1024 * 2048
        + 5 * 1024
        + 12 * 128 * 1024
        + 1024 * 1024
        + 8 * 2 * 256 * 1024
        + 2 * 512 * 1024
        + 8 * 1024
    )
    assert 2 * elements + 4 * 8 + 4 * 4 == draft_bytes(plan)
    attention = [g for g in plan.kv_groups if g.kind == "FullAttentionSpec"]
    assert 2 == sum(group.num_layers for group in attention)


def test_a_quantised_checkpoint_holds_its_head_as_its_exceptions_say(tmp_path) -> None:
    """fc in blocks of fp8 with a scale each, unless it is left alone."""
    blocks = {
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "activation_scheme": "dynamic",
    }
    asked = {"method": "mtp", "num_speculative_tokens": 2}
    packed = drafted(tmp_path, {**QWEN3_NEXT, "quantization_config": blocks}, asked)
    alone = {**blocks, "modules_to_not_convert": ["mtp.fc"]}
    plain = drafted(tmp_path, {**QWEN3_NEXT, "quantization_config": alone}, asked)
    scales = 4 * (1024 // 128) * (2048 // 128)
    assert 1024 * 2048 - scales == draft_bytes(plain) - draft_bytes(packed)


def test_an_eagle_3_head_written_out(tmp_path) -> None:
    """Its own head of 32,000 words; the target's word embeddings.

    qkv, of twice the width           (32 + 2 x 8) x 128 x 8192
    o_proj                            4096 x 4096
    gate, up and down                 3 x 14336 x 4096
    four norms: input, hidden, post-attention, final
    fc, of three hidden states        3 x 4096 x 4096
    head                              32000 x 4096
    where its words are the target's  32000 x 8 bytes
    scales of attention               4 x 4 bytes
    rotary table of 8,192 positions   8192 x 128
    """
    elements = (
        48 * 128 * 8192
        + 4096 * 4096
        + 3 * 14336 * 4096
        + 4 * 4096
        + 3 * 4096 * 4096
        + 32000 * 4096
        + 8192 * 128
    )
    asked = {"method": "eagle3", "num_speculative_tokens": 3}
    plan = drafted(tmp_path, LLAMA_8B, asked, EAGLE3, max_model_len=8192)
    assert 2 * elements + 8 * 32000 + 4 * 4 == draft_bytes(plan)
    assert [33] == [group.num_layers for group in plan.kv_groups]
    assert any("taken for the target's own" in note for note in plan.notes)


def test_an_eagle_head_written_out(tmp_path) -> None:
    """Neither a head nor embeddings of its own, and no norm before its attention.

    qkv, o_proj, gate, up, down as a layer of the target; one norm; fc 4096 x 8192;
    a rotary table of its own, for the target's is scaled.
    """
    layer = 48 * 128 * 4096 + 4096 * 4096 + 3 * 14336 * 4096
    elements = layer + 4096 + 4096 * 8192 + 8192 * 128
    asked = {"method": "eagle", "num_speculative_tokens": 3}
    plan = drafted(tmp_path, LLAMA_8B, asked, EAGLE, max_model_len=8192)
    assert 2 * elements + 4 * 4 == draft_bytes(plan)


def test_an_eagle_head_is_cut_over_the_ranks_but_for_its_projection(tmp_path) -> None:
    """Half of qkv, o_proj, mlp and head; fc, norms and tables whole."""
    asked = {"method": "eagle3", "num_speculative_tokens": 3}
    one = drafted(tmp_path, LLAMA_8B, asked, EAGLE3, max_model_len=8192)
    two = drafted(
        tmp_path, LLAMA_8B, asked, EAGLE3, max_model_len=8192, tensor_parallel_size=2
    )
    cut = 48 * 128 * 8192 + 4096 * 4096 + 3 * 14336 * 4096 + 32000 * 4096
    assert 2 * cut // 2 == draft_bytes(one) - draft_bytes(two)


def test_before_0_27_the_rotary_table_is_as_short_as_the_draft_says(tmp_path) -> None:
    """2,048 positions instead of max_model_len."""
    asked = {"method": "eagle3", "num_speculative_tokens": 3}
    new, old = (
        drafted(
            tmp_path, LLAMA_8B, asked, EAGLE3, max_model_len=8192, vllm_version=version
        )
        for version in ("0.27.0", "0.26.0")
    )
    assert 2 * (8192 - 2048) * 128 == draft_bytes(new) - draft_bytes(old)


def test_a_speculators_checkpoint_is_read_by_its_inner_config(tmp_path) -> None:
    """The same head, as the speculators library publishes it."""
    inner = {
        k: v
        for k, v in EAGLE3.items()
        if k not in ("architectures", "draft_vocab_size")
    }
    outer = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": 32000,
        "transformer_layer_config": inner,
    }
    asked = {"num_speculative_tokens": 3}
    plan = drafted(tmp_path, LLAMA_8B, asked, outer, max_model_len=8192)
    plain = drafted(
        tmp_path,
        LLAMA_8B,
        {**asked, "method": "eagle3"},
        EAGLE3,
        max_model_len=8192,
    )
    assert draft_bytes(plain) == draft_bytes(plan)


def test_a_draft_model_is_held_whole_with_all_its_layers(tmp_path) -> None:
    """Its weights as if it were served alone, less a rotary table that is the target's.

    Heads of 64 need a table of their own: 131,072 x 64.
    """
    asked = {"num_speculative_tokens": 4}
    plan = drafted(tmp_path, LLAMA_8B, asked, LLAMA_1B)
    alone = drafted_without(tmp_path, LLAMA_1B)
    assert alone.ranks[0].weights_bytes == draft_bytes(plan)
    assert [34] == [group.num_layers for group in plan.kv_groups]


@pytest.mark.parametrize("method", ["eagle", "eagle3", "draft_model"])
def test_the_target_cannot_be_its_own_draft(tmp_path, method) -> None:
    """The same folder under both names is an error that says so."""
    target = written(tmp_path / "target", LLAMA_8B)
    named = {"method": method, "model": str(target), "num_speculative_tokens": 2}
    assert_draft_uncounted(
        planner.plan(target, gpu="H100", speculative_config=named),
        "the target itself",
    )


def test_a_draft_model_lies_on_the_last_stage_alone(tmp_path) -> None:
    """So do layers for prediction, with word embeddings of their own."""
    asked = {"method": "mtp", "num_speculative_tokens": 1}
    one = drafted(tmp_path, DEEPSEEK, asked)
    two = drafted(tmp_path, DEEPSEEK, asked, pipeline_parallel_size=2)
    assert 2 * 32000 * 1024 == draft_bytes(two) - draft_bytes(one)
    first = {part.name for part in two.ranks[0].weight_parts}
    assert "draft model" not in first


def test_states_keep_one_more_of_each_token_guessed(tmp_path) -> None:
    """A request takes 1 + 3 states, and the convolution remembers 3 inputs more.

    Without prefix caching; of 2 x 8 x 64 + 16 x 64 channels, 2 bytes each.
    """
    asked = {"method": "ngram", "num_speculative_tokens": 3}
    plan = drafted(tmp_path, QWEN3_NEXT, asked, enable_prefix_caching=False)
    alone = drafted_without(tmp_path, QWEN3_NEXT, enable_prefix_caching=False)
    states = [g for g in plan.kv_groups if g.kind == "MambaSpec"]
    assert len(states) == len([g for g in alone.kv_groups if g.kind == "MambaSpec"])
    attention = plan.blocks_per_request - 4 * len(states)
    before = alone.blocks_per_request - len(states)
    assert attention <= before


def test_states_of_older_releases_are_not_modelled_with_guesses(tmp_path) -> None:
    """Before 0.15.0 their slots are counted otherwise."""
    asked = {"method": "ngram", "num_speculative_tokens": 3}
    with pytest.raises(UnknownArchitecture, match="GatedDeltaNetState"):
        drafted(tmp_path, QWEN3_NEXT, asked, vllm_version="0.14.0")


def test_n_grams_keep_every_requests_tokens_on_the_gpu(tmp_path) -> None:
    """64 requests x (8,192 tokens x 4 + 32 x 8 + 4 x 8 bytes + 4 x 8)."""
    asked = {"method": "ngram", "num_speculative_tokens": 4}
    plan = drafted(tmp_path, LLAMA_8B, asked, max_model_len=8192, max_num_seqs=64)
    line = next(x for x in plan.ranks[0].lines if x.name == "persistent buffers")
    assert "draft buffers 2.0 MiB" in line.why
    assert 0 == draft_bytes(plan)


def test_ngram_gpu_is_ngram_from_0_32_on(tmp_path) -> None:
    """The same table; before, its buffers are not known."""
    one, other = (
        drafted(tmp_path, LLAMA_8B, {"method": method, "num_speculative_tokens": 4})
        for method in ("ngram", "ngram_gpu")
    )
    assert one.ranks[0].lines == other.ranks[0].lines
    assert_draft_uncounted(
        drafted(
            tmp_path,
            LLAMA_8B,
            {"method": "ngram_gpu", "num_speculative_tokens": 4},
            vllm_version="0.31.0",
        ),
        "ngram_gpu",
    )


def test_a_probabilistic_drafts_logits_are_kept(tmp_path) -> None:
    """64 requests x 3 tokens x 128,256 words x 2 bytes, beside the buffers."""
    asked = {"num_speculative_tokens": 3}
    greedy, sampled = (
        drafted(tmp_path, LLAMA_8B, {**asked, **more}, LLAMA_1B, max_num_seqs=64)
        for more in ({}, {"draft_sample_method": "probabilistic"})
    )
    sizes = [
        next(
            x for x in plan.ranks[0].lines if x.name == "persistent buffers"
        ).size_bytes
        for plan in (greedy, sampled)
    ]
    assert 64 * 3 * 128256 * 2 == sizes[1] - sizes[0]


def test_decode_steps_of_whole_requests_are_captured(tmp_path) -> None:
    """5 tokens a request, of 1, 2, 4, 8 and 16 requests, beside the usual sizes."""
    asked = {"method": "ngram", "num_speculative_tokens": 4}
    plan = drafted(tmp_path, LLAMA_8B, asked, max_num_seqs=16)
    assert plan.resolved is not None
    sizes = plan.resolved.cudagraph_capture_sizes
    assert {1, 2, 4, *range(8, 161, 8), 5, 10, 20, 40, 80} == set(sizes)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"method": "ngram"},
            "num_speculative_tokens must be provided with speculative model unless",
        ),
        (
            {"method": "ngram", "num_speculative_tokens": 0},
            "1 validation error for SpeculativeConfig\nnum_speculative_tokens",
        ),
        (
            {"num_speculative_tokens": 3},
            "num_speculative_tokens was provided but without speculative model.",
        ),
        (
            {
                "method": "ngram",
                "num_speculative_tokens": 3,
                "prompt_lookup_min": 5,
                "prompt_lookup_max": 2,
            },
            "prompt_lookup_min=5 must be <= prompt_lookup_max=2",
        ),
        (
            {"method": "mtp", "num_speculative_tokens": 1},
            "Unsupported speculative method: 'mtp'",
        ),
        (
            {"method": "nope", "num_speculative_tokens": 1},
            "1 validation error for SpeculativeConfig\nmethod",
        ),
        (
            {"method": "ngram", "num_speculative_tokens": 1, "tensor_parallel_size": 1},
            "'tensor_parallel_size' is not a valid argument in the speculative_config.",
        ),
        (
            {"method": "ngram", "num_speculative_tokens": 1, "bogus": 1},
            "1 validation error for SpeculativeConfig\nbogus",
        ),
        (
            {"method": "suffix", "suffix_decoding_max_tree_depth": 0},
            "suffix_decoding_max_tree_depth=0 must be >= 1",
        ),
    ],
)
def test_what_vllm_refuses_is_refused_in_its_words(tmp_path, asked, words) -> None:
    """A refused plan, with the beginning of vLLM's message."""
    plan = drafted(tmp_path, LLAMA_8B, asked)
    assert plan.error is not None
    assert "refused" == plan.error.kind
    assert words in plan.error.message


@pytest.mark.parametrize("depth", ["8", 1.5, True, [8]])
def test_a_depth_of_suffixes_is_a_whole_number(tmp_path, depth) -> None:
    """Guesses are as many where their number is not given."""
    asked = {"method": "suffix", "suffix_decoding_max_tree_depth": depth}
    with pytest.raises(PlannerError, match=r"max_tree_depth=.*a whole number"):
        drafted(tmp_path, LLAMA_8B, asked)


def test_a_draft_of_another_vocabulary_is_refused(tmp_path) -> None:
    """It would give words that the target does not have."""
    other = {**LLAMA_1B, "vocab_size": 151936}
    plan = drafted(tmp_path, LLAMA_8B, {"num_speculative_tokens": 3}, other)
    assert plan.error is not None
    assert plan.error.message.startswith(
        "Target and draft model should have the same vocabulary size. Target model "
        "vocab_size=128256. Draft model vocab_size=151936."
    )


def test_a_draft_without_a_number_of_tokens_is_refused(tmp_path) -> None:
    """Only checkpoints that say how far they look ahead need none."""
    plan = drafted(tmp_path, LLAMA_8B, {}, LLAMA_1B)
    assert plan.error is not None
    assert plan.error.message.startswith("A speculative model was provided, but")


def test_tokens_that_the_layers_do_not_divide_are_refused(tmp_path) -> None:
    """Two layers guess two tokens at a time."""
    two = {**DEEPSEEK, "num_nextn_predict_layers": 2}
    plan = drafted(tmp_path, two, {"method": "mtp", "num_speculative_tokens": 3})
    assert plan.error is not None
    assert (
        "num_speculative_tokens:3 must be divisible by n_predict=2"
        == plan.error.message
    )


def test_a_draft_is_cut_as_its_target_or_not_at_all(tmp_path) -> None:
    """Two ranks of four are neither."""
    asked = {"num_speculative_tokens": 3, "draft_tensor_parallel_size": 2}
    plan = drafted(tmp_path, LLAMA_8B, asked, LLAMA_1B, tensor_parallel_size=4)
    assert plan.error is not None
    assert plan.error.message == (
        "speculative_draft_tensor_parallel_size=2 cannot be other value than 1 or "
        "target model tensor_parallel_size"
    )


def test_guesses_without_a_draft_are_waited_for_on_the_first_runner(tmp_path) -> None:
    """No second batch in advance for suffixes; n-grams from 0.32.0 on have one."""
    suffix = {"method": "suffix", "num_speculative_tokens": 4}
    ngram = {"method": "ngram", "num_speculative_tokens": 4}
    ahead = [
        drafted(tmp_path, LLAMA_8B, asked, vllm_version=version).resolved
        for asked, version in (
            (suffix, "0.33.0"),
            (ngram, "0.31.0"),
            (ngram, "0.33.0"),
        )
    ]
    assert [False, False, True] == [r is not None and r.async_scheduling for r in ahead]


def test_the_short_spellings_are_the_same_and_exclude_the_long_ones(tmp_path) -> None:
    """--spec-method and --spec-tokens, from 0.22.0 on."""
    model = written(tmp_path / "target", LLAMA_8B)
    long = planner.plan(
        model, speculative_config={"method": "ngram", "num_speculative_tokens": 4}
    )
    short = planner.plan(model, spec_method="ngram", spec_tokens=4)
    assert long.ranks[0].lines == short.ranks[0].lines
    both = planner.plan(
        model,
        speculative_config={"method": "ngram"},
        spec_method="ngram",
        spec_tokens=4,
    )
    assert both.error is not None
    assert both.error.message == (
        "--spec-method and --speculative-config['method'] are mutually exclusive"
    )


def test_a_plan_changed_forgets_its_draft(tmp_path) -> None:
    """Its model is the target, whatever guessed for it before."""
    plan = drafted(tmp_path, LLAMA_8B, {"num_speculative_tokens": 4}, LLAMA_1B)
    alone = plan.changed(speculative_config=None)
    again = plan.changed(
        speculative_config={"method": "ngram", "num_speculative_tokens": 2}
    )
    assert [34] == [group.num_layers for group in plan.kv_groups]
    assert [32] == [group.num_layers for group in alone.kv_groups]
    assert 0 == draft_bytes(alone) == draft_bytes(again)
    assert alone.model is not None
    assert alone.model.speculation is None


def test_the_command_line_takes_vllms_spellings(tmp_path, capsys) -> None:
    """-sc, -O and -cc as well as their long forms; bad JSON in a sentence."""
    folder = str(written(tmp_path / "target", LLAMA_8B))
    config = '{"method": "ngram", "num_speculative_tokens": 4}'
    assert 0 == main(["plan", folder, "-sc", config, "-O1"])
    told = capsys.readouterr().out
    assert f"--speculative-config '{config}'" in told
    assert "--optimization-level 1" in told
    assert 0 == main(["plan", folder, "-cc", '{"cudagraph_mode": "NONE"}'])
    capsys.readouterr()
    assert 0 != main(["plan", folder, "--speculative-config", '{"method": ngram}'])
    assert "is not JSON" in capsys.readouterr().err


def test_bad_json_is_said_to_be_bad(tmp_path) -> None:
    """With what would be right."""
    model = written(tmp_path / "target", LLAMA_8B)
    with pytest.raises(PlannerError, match="is not JSON") as error:
        planner.plan(model, speculative_config='{"method": ngram}')
    assert '"num_speculative_tokens": 4' in str(error.value)
    text = json.dumps({"method": "ngram", "num_speculative_tokens": 4})
    assert planner.plan(model, speculative_config=text).fits
    with pytest.raises(PlannerError, match="names and values"):
        planner.plan(model, speculative_config=[1])


def test_a_step_needs_room_for_the_guesses(tmp_path) -> None:
    """In 0.33.0 of one request, before of a token for each request."""
    asked = {"num_speculative_tokens": 5}
    few = {"max_num_batched_tokens": 4, "max_num_seqs": 4, "max_model_len": 512}
    plan = drafted(tmp_path, LLAMA_8B, asked, LLAMA_1B, **few)
    assert plan.error is not None
    assert plan.error.message.endswith(
        "Got max_num_batched_tokens=4 and num_lookahead_tokens=5."
    )
    old = drafted(tmp_path, LLAMA_8B, asked, LLAMA_1B, vllm_version="0.32.0", **few)
    assert old.error is not None
    assert old.error.message.startswith("max_num_scheduled_tokens is set to 0 based on")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"method": "custom_class", "model": "x.Y", "num_speculative_tokens": 3},
            "class",
        ),
    ],
)
def test_what_is_not_modelled_is_named(tmp_path, asked, words) -> None:
    """With the reason."""
    draft = EAGLE if "model" in asked else None
    assert_draft_uncounted(
        drafted(tmp_path, LLAMA_8B, asked, draft),
        words,
    )


def test_a_key_that_is_not_counted_is_a_condition() -> None:
    """The draft's own kernels, which the plan has as the target's."""
    asked = {"method": "ngram", "num_speculative_tokens": 3, "kv_cache_dtype": "fp8"}
    found = planner.plan("Qwen/Qwen3-14B", speculative_config=asked)
    assert (
        "speculative_config.kv_cache_dtype=fp8: another dtype of the draft's KV cache",
    ) == found.conditions


RECORDED = [
    # What vLLM 0.33.0's own classes hold after loading, less the embeddings and heads
    # that they share, and the buffer of choices, which is the target's.
    ("deepseek-ai--DeepSeek-V3.2", 8, 1, 1_680_581_808),
    ("Qwen--Qwen3.5-27B", 2, 2, 424_725_520),
    ("zai-org--GLM-4.5", 8, 1, 1_091_885_712),
    ("nvidia--Qwen3.6-35B-A3B-NVFP4", 1, 2, 1_689_281_552),
    ("Qwen--Qwen3-Next-80B-A3B-Instruct-FP8", 4, 2, 827_876_368),
    ("XiaomiMiMo--MiMo-7B-Base", 1, 1, 421_580_816),
    ("zai-org--GLM-5.2-FP8", 8, 1, 1_415_952_912),
    ("nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8", 4, 2, 1_487_972_368),
]


@pytest.mark.parametrize(("config", "ranks", "tokens", "size_bytes"), RECORDED)
def test_layers_for_prediction_are_vllms_to_the_byte(
    config: str, ranks: int, tokens: int, size_bytes: int
) -> None:
    """Quantised or not, of dense models and of experts."""
    plan = planner.plan(
        folder(config),
        gpu="H100",
        tensor_parallel_size=ranks,
        trust_remote_code=True,
        speculative_config={"method": "mtp", "num_speculative_tokens": tokens},
    )
    assert size_bytes == draft_bytes(plan)


PUBLISHED = [
    # id of the corpus row, config of the same layers, prefix caching, tokens logged
    ("so-gb10-qwen38-27b-int4-mtp3", "Qwen--Qwen3.5-27B", None, 1191213),
    ("so-gb10-qwen38-27b-nvfp4-mtp3", "nvidia--Qwen3.6-27B-NVFP4", None, 2192477),
]


@pytest.mark.parametrize(("row", "config", "caching", "tokens"), PUBLISHED)
def test_published_starts_with_heads_hold_the_tokens_that_they_logged(
    row: str, config: str, caching: bool | None, tokens: int
) -> None:
    """Given the KV cache memory of the log, tokens and concurrency are its own."""
    found = next(record for record in read_records() if record["id"] == row)
    asked = {k: v for k, v in found["args"].items() if k != "quantization"}
    plan = planner.plan(
        folder(config),
        gpu=found["gpu"],
        vllm_version=found["vllm_version"],
        kv_cache_memory_bytes=int(found["measured"]["available_kv_gib"] * GIB),
        enable_prefix_caching=caching,
        **asked,
    )
    assert tokens == plan.kv_cache_size_tokens
    assert found["measured"]["max_concurrency"] == round(plan.max_concurrency, 2)
