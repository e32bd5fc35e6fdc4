"""First starts compile the model, later ones find it compiled; which sampler ran."""

from __future__ import annotations

import pytest

import planner
from planner.memory.lines.activations import line
from planner.memory.lines.compiling import examples, pinned
from planner.memory.profile_run import ProfileRun
from planner.planning.result import Outcome, Plan
from planner.units import GIB, MIB
from tests.configs import GPT2, LLAMA_8B, gpu
from tests.runs import run
from tools.configs import named

QWEN3_8B = {"model": named("Qwen--Qwen3-8B"), "gpu": "RTX4090", "max_model_len": 8192}
QWEN3_4B = {**QWEN3_8B, "model": named("Qwen--Qwen3-4B"), "enable_lora": True}
TABLE = 151_936 * 4096 * 2
"""Word embeddings of Qwen3-8B, of which the compiler makes a copy."""


def plan(given: dict[str, object], **changes: object) -> Plan:
    """Return the plan of a start."""
    return planner.plan(**{"vllm_version": "0.27.1", **given, **changes})  # type: ignore[arg-type]


def peak(made: Plan) -> int:
    """Return the peak activation."""
    return made.ranks[0].line("peak activation").size_bytes


def kv_gib(made: Plan, value: str) -> float:
    """Return the KV cache of first (cold) or later (warm) starts."""
    found = {one.value: one for one in made.alternatives}
    return found[value].available_kv_cache_bytes / GIB


def test_a_first_start_holds_a_copy_of_the_word_embeddings() -> None:
    """1,219.0 MiB traced in dry runs of 0.20.0 and 0.33.0: with two hidden states."""
    made = plan(QWEN3_8B, vllm_version="0.33.0", compile_cache="cold", max_num_seqs=8)
    older = plan(QWEN3_8B, vllm_version="0.20.0", compile_cache="cold", max_num_seqs=64)
    assert peak(made) == peak(older)
    assert peak(made) == TABLE + 2 * 2048 * 4096 * 2
    assert abs(peak(made) - 1219.02 * MIB) < 0.1 * MIB


@pytest.mark.parametrize(
    ("model", "gpu_name", "arguments", "recorded_bytes"),
    [
        (
            "google/gemma-3-4b-it",
            "A100-80GB",
            {"language_model_only": True},
            1364216832,
        ),
        ("openai/gpt-oss-20b", "L40S", {"max_model_len": 65536}, 1028539392),
        (
            "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
            "A100-80GB",
            {"max_model_len": 65536, "trust_remote_code": True},
            593513472,
        ),
    ],
)
def test_the_copy_is_made_where_a_class_keeps_embeddings_on_every_stage(
    model: str, gpu_name: str, arguments: dict[str, object], recorded_bytes: int
) -> None:
    """Less the experts' workspace, which comes later; dry starts of 0.33.0."""
    made = planner.plan(
        model, gpu=gpu_name, vllm_version="0.33.0", compile_cache="cold", **arguments
    )
    assert abs(peak(made) - recorded_bytes) < 8 * MIB


def test_first_and_later_starts_are_as_published() -> None:
    """An RTX 4090 with 0.27.1: 1.18 GiB cold and 0.19 GiB warm."""
    assert f"{peak(plan(QWEN3_8B, compile_cache='cold')) / GIB:.2f}" == "1.18"
    assert f"{peak(plan(QWEN3_8B, compile_cache='warm')) / GIB:.2f}" == "0.19"


@pytest.mark.parametrize(
    ("gpu_name", "args", "tokens", "traced_mib"),
    [
        ("A100-80GB", {}, 2048, 1034.02),
        ("H100", {"pipeline_parallel_size": 2}, 8192, 1130.04),
        ("H100", {"tensor_parallel_size": 2, "max_num_seqs": 16}, 8192, 616.03),
    ],
)
def test_first_starts_of_0_19_hold_that_copy_too(
    gpu_name: str, args: dict[str, int], tokens: int, traced_mib: float
) -> None:
    """Llama 3.1 8B in dry runs of 0.19.0, the first stage; logged on two H100: 1.1 GiB.

    On two ranks the lookup has a kernel of its own, benchmarked with 50 MiB.
    """
    given: dict[str, object] = {
        "model": named("meta-llama--Llama-3.1-8B-Instruct"),
        "gpu": gpu_name,
    }
    made = plan(given, vllm_version="0.19.0", compile_cache="cold", **args)
    ranks = args.get("tensor_parallel_size", 1)
    hidden = tokens * 4096 * 2
    beside = hidden + 50 * MIB if ranks > 1 else 2 * hidden
    assert peak(made) == 128_256 // ranks * 4096 * 2 + beside
    assert abs(peak(made) - traced_mib * MIB) < 1.1 * MIB


