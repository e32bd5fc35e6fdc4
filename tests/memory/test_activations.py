"""The peak of the profile run: its forward pass."""

from dataclasses import replace

import pytest

import planner
from planner import plan
from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.memory.lines.compiling import flush_bytes
from planner.memory.lines.forward_pass import forward
from planner.memory.lines.sampler import blas_workspace_bytes
from planner.units import GIB, MIB
from tests.configs import GPT2, LLAMA_8B, QWEN3_MOE, gpu
from tests.hybrids import NEMOTRON_H
from tests.runs import run

NEMOTRON_9B = {
    **NEMOTRON_H,
    "hidden_size": 4480,
    "hybrid_override_pattern": "M-*",
    "intermediate_size": 15_680,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 80,
    "ssm_state_size": 128,
}


def test_a_compiled_layer_holds_attention_and_two_residuals_beside_its_mlp() -> None:
    """8,192 tokens x 2 bytes x (4,096 + 2 x 4,096 + 3 x 14,336)."""
    assert forward(run()).size_bytes == 8192 * 2 * (4096 + 2 * 4096 + 3 * 14336)


def test_tensor_parallel_divides_attention_and_mlp() -> None:
    """Not the residual."""
    cut = run(layout=ParallelLayout(tensor_parallel_size=2))
    assert forward(cut).size_bytes == 8192 * 2 * (2048 + 2 * 4096 + 3 * 7168)


def test_eager_mode_holds_three_hidden_states() -> None:
    """On two ranks as well: Llama has freed gate and up when the parts are summed.

    Dry runs of Llama 3.1 70B on two ranks, the first of two stages: 1,056 MiB.
    """
    alone = forward(run(enforce_eager=True)).size_bytes
    assert alone == 8192 * 2 * (3 * 4096 + 3 * 14336)
    large = {**LLAMA_8B, "hidden_size": 8192, "intermediate_size": 28_672}
    two = ParallelLayout(tensor_parallel_size=2)
    first = run(large, enforce_eager=True, layout=two, is_last_stage=False)
    assert forward(first).size_bytes == 8192 * 2 * (3 * 8192 + 3 * 14_336)
    assert forward(first).size_bytes == 1056 * MIB


