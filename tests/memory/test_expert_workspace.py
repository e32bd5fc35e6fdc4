"""What routed experts need while they compute, in each release.

Unless a test says otherwise: 8,192 tokens in bfloat16 on one H100.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.releases import MODELLED, resolve_version
from planner.memory.lines.expert_block import blocks, copied_inputs_bytes
from planner.memory.lines.expert_workspace import (
    expert_transient,
    expert_transient_bytes,
    expert_workspace,
    expert_workspace_bytes,
)
from planner.memory.profile_run import ProfileRun
from planner.models.experts import FusedMoE
from planner.models.tensors import ExpertsKernel
from planner.units import GIB, MIB
from tests.configs import LLAMA_8B, QWEN3_MOE, architecture, gpu
from tests.rows import each_row

MIXTRAL = {
    **QWEN3_MOE,
    "hidden_size": 4096,
    "moe_intermediate_size": 14336,
    "num_experts": 8,
    "num_experts_per_tok": 2,
}
V2_LITE = {
    **QWEN3_MOE,
    "hidden_size": 2048,
    "moe_intermediate_size": 1408,
    "num_experts": 64,
    "num_experts_per_tok": 6,
}
QWEN3_235B = {
    **QWEN3_MOE,
    "hidden_size": 4096,
    "moe_intermediate_size": 1536,
    "num_experts": 128,
    "num_experts_per_tok": 8,
}
BLOCK_FP8 = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "weight_block_size": [128, 128],
}
GPTQ = {
    "quant_method": "gptq",
    "bits": 4,
    "group_size": 128,
    "desc_act": False,
    "sym": True,
}
MXINT4 = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "ignore": [],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 4,
                "type": "int",
                "strategy": "group",
                "group_size": 32,
                "symmetric": True,
            },
        }
    },
}


def run(
    config: dict[str, Any],
    version: str = "0.33.0",
    *,
    tokens: int = 8192,
    capability: tuple[int, int] = (9, 0),
    **layout: Any,
) -> ProfileRun:
    """Return the profile run of a model with routed experts, not compiled."""
    release, _ = resolve_version(version)
    return ProfileRun(
        enforce_eager=True,
        model=architecture(config),
        gpu=gpu(compute_capability=capability),
        layout=ParallelLayout(compute_capability=capability, release=release, **layout),
        dtype="bfloat16",
        max_num_batched_tokens=tokens,
        max_num_seqs=256,
        is_first_stage=True,
        is_last_stage=True,
    )


def test_mixtral_keeps_what_a_start_with_two_ranks_kept() -> None:
    """0.19.0, measured 0.656 GiB: 8,192 x 2 x (7,168 + 14,336) x 2 bytes."""
    size = expert_workspace_bytes(run(MIXTRAL, "0.19.0", tensor_parallel_size=2))
    assert 8192 * 2 * (7168 + 14336) * 2 == size
    assert f"{size / GIB:.3f}" == "0.656"


def test_deepseek_v2_lite_keeps_what_a_start_kept() -> None:
    """0.19.0, measured 0.445 GiB: 8,192 x 6 x (2,048 + 2,816) x 2 bytes."""
    size = expert_workspace_bytes(run(V2_LITE, "0.19.0"))
    assert 8192 * 6 * (2048 + 2816) * 2 == size
    assert f"{size / GIB:.3f}" == "0.445"


@pytest.mark.parametrize(
    ("version", "chunk"), [("0.9.2", 32768), ("0.11.2", 32768), ("0.13.0", 16384)]
)
def test_older_releases_gave_intermediate_results_back(
    version: str, chunk: int
) -> None:
    """40,000 tokens in chunks: chunk x 2 x (28,672 + 14,336) x 2 bytes, none kept.

    Router: 40,000 x (8 x 4 + 2 x 12) bytes. From 0.11.1 on an output of 40,000 x
    4,096 x 2 bytes.
    """
    before = run(MIXTRAL, version, tokens=40000)
    assert 0 == expert_workspace_bytes(before)
    output = 0 if version == "0.9.2" else 40000 * 4096 * 2
    assert chunk * 2 * (28672 + 14336) * 2 + 40000 * 56 + output == (
        expert_transient_bytes(before)
    )


def test_chunks_share_a_workspace_with_an_output_of_all_tokens() -> None:
    """0.17.1: 16,384 x 2 x (14,336 + 28,672) x 2 bytes + 40,000 x 4,096 x 2 bytes."""
    chunked = run(MIXTRAL, "0.17.1", tokens=40000)
    assert 16384 * 2 * (14336 + 28672) * 2 + 40000 * 4096 * 2 == (
        expert_workspace_bytes(chunked)
    )


def test_later_releases_compute_all_tokens_at_once() -> None:
    """0.18.0: 40,000 x 2 x (14,336 + 28,672) x 2 bytes."""
    whole = run(MIXTRAL, "0.18.0", tokens=40000)
    assert 40000 * 2 * (14336 + 28672) * 2 == expert_workspace_bytes(whole)


@pytest.mark.parametrize("tokens", [8192, 32768, 65536])
def test_block_fp8_copies_the_inputs_of_both_gemms(tokens: int) -> None:
    """Qwen3-235B in 0.20.0 on four ranks, 384 columns each.

    Workspace: 2 x 8 x 4,096 x 2 bytes a token. Beside it 4,096 + 32 x 4 bytes of
    input, 8 x (384 + 3 x 4) of the second GEMM's, 4,096 x 2 of output and
    128 x 4 + 8 x 12 of routing.
    """
    config = {**QWEN3_235B, "quantization_config": BLOCK_FP8}
    start = run(config, "0.20.0", tokens=tokens, tensor_parallel_size=4)
    assert tokens * 2 * 8 * 4096 * 2 == expert_workspace_bytes(start)
    beside = 4096 + 32 * 4 + 8 * (384 + 3 * 4) + 4096 * 2 + 128 * 4 + 8 * 12
    assert tokens * beside == expert_transient_bytes(start)


def test_ranks_that_share_block_fp8_experts_take_flashinfer() -> None:
    """0.17.0 on Hopper: 4,096 x 2 bytes a token kept, whatever the columns.

    For a moment inputs of 8 x 4,096 and outputs of 8 x 3,072, 2 bytes each; 8 x 4,096
    bytes of FP8 inputs, with 32 scales for each of 65,536 rows (and 31 to fill up each
    of 32 experts); the output and routing as above. 0.14.1 had Triton, 0.15.1
    FlashInfer for all.
    """
    config = {**QWEN3_235B, "quantization_config": BLOCK_FP8}
    ranks = {"tensor_parallel_size": 4, "enable_expert_parallel": True}
    start = run(config, "0.17.0", **ranks)
    assert 8192 * 4096 * 2 == expert_workspace_bytes(start)
    products = 8 * (4096 * 2 + 3072 * 2 + 4096)
    scales = (65536 + 31 * 32) * 32 * 4
    assert 8192 * (products + 4096 * 2 + 128 * 4 + 8 * 12) + scales == (
        expert_transient_bytes(start)
    )
    assert "FlashInfer" in expert_workspace(run(config, "0.15.1")).why
    assert "Triton" in expert_workspace(run(config, "0.14.1", **ranks)).why


@pytest.mark.xfail(
    strict=True,
    reason="the log names Triton's kernel, the planner takes FlashInfer's: 11.10 GiB",
)
def test_qwen3_235b_needs_what_a_start_needed() -> None:
    """0.20.0, 65,536 tokens, four ranks that share the experts: 12.38 GiB measured.

    Of these 2.35 GiB are not PyTorch's, so 10.03 are; input and residual are 1 GiB.
    """
    config = {**QWEN3_235B, "quantization_config": BLOCK_FP8}
    ranks = {"tensor_parallel_size": 4, "enable_expert_parallel": True}
    start = run(config, "0.20.0", tokens=65536, **ranks)
    size = expert_workspace_bytes(start) + expert_transient_bytes(start)
    assert f"{size / (1 << 30) + 1:.2f}" == "10.04"


def test_replicas_gather_what_enters_the_experts() -> None:
    """8 replicas of 1,024 tokens on Hopper: 8,192 enter, 1,024 come out.

    In 16 bits for FlashInfer (4,096 x 2), with weight and expert of 8 choices; scores
    of 1,024 tokens for 128 experts. The products as above, of 16 experts: 31 x 16 rows
    to fill up, in whole tiles of 32.
    """
    config = {**QWEN3_235B, "quantization_config": BLOCK_FP8}
    ranks = {"data_parallel_size": 8, "enable_expert_parallel": True}
    start = run(config, tokens=1024, **ranks)
    assert 8192 * 4096 * 2 == expert_workspace_bytes(start)
    products = 8192 * 8 * (4096 * 2 + 3072 * 2 + 4096) + (65536 + 15 * 32) * 32 * 4
    gathered = 8192 * (4096 * 2 + 8 * 8)
    own = 1024 * (4096 * 2 + 128 * 4 + 8 * 12)
    assert products + gathered + own == expert_transient_bytes(start)


def test_one_call_for_all_replicas_returns_the_output_of_all() -> None:
    """TensorRT-LLM on B200, FP8 blocks: 8 x 16,384 tokens, 128 experts of 1,536.

    Tiles of 64 for 1,048,576 rows. A row: 3 x 1,536 bytes and 36 scales of 4, 4,096 x 2
    of the second product, 4 for its place. Inputs: 4,096 bytes and 32 scales, which are
    transposed. Output 4,096 x 2, scores 128 x 4.
    """
    config = {**QWEN3_235B, "quantization_config": BLOCK_FP8}
    ranks = {"data_parallel_size": 8, "enable_expert_parallel": True}
    start = run(config, tokens=16384, capability=(10, 0), **ranks)
    rows = (128 + (1048576 - 128) // 64) * 64
    products = rows * (3 * 1536 + 36 * 4 + 4096 * 2 + 4)
    gathered = 131072 * (4096 + 2 * 32 * 4 + 4096 * 2 + 128 * 4)
    own = 16384 * (128 * 4 + 8 * 12)
    assert products + gathered + own == expert_transient_bytes(start)


@pytest.mark.parametrize(
    ("tokens", "tile"), [(64, 8), (65, 8), (1024, 32), (4096, 64), (65536, 64)]
)
def test_tiles_are_one_below_the_first_that_holds_an_experts_rows(
    tokens: int, tile: int
) -> None:
    """8 of 128 experts a token: 64 tokens give each 4 rows, 1,024 give 64."""
    rows = (128 + (tokens * 8 - 128) // tile) * tile
    start = run(QWEN3_235B, tokens=tokens, capability=(10, 0))
    own = tokens * (4096 * 2 + 128 * 4 + 8 * 12)
    assert rows * (1536 * 2 + 4096 * 2 + 4) + own == expert_transient_bytes(start)


def test_marlin_took_all_tokens_at_once_even_before_0_18() -> None:
    """GPTQ in 0.15.1: 40,000 x 2 x (28,672 + 14,336) x 2 bytes, and the output."""
    config = {**MIXTRAL, "quantization_config": GPTQ}
    start = run(config, "0.15.1", tokens=40000, capability=(8, 0))
    assert 0 == expert_workspace_bytes(start)
    assert 40000 * (2 * (28672 + 14336) * 2 + 4096 * 2 + 56) == (
        expert_transient_bytes(start)
    )


def test_marlin_takes_its_results_from_the_workspace_from_0_20_on() -> None:
    """GPTQ in 0.20.0: 8,192 x 2 x (14,336 + 28,672) x 2 bytes."""
    config = {**MIXTRAL, "quantization_config": GPTQ}
    start = run(config, "0.20.0", capability=(8, 0))
    assert 8192 * 2 * (14336 + 28672) * 2 == expert_workspace_bytes(start)


KIMI = {
    **QWEN3_MOE,
    "hidden_size": 7168,
    "moe_intermediate_size": 2048,
    "num_experts": 384,
    "num_experts_per_tok": 8,
}


def test_trtllm_brings_buffers_of_its_own() -> None:
    """Unquantised on B200: rows in tiles of 64 for each of 384 experts.

    One start of 131,072 tokens with FlashInfer's kernels asked for (131,072 x 8 + 63 x
    384) x 7,168 x 2 bytes = 14.32 GiB when it ran out of memory, the second GEMM's
    results; the first one's are 2,048 wide, and 4 bytes say where a row came from.
    """
    start = run(KIMI, tokens=131072, capability=(10, 0))
    assert 0 == expert_workspace_bytes(start)
    rows = 131072 * 8 + 63 * 384
    assert f"{rows * 7168 * 2 / GIB:.2f}" == "14.32"
    output, routing = 131072 * 7168 * 2, 131072 * (384 * 4 + 8 * 12)
    products = rows * ((7168 + 2048) * 2 + 4)
    assert products + output + routing == expert_transient_bytes(start)


@pytest.mark.parametrize(
    ("version", "kept"), [("0.15.1", False), ("0.22.1", False), ("0.23.0", True)]
)
def test_packed_integers_take_marlin_even_on_b200(version: str, kept: bool) -> None:
    """Kimi's experts on eight ranks, 256 columns each.

    Until 0.22.1 8,192 x 8 x (7,168 + 256) x 2 bytes for a moment, since then
    8,192 x 8 x 2 x 7,168 x 2 bytes in the workspace.
    """
    config = {**KIMI, "quantization_config": MXINT4}
    start = run(config, version, capability=(10, 0), tensor_parallel_size=8)
    beside = 8192 * (7168 * 2 + 384 * 4 + 8 * 12)
    if kept:
        assert 8192 * 8 * 2 * 7168 * 2 == expert_workspace_bytes(start)
        assert beside == expert_transient_bytes(start)
    else:
        assert 0 == expert_workspace_bytes(start)
        assert 8192 * 8 * (7168 + 256) * 2 + beside == expert_transient_bytes(start)


def test_unquantised_experts_on_hopper_changed_their_kernel_twice() -> None:
    """0.19.0 Triton, 0.20.0 to 0.22.1 FlashInfer's CUTLASS, then Triton again."""
    kernels = []
    for version in ("0.19.0", "0.20.0", "0.22.1", "0.23.0"):
        why = expert_workspace(run(QWEN3_MOE, version)).why
        kernels.append(why.split(" experts")[0])
    triton, cutlass = ExpertsKernel.TRITON, ExpertsKernel.FLASHINFER_CUTLASS
    assert [triton, cutlass, cutlass, triton] == kernels