def test_ranks_read_their_part_of_the_embeddings_by_a_kernel_of_vllm() -> None:
    """From 0.29 on: 460.0 MiB in a cold dry run of 0.33.0 on two A100, by sampling."""
    given: dict[str, object] = {
        "model": named("meta-llama--Llama-3.1-8B-Instruct"),
        "gpu": "A100-80GB",
        "tensor_parallel_size": 2,
        "compile_cache": "cold",
    }
    made = plan(given, vllm_version="0.33.0")
    assert abs(peak(made) - 460.01 * MIB) < 4 * MIB
    table = 128_256 // 2 * 4096 * 2
    assert peak(plan(given, vllm_version="0.28.0")) > table
    assert peak(plan(given, vllm_version="0.29.0")) < table


def test_a_first_start_explains_what_a_published_log_has() -> None:
    """5.01 GiB of KV cache in a log of 0.19.0: Llama 3.3 70B in INT8 on one H100."""
    given: dict[str, object] = {
        "model": named("RedHatAI--Llama-3.3-70B-Instruct-quantized.w8a8"),
        "gpu": "H100",
        "vllm_version": "0.19.0",
        "gpu_memory_utilization": 0.95,
        "max_model_len": 8192,
    }
    made = plan(given)
    assert abs(kv_gib(made, "cold") - 5.01) < 0.05
    assert kv_gib(made, "warm") - kv_gib(made, "cold") > 0.2


def test_an_mlps_activation_has_examples_too() -> None:
    """832.0 MiB traced in a dry run of 0.33.0 with half of Qwen3-32B on a GPU.

    8,192 tokens x 2 bytes x (3 x 12,800 + 2 x 5,120), and a buffer of 72 MiB; the
    forward pass takes 824 MiB.
    """
    made = plan(
        QWEN3_8B,
        model=named("Qwen--Qwen3-32B"),
        vllm_version="0.33.0",
        tensor_parallel_size=2,
        max_num_batched_tokens=8192,
        max_num_seqs=64,
        compile_cache="cold",
    )
    assert peak(made) == 8192 * 2 * (3 * 12_800 + 2 * 5120) + 72 * MIB == 832 * MIB


@pytest.mark.parametrize(
    ("model", "changes", "gib"),
    [
        # 8,000,000 positions x 128 values x 2 bytes, and L2's 96 MiB
        (
            "Qwen/Qwen3-0.6B",
            {"hf_overrides": {"max_position_embeddings": 8_000_000}, "gpu": "L40S"},
            2.01,
        ),
        # 10,485,760 positions, and 126 MiB; on four ranks
        (
            "RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic",
            {"tensor_parallel_size": 4, "gpu": "B200"},
            2.62,
        ),
    ],
)
def test_a_first_start_holds_a_copy_of_a_rotary_table(
    model: str, changes: dict[str, object], gib: float
) -> None:
    """A kernel that reads it is tuned like that of the word embeddings: traced."""
    few = {"max_model_len": 2048, "max_num_batched_tokens": 512, "max_num_seqs": 8}
    cold, warm = (
        plan(
            {"model": model, **few}, vllm_version="0.33.0", compile_cache=one, **changes
        )
        for one in ("cold", "warm")
    )
    assert abs(peak(cold) / GIB - gib) < 0.01
    assert peak(warm) < GIB / 2


def test_0_20_still_flushes_a_buffer_as_it_runs() -> None:
    """960.125 MiB in a dry run of 0.20.0: the pass, 128 MiB and cuBLAS's workspace."""
    made = plan(
        QWEN3_8B,
        model=named("Qwen--Qwen3-32B"),
        gpu="RTXPRO6000",
        vllm_version="0.20.0",
        tensor_parallel_size=2,
        max_num_batched_tokens=8192,
        max_num_seqs=64,
        compile_cache="cold",
    )
    assert peak(made) == (824 + 128) * MIB + 8 * MIB + MIB // 8


def test_tuned_kernels_flush_nothing_when_they_run() -> None:
    """1,536 MiB traced with 16,384 tokens of Qwen3-8B: the forward pass alone."""
    made = plan(
        QWEN3_8B,
        vllm_version="0.33.0",
        max_num_batched_tokens=16_384,
        max_num_seqs=64,
        compile_cache="cold",
    )
    assert peak(made) == 16_384 * 2 * 49_152 == 1536 * MIB