def test_a_sum_over_ranks_lies_beside_gate_and_up_that_have_a_name() -> None:
    """Qwen3-8B on two T4: starts with 8,192, 4,096 and 2,048 tokens, as published.

    KV caches of 3.92, 4.22 and 4.37 GiB: 39,300 values of 2 bytes for each token.
    """
    qwen = {**LLAMA_8B, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    qwen["intermediate_size"] = 12_288
    two = ParallelLayout(tensor_parallel_size=2)
    size_bytes = forward(run(qwen, enforce_eager=True, layout=two)).size_bytes
    assert size_bytes == 8192 * 2 * (3 * 4096 + 4096 + 3 * 6144 + 4096)
    logged = (4.37 - 3.92) * GIB / (8192 - 2048) / 2
    assert abs(size_bytes / 8192 / 2 - logged) < 0.03 * logged


def test_a_sum_over_many_ranks_is_wider_than_a_ranks_gate_and_up() -> None:
    """On four ranks 14,336 / 4 and five hidden states of 4,096, not 3 and 3 x 3,584."""
    made = plan(
        "mistralai/Ministral-3-8B-Instruct-2512",
        gpu="L4",
        vllm_version="0.33.0",
        tensor_parallel_size=4,
        max_num_seqs=2,
        max_num_batched_tokens=65536,
        enforce_eager=True,
    )
    recorded = 3153070080  # by a dry start
    assert abs(65536 * 2 * (5 * 4096 + 14336 // 4) - recorded) < 2 * MIB
    assert abs(made.ranks[0].line("peak activation").size_bytes - recorded) < 2 * MIB


def test_gate_and_up_that_have_a_name_outlive_the_activation() -> None:
    """Qwen2's, beside the output of the down projection; compiled, they do not."""
    named = {**LLAMA_8B, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
    eager = forward(run(named, enforce_eager=True)).size_bytes
    assert eager == 8192 * 2 * (3 * 4096 + 3 * 14336 + 4096)
    assert forward(run(named)).size_bytes == forward(run()).size_bytes


def test_residuals_are_added_up_where_images_and_text_are_merged() -> None:
    """One hidden state less: llava-1.5-7b on an H200, 0.690 GiB in vLLM's dry start.

    8,192 tokens, and the outputs for 14 images of 576 tokens of 4,096 x 2 bytes, 63
    MiB in a block of 64.
    """
    planned = plan("llava-hf/llava-1.5-7b-hf", gpu="H200", enforce_eager=True)
    peak = planned.ranks[0].line("peak activation")
    images = 14 * 576 * 4096 * 2 + MIB
    assert peak.size_bytes == 8192 * 2 * (2 * 4096 + 3 * 11008) + images
    assert abs(peak.size_bytes / GIB - 0.690) < 0.002


def test_an_mlp_that_no_rank_divides_is_as_wide_on_each() -> None:
    """GPT-BigCode: 8,192 tokens x 2 bytes x (6 x 1,280 + 2 x 5,120)."""
    config = {
        **GPT2,
        "architectures": ["GPTBigCodeForCausalLM"],
        "model_type": "gpt_bigcode",
        "multi_query": True,
    }
    alone = forward(run(config, enforce_eager=True)).size_bytes
    assert alone == 8192 * 2 * (6 * 1280 + 2 * 5120)


@pytest.mark.parametrize(
    ("hidden", "inner", "logged_gib"),
    [
        (4096, 11008, 0.77),  # CodeLlama-7B
        (4096, 12800, 0.85),  # Granite-3.3-8B
    ],
)
def test_the_logged_peaks_of_models_with_small_vocabularies(
    hidden: int, inner: int, logged_gib: float
) -> None:
    """Starts of 0.19.0 on an H100, with nothing compiled before."""
    config = {**LLAMA_8B, "hidden_size": hidden, "intermediate_size": inner}
    start = run(config, version="0.19.0", uses_v2_runner=False)
    total = forward(start).size_bytes + blas_workspace_bytes(start) + flush_bytes(start)
    assert abs(total / GIB - logged_gib) < 0.01


def test_compiling_flushes_a_buffer_as_large_as_the_cache() -> None:
    """50 MiB on an H100; nothing in eager mode or where the size is not known."""
    assert flush_bytes(run()) == 50 * MIB
    assert flush_bytes(run(enforce_eager=True)) == 0
    assert flush_bytes(run(gpu=gpu(compute_capability=(6, 0)))) == 0


@pytest.mark.parametrize(
    ("name", "mib"),
    [("RTX PRO 6000", 128), ("RTX 5090", 96), ("RTX 5070 Ti", 48), ("L4", 48)],
)
def test_cards_of_one_generation_have_caches_of_several_sizes(
    name: str, mib: int
) -> None:
    """The smaller ones have a part of the chip."""
    assert flush_bytes(run(gpu=GPU.named(name))) == mib * MIB


@pytest.mark.parametrize(
    ("ranks", "groups", "fp32"), [(1, 8, 2), (4, 8, 2), (1, 1, 0), (2, 1, 2)]
)
def test_a_mixer_of_mamba_2_computes_its_norm_in_fp32(
    ranks: int, groups: int, fp32: int
) -> None:
    """Beside what it projected and its states; a kernel serves one group on one rank.

    A dry run of Nemotron-Nano-9B-v2, with 0.29.0: 1,357,402,624 bytes.
    """
    config = {**NEMOTRON_9B, "n_groups": groups}
    layout = ParallelLayout(tensor_parallel_size=ranks)
    found = forward(run(config, enforce_eager=True, layout=layout)).size_bytes
    copies = max(groups, ranks)  # each rank has a group that ranks do not divide
    inner, projected = 10_240, 2 * 10_240 + 2 * copies * 128 + 128
    normed = 2 * fp32 * inner or inner
    assert found == 8192 * 2 * (2 * 4480 + (projected + inner + normed) // ranks)
    if (ranks, groups) == (1, 8):
        assert abs(found - 1_357_402_624) < MIB


@pytest.mark.parametrize("ranks", [4, 8])
def test_a_mixer_of_the_first_mamba_copies_a_half(ranks: int) -> None:
    """Two inputs of 8,192 projected, one of them again, and five states of 4,096.

    A dry run of Jamba on eight ranks has 402.1 MiB in tensors.
    """
    sizes = {"max_num_batched_tokens": 8955, "max_num_seqs": 8, "max_model_len": 2048}
    start = {"tensor_parallel_size": ranks, "enforce_eager": True, **sizes}
    made = planner.plan("ai21labs/Jamba-v0.1", gpu="L4", **start)
    found = forward(made.ranks[0].profile_run).size_bytes
    assert 8955 * 2 * (5 * 4096 + 3 * 8192 // ranks) == found


def test_a_kind_of_layers_that_a_model_leaves_out_is_not_run() -> None:
    """A dense MLP of 6,144 in a model whose every layer has experts."""
    eager = run(QWEN3_MOE, enforce_eager=True)
    (dense,) = run({**QWEN3_MOE, "decoder_sparse_step": 1000}).model.layer_kinds
    kinds = (*eager.model.layer_kinds, dense)
    model = replace(eager.model, layer_kinds=kinds)
    assert {0} == {*model.layers} < {*range(len(kinds))}
    assert "MLP" not in forward(replace(eager, model=model)).why


@pytest.mark.parametrize(
    ("model", "ranks", "tokens", "recorded_bytes"),
    [
        ("Qwen/Qwen3-Next-80B-A3B-Thinking-FP8", 4, 8192, 385353728),
        ("nvidia/Qwen3-Next-80B-A3B-Instruct-NVFP4", 1, 65536, 6726620160),
    ],
)
def test_a_gated_delta_net_copies_what_it_projected_group_by_group(
    model: str, ranks: int, tokens: int, recorded_bytes: int
) -> None:
    """Of 2,048: 6 projected, 6 copied, 4 joined, 2 + 2 output, and 5 or 6 beside."""
    made = plan(
        model,
        gpu="H200",
        vllm_version="0.33.0",
        max_model_len=32768,
        max_num_seqs=24,
        max_num_batched_tokens=tokens,
        tensor_parallel_size=ranks,
        enforce_eager=True,
    )
    width = (6 + 6 + 4 + 2 + 2) * 2048 // ranks + (5 + (ranks > 1)) * 2048
    peak = made.ranks[0].line("peak activation").size_bytes
    assert peak == tokens * 2 * width
    assert abs(peak - recorded_bytes) < 20 * MIB  # dry starts


def test_gpt_neox_of_transformers_copies_what_it_has_rotated() -> None:
    """Of 6,144: 3 hidden states, 3 projected, 2 rotated, 3 copies, 1 + 1/2 in FP8."""
    made = plan(
        "EleutherAI/gpt-neox-20b",
        gpu="B200",
        vllm_version="0.33.0",
        entrypoint="llm",
        kv_cache_dtype="fp8_e4m3",
        max_num_seqs=8,
        enforce_eager=True,
    )
    peak = made.ranks[0].line("peak activation").size_bytes
    tokens = made.resolved.max_num_batched_tokens
    assert peak == tokens * 2 * 25 * 6144 // 2


def test_inputs_that_are_quantised_while_loading_exist_in_fp8_too() -> None:
    """Granite 4.2 3B on an L40S: 8,192 bytes of a token before the down projection."""
    given = {
        "gpu": "L40S",
        "max_num_batched_tokens": 22684,
        "max_num_seqs": 32,
        "max_model_len": 8192,
        "enforce_eager": True,
    }
    plain, online = (
        planner.plan("ibm-granite/granite-4.2-3b", **given, **more).ranks[0]
        for more in ({}, {"quantization": "fp8_per_tensor"})
    )
    more = online.line("peak activation").size_bytes
    assert more - plain.line("peak activation").size_bytes == 22684 * 8192
