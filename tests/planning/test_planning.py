"""plan(): the whole answer, its laws and its edges."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.errors import PlannerError, UnknownArchitecture
from planner.planning.result import Plan
from planner.units import GIB
from tests.configs import BERT, LLAMA_8B, QWEN3_MOE, architecture, gpu
from tools import configs

LLAMA = architecture(LLAMA_8B)
MOE = architecture(QWEN3_MOE)


def plan(**engine_args: object) -> Plan:
    """Plan Llama-3.1-8B on an H100."""
    return planner.plan(LLAMA, gpu=gpu(), **engine_args)


def test_the_budget_is_a_share_of_the_total_rounded_up() -> None:
    """ceil(79.19 GiB x 0.92)."""
    (rank,) = plan().ranks
    assert -(-int(79.19 * GIB) * 92 // 100) == rank.requested_memory_bytes


def test_a_fixed_cache_is_exact() -> None:
    """50 GiB: 25,600 blocks of 2 MiB, 3.125 requests of 131,072 tokens."""
    answer = plan(kv_cache_memory_bytes=50 * GIB)
    assert (25600, 8192, 409600, 3.125) == (
        answer.num_gpu_blocks,
        answer.blocks_per_request,
        answer.kv_cache_size_tokens,
        answer.max_concurrency,
    )


def test_a_context_that_does_not_fit_is_an_answer() -> None:
    """The plan is returned with vLLM's error and a negative margin."""
    answer = plan(kv_cache_memory_bytes=10 * GIB)
    assert not answer.fits
    assert answer.error is not None
    assert "max_model_len" == answer.error.kind
    assert answer.margin_bytes is not None
    assert answer.margin_bytes < 0
    assert 81904 == answer.max_model_len_that_fits


def test_auto_shortens_the_context_to_the_memory() -> None:
    """(5,120 - 1) blocks x 16 tokens."""
    answer = plan(kv_cache_memory_bytes=10 * GIB, max_model_len="auto")
    assert answer.fits
    assert answer.resolved is not None
    assert 81904 == answer.resolved.max_model_len


def test_a_busy_gpu_is_refused_in_vllms_words() -> None:
    """Free memory below the share asked for."""
    answer = planner.plan(LLAMA, gpu=gpu(free_memory_bytes=40 * GIB))
    assert answer.error is not None
    assert "free_memory" == answer.error.kind
    assert "(40.0/79.19 GiB)" in answer.error.message


def test_weights_that_do_not_fit_are_said_so() -> None:
    """15 GiB of weights on an 8 GiB GPU."""
    answer = planner.plan(LLAMA, gpu=gpu(total_memory_bytes=8 * GIB))
    assert answer.error is not None
    assert "weights" == answer.error.kind
    assert answer.limiting_rank is not None
    assert answer.limiting_rank.available_kv_cache_bytes < 0


def test_a_refusal_is_a_plan_without_ranks() -> None:
    """32 heads on 3 GPUs."""
    answer = plan(tensor_parallel_size=3)
    assert not answer.fits
    assert answer.error is not None
    assert "refused" == answer.error.kind
    assert () == answer.ranks
    assert {} == answer.to_dict()["resolved"]


def test_an_override_of_blocks_replaces_the_measurement() -> None:
    """num_gpu_blocks_override=1000."""
    answer = plan(num_gpu_blocks_override=1000, max_model_len=1000)
    assert 1000 == answer.num_gpu_blocks


def test_stages_share_the_smallest_number_of_blocks() -> None:
    """33 layers on two stages: 17 and 16; the fuller stage decides."""
    uneven = architecture(LLAMA_8B, num_hidden_layers=33)
    answer = planner.plan(
        uneven,
        gpu=gpu(),
        pipeline_parallel_size=2,
        kv_cache_memory_bytes=10 * GIB,
        max_model_len=4096,
    )
    assert [17 * 65536, 16 * 65536] == [r.bytes_per_block for r in answer.ranks]
    assert 10 * GIB // (17 * 65536) == answer.num_gpu_blocks


def test_gpus_are_counted_over_all_kinds_of_parallelism() -> None:
    """2 x 3 x 4."""
    answer = planner.plan(
        MOE,
        gpu=gpu(),
        tensor_parallel_size=2,
        pipeline_parallel_size=3,
        data_parallel_size=4,
        enable_expert_parallel=True,
        max_model_len=4096,
    )
    assert 24 == answer.gpus_total


def test_an_encoder_has_no_cache_and_starts() -> None:
    """BERT keeps nothing between requests."""
    answer = planner.plan(architecture(BERT), gpu=gpu())
    assert answer.fits
    assert () == answer.kv_groups


def test_environment_variables_reach_the_plan() -> None:
    """A partition by hand, and graphs that are not charged."""
    answer = planner.plan(
        LLAMA,
        gpu=gpu(),
        env={
            "VLLM_PP_LAYER_PARTITION": "20,12",
            "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0",
        },
        pipeline_parallel_size=2,
    )
    assert [20 * 65536, 12 * 65536] == [r.bytes_per_block for r in answer.ranks]
    assert 0 == answer.ranks[0].line("CUDA graphs").size_bytes


def test_bad_input_raises_and_names_itself() -> None:
    """Arguments, entry point, release."""
    with pytest.raises(PlannerError, match="max_modle_len"):
        plan(max_modle_len=1)
    with pytest.raises(PlannerError, match="entrypoint='batch'"):
        planner.plan(LLAMA, gpu=gpu(), entrypoint="batch")
    with pytest.raises(PlannerError, match="vllm_version"):
        planner.plan(LLAMA, gpu=gpu(), vllm_version="0.8.5")