def test_flashinfer_cutlass_keeps_its_output_alone() -> None:
    """RTX PRO 6000: 8,192 x 2,048 x 2 bytes kept.

    For a moment 8,192 x 8 x (2,048 + 2,048) x 2 bytes, an output, and routing.
    """
    start = run(QWEN3_MOE, capability=(12, 0))
    assert 8192 * 2048 * 2 == expert_workspace_bytes(start)
    assert 8192 * (8 * 4096 * 2 + 2048 * 2 + 128 * 4 + 8 * 12) == (
        expert_transient_bytes(start)
    )


def test_data_parallel_ranks_compute_all_ranks_tokens() -> None:
    """Two ranks of 8,192 tokens: 16,384 x 8 x 2 x 2,048 x 2 bytes."""
    start = run(QWEN3_MOE, data_parallel_size=2, enable_expert_parallel=True)
    assert 16384 * 8 * 2 * 2048 * 2 == expert_workspace_bytes(start)


def test_uneven_routing_takes_a_whole_chunk_before_0_18() -> None:
    """0.17.1, two ranks of 512 tokens: 16,384 x (8 x 2 x 2,048 + 2,048) x 2 bytes."""
    start = run(
        QWEN3_MOE,
        "0.17.1",
        tokens=512,
        data_parallel_size=2,
        enable_expert_parallel=True,
    )
    assert 16384 * (8 * 2 * 2048 + 2048) * 2 == expert_workspace_bytes(start)