@pytest.mark.parametrize(
    ("adapters", "logged_gib"), [(1, 0.80), (8, 0.83), (16, 0.87), (64, 1.09)]
)
def test_adapters_of_the_word_embeddings_have_examples_too(
    adapters: int, logged_gib: float
) -> None:
    """First starts of Qwen3-4B on an RTX 4090 with 0.27.1; later ones log 0.15 GiB."""
    args = {"max_loras": adapters, "gpu_memory_utilization": 0.85}
    cold = plan(QWEN3_4B, **args, compile_cache="cold")
    assert abs(peak(cold) / GIB - logged_gib) < 0.006
    warm = plan(QWEN3_4B, **args, compile_cache="warm")
    assert f"{peak(warm) / GIB:.2f}" == "0.15"


@pytest.mark.parametrize(
    ("cold_gib", "warm_gib", "adapters"), [(10.01, 10.79, 16), (6.07, 7.06, 64)]
)
def test_the_difference_of_first_and_later_starts_is_as_published(
    cold_gib: float, warm_gib: float, adapters: int
) -> None:
    """Within 0.1 GiB: the same command on an RTX 4090 with 0.27.1."""
    made = plan(QWEN3_4B, max_loras=adapters, gpu_memory_utilization=0.85)
    planned = kv_gib(made, "warm") - kv_gib(made, "cold")
    assert abs(planned - (warm_gib - cold_gib)) < 0.1


def test_without_a_choice_both_are_planned_and_the_range_has_both() -> None:
    """The figures are those of later starts; at the low end a first one fits."""
    made, warm, cold = (
        plan(QWEN3_8B, compile_cache=cache) for cache in (None, "warm", "cold")
    )
    rank = made.ranks[0]
    assert [(one.value, one.is_planned) for one in made.alternatives] == [
        ("cold", False),
        ("warm", True),
    ]
    assert rank.available_kv_cache_bytes == warm.ranks[0].available_kv_cache_bytes
    low = cold.ranks[0].available_kv_cache_low_bytes
    assert abs(rank.available_kv_cache_low_bytes - low) < 16 * MIB
    for chosen in (warm, cold):
        width = chosen.ranks[0].available_kv_cache_high_bytes
        width -= chosen.ranks[0].available_kv_cache_low_bytes
        whole = rank.available_kv_cache_high_bytes - rank.available_kv_cache_low_bytes
        assert width < whole
    assert made.to_dict()["alternatives"][0]["argument"] == "compile_cache"
    assert "compile" not in made.command()


def test_a_first_start_that_does_not_fit_is_too_close_to_call() -> None:
    """And the verdict says that only the first one is in doubt."""
    later = plan(QWEN3_8B, compile_cache="warm").ranks[0]
    cold = plan(QWEN3_8B, compile_cache="cold")
    length = cold.kv_cache_size_tokens + 1024
    low = plan(QWEN3_8B, compile_cache="warm", max_model_len=length)
    made = plan(QWEN3_8B, max_model_len=length)
    assert later.available_kv_cache_bytes > low.needed_kv_cache_bytes
    assert made.outcome is Outcome.TOO_CLOSE
    if low.outcome is Outcome.FITS:
        assert made.error is not None
        assert "Only a first start is in doubt" in made.error.message


def first(**facts: object) -> int:
    """Return the compiler's examples of a run."""
    start: ProfileRun = run(**facts)  # type: ignore[arg-type]
    return examples(start).size_bytes


def test_only_the_first_piece_of_a_compiled_text_model_has_them() -> None:
    """Not in eager mode, on later stages, before PyTorch 2.10, or with images."""
    assert first() > 128_256 * 4096 * 2
    assert first(enforce_eager=True) == 0
    assert first(version="0.16.0", uses_v2_runner=False) == 0
    activation = 8192 * 2 * (3 * 14_336 + 2 * 4096) + 50 * MIB
    assert first(is_first_stage=False) == activation
    assert first(takes_prompt_embeds=True) == activation
    images = plan(QWEN3_8B, model="llava-hf/llava-1.5-7b-hf", gpu="H100")
    assert images.alternatives == ()