def test_the_dictionary_has_the_shape_of_the_contract() -> None:
    """Names that other programs rely on."""
    answer = plan().to_dict()
    assert {
        "fits",
        "error",
        "resolved",
        "gpu",
        "ranks",
        "weights_bytes",
        "allocated_weights_bytes",
        "activation_bytes",
        "cudagraph_bytes",
        "non_torch_bytes",
        "available_kv_cache_bytes",
        "available_kv_cache_low_bytes",
        "available_kv_cache_high_bytes",
        "kv_groups",
        "bytes_per_block",
        "blocks_per_request",
        "num_gpu_blocks",
        "kv_cache_size_tokens",
        "max_concurrency",
        "max_model_len_that_fits",
        "gpus_total",
    } <= set(answer)
    assert {"name", "bytes", "low_bytes", "high_bytes", "basis", "why"} == set(
        answer["ranks"][0]["lines"][0]
    )


ENGINE_ARGS = st.fixed_dictionaries(
    {
        "tensor_parallel_size": st.sampled_from([1, 2, 4, 8]),
        "pipeline_parallel_size": st.sampled_from([1, 2, 3]),
        "max_num_seqs": st.integers(1, 2048),
        "max_num_batched_tokens": st.integers(2048, 32768),
        "gpu_memory_utilization": st.floats(0.05, 1.0),
        "max_model_len": st.integers(1, 131072),
        "kv_cache_dtype": st.sampled_from(["auto", "fp8"]),
        "enforce_eager": st.booleans(),
    }
)


@settings(deadline=None)
@given(ENGINE_ARGS, st.sampled_from([None, 3 * GIB]))
def test_lines_add_up_to_the_requested_memory(
    engine_args: dict[str, object], fixed: int | None
) -> None:
    """On every rank, whether it fits or not, whether the cache is fixed or not."""
    answer = plan(**engine_args, kv_cache_memory_bytes=fixed)
    for rank in answer.ranks:
        assert rank.requested_memory_bytes == sum(x.size_bytes for x in rank.lines)
        assert rank.available_kv_cache_low_bytes <= rank.available_kv_cache_bytes
        assert rank.available_kv_cache_bytes <= rank.available_kv_cache_high_bytes


@settings(deadline=None)
@given(ENGINE_ARGS)
def test_asking_for_less_never_leaves_less_cache(
    engine_args: dict[str, object],
) -> None:
    """More utilization, fewer sequences, fewer tokens: more KV cache."""
    before = plan(**engine_args).to_dict()["available_kv_cache_bytes"]
    kinder = {
        **engine_args,
        "gpu_memory_utilization": 1.0,
        "max_num_seqs": 1,
        "max_num_batched_tokens": 2048,
    }
    assert before <= plan(**kinder).to_dict()["available_kv_cache_bytes"]


@settings(deadline=None)
@given(ENGINE_ARGS)
def test_the_longest_context_fits_and_the_next_does_not(
    engine_args: dict[str, object],
) -> None:
    """max_model_len_that_fits is exact at its edge."""
    asked = {**engine_args, "max_num_batched_tokens": 8192, "max_num_seqs": 8}
    answer = plan(**asked)
    longest = answer.max_model_len_that_fits
    if longest is None:
        assert not answer.fits
        return
    assert plan(**{**asked, "max_model_len": longest}).fits
    if longest < 131072:
        assert not plan(**{**asked, "max_model_len": longest + 1}).fits


def test_a_refused_length_still_shows_the_account() -> None:
    """vLLM would start with VLLM_ALLOW_LONG_MAX_MODEL_LEN=1, with these figures."""
    refused = plan(max_model_len=200_000)
    allowed = plan(max_model_len=200_000, env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"})
    assert refused.error is not None
    assert refused.error.kind == "refused"
    assert refused.ranks == allowed.ranks


def test_a_folder_with_a_dropped_model_is_not_modelled_in_older_releases(
    tmp_path: Path,
) -> None:
    """0.23.0 still has the class; 0.24.0 refuses it."""
    config = {**LLAMA_8B, "architectures": ["BaichuanForCausalLM"]}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UnknownArchitecture, match="still serves"):
        planner.plan(tmp_path, vllm_version="0.23.0")
    later = planner.plan(tmp_path, vllm_version="0.24.0")
    assert later.error is not None
    assert "refused" == later.error.kind


def test_graphs_are_told_whether_or_not_they_are_charged() -> None:
    """0.19 charges nothing for them, and captures as many as 0.20."""
    older = plan(vllm_version="0.19.0").to_dict()
    newer = plan(vllm_version="0.20.0").to_dict()
    charged = {line["name"]: line["bytes"] for line in older["ranks"][0]["lines"]}[
        "CUDA graphs"
    ]
    assert charged == 0
    assert older["cudagraph_bytes"] == newer["cudagraph_bytes"] > 0
    eager = plan(vllm_version="0.19.0", enforce_eager=True).to_dict()
    assert eager["cudagraph_bytes"] == 0


def test_a_name_that_promises_a_format_the_config_lacks_is_noted() -> None:
    """Its weights would be half of what vLLM makes of this configuration."""
    copy = configs.folder("Qwen--Qwen3-Next-80B-A3B-Instruct-FP8")
    plain = planner.plan(str(copy), gpu="B300")
    quantised = planner.plan("Qwen/Qwen3-8B-FP8", gpu="H100")

    assert any("The name says FP8" in note for note in plain.notes)
    assert quantised.resolved.quantization == "fp8"
    assert not any("The name says" in note for note in quantised.notes)