@each_row("version", MODELLED)
def test_dense_models_need_nothing(version: str) -> None:
    """Llama has no experts."""
    dense = run(LLAMA_8B, version)
    assert (0, 0) == (expert_workspace_bytes(dense), expert_transient_bytes(dense))


@given(
    st.sampled_from(MODELLED),
    st.integers(1, 2**17),
    st.sampled_from([(8, 0), (8, 9), (9, 0), (10, 0), (12, 0)]),
    st.sampled_from([{}, BLOCK_FP8, GPTQ]),
)
def test_more_tokens_never_need_less(
    version: str, tokens: int, capability: tuple[int, int], method: dict[str, Any]
) -> None:
    """Both parts grow with the tokens, and each tells its arithmetic."""
    config = {**QWEN3_235B, "quantization_config": method} if method else QWEN3_235B
    few = run(config, version, tokens=tokens, capability=capability)
    many = run(config, version, tokens=tokens + 1, capability=capability)
    assert expert_workspace_bytes(few) <= expert_workspace_bytes(many)
    assert expert_transient_bytes(few) <= expert_transient_bytes(many)
    assert " experts: " in expert_transient(few).why


NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": []}


def test_trtllm_pads_inputs_and_outputs_of_nvfp4_as_its_weights() -> None:
    """2,688 values become 2,816, and 1,504 columns 1,536: inputs are copied.

    8,192 x 8 choices fill tiles of 192 rows for 128 experts.
    """
    config = {
        **QWEN3_235B,
        "hidden_size": 2688,
        "moe_intermediate_size": 1504,
        "quantization_config": NVFP4,
    }
    start = run(config, capability=(10, 0))
    rows = (128 + (65536 - 128) // 192) * 192
    products = rows * (1536 // 2 + 1536 // 16 + 2816 * 2 + 4)
    inputs = 2816 * 2 + 2816 // 2 + 2816 // 16
    own = 8192 * (inputs + 2816 * 2 + 128 * 4 + 8 * 12)
    assert products + own == expert_transient_bytes(start)


@pytest.mark.parametrize(("dtype", "each"), [("float32", 4), ("bfloat16", 0)])
def test_a_name_keeps_the_inputs_that_a_router_reads_in_another_dtype(
    dtype: str, each: int
) -> None:
    """MiMo-V2's code has one; compiled, they are freed once the router has run."""
    plain = run(QWEN3_235B)
    experts = [
        replace(m, router_dtype=dtype) if isinstance(m, FusedMoE) else m
        for m in plain.model.layer_kinds[0].modules
    ]
    kind = replace(plain.model.layer_kinds[0], modules=tuple(experts))
    model = replace(plain.model, layer_kinds=(kind,))
    start = replace(plain, model=model)
    before = expert_transient_bytes(plain)
    assert before + 8192 * 4096 * each == expert_transient_bytes(start)
    both = [replace(one, enforce_eager=False) for one in (plain, start)]
    assert 1 == len({expert_transient_bytes(one) for one in both})


def test_a_draft_of_nvidia_has_experts_in_16_bits_beside_four_hidden_states() -> None:
    """Nemotron 3 Super on four B200, as a traced dry run of 0.33.0 had it.

    65,536 x 22 rows for 512 experts in tiles of 64: 768 and 1,024 values wide. Beside
    them the target's states, embeddings, residual and input, 4,096 wide, and as much
    of shared experts; the narrow inputs and outputs; scores in fp32.
    """
    plan = planner.plan(
        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4",
        gpu="B200",
        tensor_parallel_size=4,
        max_model_len=11231,
        max_num_seqs=128,
        max_num_batched_tokens=65536,
        kv_cache_dtype="fp8",
        enforce_eager=True,
        trust_remote_code=True,
        speculative_config={"method": "mtp", "num_speculative_tokens": 1},
    )
    rows = (512 + (65536 * 22 - 512) // 64) * 64
    products = rows * (768 * 2 + 1024 * 2 + 4)
    own = 65536 * (5 * 4096 * 2 + 2 * 1024 * 2 + 512 * 4 + 22 * 12)
    line = plan.ranks[0].line("peak activation")
    assert products + own == line.size_bytes


def test_scores_of_a_runners_own_gate_are_freed_before_the_sum() -> None:
    """DeepSeek-Coder-V2-Lite: three states, both outputs and two sums, 130.9 MiB."""
    plan = planner.plan(
        "deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct",
        gpu="A100-40GB-MIG-2g.10gb",
        max_model_len=2048,
        max_num_seqs=8,
        max_num_batched_tokens=4824,
        enforce_eager=True,
        tensor_parallel_size=4,
    )
    line = plan.ranks[0].line("peak activation")
    assert 4824 * 2 * 7 * 2048 == line.size_bytes
    assert abs(line.size_bytes / MIB - 130.9) < 1.1


def test_experts_of_a_recording_are_those_of_its_config() -> None:
    """Mistral Small 4 on two B200, which Transformers serves: four hidden states.

    3,000 x 4 rows for 128 experts in tiles of 64: 1,024 and 4,096 values wide. Beside
    them the output and that of shared experts, scores in fp32 and choices. Of 20 MiB
    and more each has a block of its own.
    """
    plan = planner.plan(
        "mistralai/Mistral-Small-4-119B-2603",
        gpu="B200",
        max_model_len=3533,
        max_num_seqs=10,
        max_num_batched_tokens=3000,
        enforce_eager=True,
        tensor_parallel_size=2,
    )
    rows = (128 + (3000 * 4 - 128) // 64) * 64
    products = rows * (1024 * 2 + 4096 * 2 + 4)
    states, routing = 3000 * 4096 * 2, 3000 * (128 * 4 + 4 * 12)
    line = plan.ranks[0].line("peak activation")
    blocks = [-(-size // (2 * MIB)) * 2 for size in (products, states)]
    assert [196, 24] == blocks
    assert (196 + 6 * 24) * MIB + routing == line.size_bytes


M3 = {
    "tensor_parallel_size": 8,
    "max_model_len": 8192,
    "max_num_batched_tokens": 8192,
    "max_num_seqs": 16,
    "trust_remote_code": True,
}


def test_outputs_of_experts_are_added_up_beside_the_sum() -> None:
    """MiniMax-M3 on eight H200, whose experts keep their results in the workspace.

    Three hidden states of 6,144 beside three outputs: of routed and shared experts, and
    their sum, which the next norm adds up over ranks; scores of 128 experts.
    """
    plan = planner.plan(
        "MiniMaxAI/MiniMax-M3", language_model_only=True, **M3, gpu="H200"
    )
    line = plan.ranks[0].line("peak activation")
    assert 8192 * (6 * 6144 * 2 + 128 * 4) == line.size_bytes


def test_images_are_merged_into_a_buffer_which_is_the_residual() -> None:
    """Without images there is no such buffer, and the embeddings are a state more."""
    with_images, without = (
        planner.plan("MiniMaxAI/MiniMax-M3", **M3, **given, gpu="H200").ranks[0]
        for given in ({"skip_mm_profiling": True}, {"language_model_only": True})
    )
    state = 8192 * 6144 * 2
    peak, buffers = "peak activation", "persistent buffers"
    assert state == without.line(peak).size_bytes - with_images.line(peak).size_bytes
    assert state == (
        with_images.line(buffers).size_bytes - without.line(buffers).size_bytes
    )


def test_ranks_add_up_what_experts_put_out() -> None:
    """Qwen3-235B's on four H100: the output of experts and the sum over ranks.

    In releases that were not read, it is the output and the routing.
    """
    divided, older = run(QWEN3_235B, tensor_parallel_size=4), run(QWEN3_235B, "0.32.0")
    once = 8192 * (4096 * 2 + 128 * 4 + 8 * 12)
    assert 8192 * (2 * 4096 * 2 + 128 * 4) == expert_transient_bytes(divided)
    assert once == expert_transient_bytes(older)


@pytest.mark.parametrize(
    ("model", "version", "copies"),
    [
        ("Qwen/Qwen3-235B-A22B", "0.33.0", 1),
        ("deepseek-ai/DeepSeek-V2-Lite", "0.31.0", 2),  # for shared experts too
        ("deepseek-ai/DeepSeek-V2-Lite", "0.30.0", 0),
        ("zai-org/GLM-4.5", "0.33.0", 0),  # has its scores from its own gate
    ],
)
def test_a_compiled_norm_writes_an_input_for_each_argument_of_the_experts(
    model: str, version: str, copies: int
) -> None:
    """Where their operator computes the scores: of 8,192 tokens in 16 bits."""
    start = {"vllm_version": version, "max_num_batched_tokens": 8192}
    start |= {"gpu": "H200", "tensor_parallel_size": 8}
    compiled = planner.plan(model, **start).ranks[0].profile_run
    block = next(blocks(compiled))
    again = 8192 * copies * compiled.model.hidden_size * 2
    assert again == copied_inputs_bytes(block)
    eager = next(blocks(replace(compiled, enforce_eager=True)))
    assert 0 == copied_inputs_bytes(eager)