def test_the_piece_that_rotates_has_a_copy_of_the_table() -> None:
    """Llama 3.1 8B on eight ranks: 131,072 rows of 128 values, 32 MiB.

    They take the block of an earlier benchmark's buffer, 50 MiB on an H100. Beside them
    are such a buffer, 768 values of 1,171 tokens and a rank's 512 of queries.
    """
    made = planner.plan(
        "hugging-quants/Meta-Llama-3.1-8B-Instruct-GPTQ-INT4",
        gpu="H100",
        max_num_batched_tokens=1171,
        max_num_seqs=8,
        max_model_len=8192,
        tensor_parallel_size=8,
        compile_cache="cold",
    )
    assert 50 * MIB + 50 * MIB + 1171 * (768 + 512) * 2 == peak(made)


def test_states_take_the_blocks_that_examples_left() -> None:
    """ERNIE 4.5 0.3B on four ranks: five states of 31.2 MiB, attention of 15.6.

    Two have the examples' blocks, of 32 MiB, two those of buffers, of 50, and the last
    a new one.
    """
    made = planner.plan(
        "baidu/ERNIE-4.5-0.3B-PT",
        gpu="H100-MIG-2g.20gb",
        max_num_batched_tokens=15956,
        max_num_seqs=8,
        tensor_parallel_size=4,
        compile_cache="cold",
    )
    later = made.changed(compile_cache="warm")
    attention = 15956 * 512 * 2
    assert (2 * 32 + 2 * 50 + 32 + 16) * MIB == peak(made)
    assert 5 * 32 * MIB + attention == peak(later)


def test_older_first_starts_differ_by_a_buffer_and_are_planned() -> None:
    """0.19 flushes the L2 cache of an H100, 50 MiB, beside the forward pass."""
    sizes = {
        cache: line(
            run(
                {**GPT2, "vocab_size": 1000},
                version="0.19.0",
                uses_v2_runner=False,
                compile_cache=cache,
                gpu=gpu(compute_capability=(9, 0)),
            )
        ).size_bytes
        for cache in (None, "cold", "warm")
    }
    assert sizes[None] == sizes["cold"] == sizes["warm"] + 50 * MIB


def test_old_releases_show_both_samplers_and_plan_the_heavier() -> None:
    """Qwen2-7B on an A100 with 0.10.1: 38 or 14 bytes for each of 256 x 152,064."""
    qwen = planner.plan(
        named("Qwen--Qwen2-7B-Instruct"),
        gpu="A100",
        vllm_version="0.10.1",
        max_model_len=16384,
        max_num_batched_tokens=2048,
        gpu_memory_utilization=0.5,
    )
    sizes = {one.value: one.available_kv_cache_bytes for one in qwen.alternatives}
    planned = qwen.ranks[0].available_kv_cache_bytes
    assert sizes["pytorch"] == planned
    assert sizes["flashinfer"] - planned == 256 * 152_064 * 24
    # A published start whose image holds FlashInfer: 24.83 GiB.
    chosen = qwen.changed(sampler="flashinfer")
    assert abs(chosen.ranks[0].available_kv_cache_bytes / GIB - 24.83) < 0.1
    assert chosen.alternatives == ()
    assert chosen.ranks[0].available_kv_cache_bytes == sizes["flashinfer"]


def test_vllms_variable_counts_before_the_planners_argument() -> None:
    """VLLM_USE_FLASHINFER_SAMPLER decides where it is set."""
    env = {"VLLM_USE_FLASHINFER_SAMPLER": "0"}
    by_variable = plan(QWEN3_8B, env=env, sampler="flashinfer", vllm_version="0.10.1")
    without = plan(QWEN3_8B, sampler="pytorch", vllm_version="0.10.1")
    assert peak(by_variable) == peak(without)


def test_a_word_that_is_neither_is_refused() -> None:
    """By name."""
    with pytest.raises(planner.PlannerError, match="compile_cache='hot'"):
        plan(QWEN3_8B, compile_cache="hot")


@pytest.mark.parametrize(
    ("args", "logged_gib"),
    [({}, -24.42), ({"pipeline_parallel_size": 2}, 6.92)],
    ids=["whole", "stages"],
)
def test_a_block_in_use_is_not_given_back_from_0_27_to_0_30(
    args: dict[str, int], logged_gib: float
) -> None:
    """Starts of Qwen3-32B on RTX PRO 6000 with 0.27.1, as published, within 0.15 GiB.

    The copy of the word embeddings, 151,936 x 5,120 x 2 bytes, is a block of 1,484 MiB,
    and cuBLAS's workspace of 32 MiB lies in it. 0.31.0 gives it back.
    """
    start: dict[str, object] = {
        **QWEN3_8B,
        "model": named("Qwen--Qwen3-32B"),
        "gpu": planner.GPU.named("RTXPRO6000", total_memory_bytes=round(95.01 * GIB)),
        "gpu_memory_utilization": 0.426,
        "max_model_len": 32_768,
        **args,
    }
    cold, later = (plan(start, compile_cache=cache) for cache in ("cold", "warm"))
    given_back = plan(start, compile_cache="cold", vllm_version="0.31.0")
    kept = 1484 * MIB - 32 * MIB
    assert peak(cold) - peak(given_back) == kept
    assert peak(later) < peak(given_back)
    planned = min(rank.available_kv_cache_bytes for rank in cold.ranks)
    assert abs(planned / GIB - logged_gib) < 0.15


def kept_block(**facts: object) -> int:
    """Return the block that a first start of 0.28.0 cannot give back."""
    return pinned(run(**{"version": "0.28.0", **facts})).size_bytes  # type: ignore[arg-type]


def test_a_workspace_with_room_elsewhere_keeps_no_block() -> None:
    """Beside the sampler's masks: 2 x 256 x 4,008 x 4 bytes in a segment of 20 MiB.

    With 1,024 requests a mask has 15.7 MiB and a segment of its own, and four tables of
    4 MiB leave 4 MiB of theirs. Hopper's workspace of 32 MiB fits in no such segment.
    """
    table = 128_256 * 4096 * 2
    ada = gpu(compute_capability=(8, 9))
    assert kept_block(gpu=ada, max_num_seqs=256) == 0
    assert kept_block(gpu=ada, max_num_seqs=1024) == table - 8 * MIB - MIB // 8
    assert kept_block(max_num_seqs=256) == table - 32 * MIB


def test_a_quantised_models_head_takes_of_the_copy_too() -> None:
    """Unless the block of a hidden state, free by then, holds cuBLAS's workspace.

    Blackwell's workspace has 32 MiB. A hidden state of 2,048 tokens x 4,096 x 2 bytes
    has 16 MiB and one of 4,096 tokens 32 MiB. Ada's 8.125 MiB fit in either.
    """
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
    config = {**LLAMA_8B, "quantization_config": awq}
    facts: dict[str, object] = {"config": config, "max_num_batched_tokens": 2048}
    blackwell, ada = (gpu(compute_capability=one) for one in ((12, 0), (8, 9)))
    kept = 128_256 * 4096 * 2 - 32 * MIB
    assert kept_block(gpu=blackwell, **facts) == kept
    assert kept_block(gpu=blackwell, version="0.31.0", **facts) == 0
    assert kept_block(gpu=blackwell, is_last_stage=False, **facts) == 0
    assert kept_block(gpu=ada, **facts) == 0
    assert kept_block(gpu=blackwell, config=config, max_num_batched_tokens=4096) == 0


def test_a_quantised_first_start_is_as_vllm_measured_it() -> None:
    """A dry run of 0.30.0 on RTX 5070 Ti has 4.72 GiB beside 1.22 GiB of graphs.

    Graphs were assumed there, so that only the sum is measured: within 0.1 GiB.

    The copy, 151,936 x 4,096 x 2 bytes, is a block of 1,188 MiB; 32 MiB of it remain in
    use. A published pair with a draft has 3.25 GiB, and 1.09 more with 0.31.0.
    """
    start = {
        **QWEN3_8B,
        "model": "Qwen/Qwen3-8B-AWQ",
        "gpu": "RTX5070Ti",
        "max_model_len": 16_384,
        "compile_cache": "cold",
    }
    before, after = (plan(start, vllm_version=one) for one in ("0.30.0", "0.31.0"))
    assert peak(before) - peak(after) == 1188 * MIB - 32 * MIB
    (rank,) = before.ranks
    left = rank.available_kv_cache_bytes + rank.line("CUDA graphs").size_bytes
    assert abs(left / GIB - (4.72 + 1.22)) < 0.1


def test_blocks_are_kept_only_where_a_small_tensor_takes_of_a_copy() -> None:
    """Not with adapters or a free hidden state, and only while blocks are split."""
    assert kept_block() > GIB // 2
    assert kept_block(version="0.26.0") == kept_block(version="0.31.0") == 0
    assert kept_block(enforce_eager=True) == kept_block(is_first_stage=False) == 0
    assert kept_block(embedding_factor_bytes=MIB) == 0
    fp8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
    assert kept_block(config={**LLAMA_8B, "quantization_config": fp8}) == 0
