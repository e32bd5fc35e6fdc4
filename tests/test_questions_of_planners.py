"""What people ask of planners like this one, answered with it.

Each docstring holds a wish or a complaint in our words, after where it was written.
"""

import pytest

import planner
from planner.engine import gpu as gpus
from planner.units import GIB


def _kv_bytes(plan):
    return plan.limiting_rank.available_kv_cache_bytes


def test_one_account_of_everything_before_the_project_starts():
    """vllm#16297: Is there a formula for the memory, from parameters to batch?

    Every line has its arithmetic, and all of them add up to the budget.
    """
    plan = planner.plan("meta-llama/Llama-3.1-8B-Instruct", gpu="H100")
    rank = plan.limiting_rank
    assert sum(line.size_bytes for line in rank.lines) == rank.requested_memory_bytes
    assert all(line.why for line in rank.lines)


def test_total_memory_longest_context_and_whether_it_fits():
    """hf-mem#71: Show GPU, longest context and a tick for: fits."""
    plan = planner.plan("Qwen/Qwen3-14B", gpu="L40S")
    longest = plan.max_model_len_that_fits
    assert plan.fits == (longest >= plan.resolved.max_model_len)
    assert plan.gpu.total_memory_bytes > plan.limiting_rank.requested_memory_bytes


def test_requests_at_several_context_lengths():
    """hf-mem PR #15: KV cache for many requests at several context lengths, please.

    A pool of B blocks of 16 tokens, of which one stays empty, holds
    (B - 1) // (length / 16) requests.
    """
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100")
    blocks = round(plan.max_concurrency_low * plan.blocks_per_request)
    for length in (1024, 4096, 16384):
        load = planner.Load(prompt_tokens=length, output_tokens=0)
        held = (blocks - 1) // (length // 16)
        assert planner.advise(plan, load).requests == min(held, 1024)


def test_sliding_windows_are_counted_as_vllm_reserves_them():
    """hf-mem#60, PR #70: Windows under-counted say it fits when it will not.

    gpt-oss-20b has 12 layers of each kind in two groups that share one pool.
    """
    plan = planner.plan("openai/gpt-oss-20b", gpu="H100")
    kinds = sorted(group.kind for group in plan.kv_groups)
    assert kinds == ["FullAttentionSpec", "SlidingWindowSpec"]
    assert [group.num_layers for group in plan.kv_groups] == [12, 12]
    # 8,192 blocks keep all 131,072 tokens, 1,033 a window and what is in flight.
    assert plan.blocks_per_request == 131_072 // 16 + 1033


def test_how_many_kv_blocks_there_are():
    """llm-d-benchmark#454: A formula per token is wrong: count blocks."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100")
    rank = plan.limiting_rank
    assert rank.bytes_per_block == 2 * 16 * 8 * 128 * 2 * 36
    assert plan.num_gpu_blocks == _kv_bytes(plan) // rank.bytes_per_block
    assert plan.kv_cache_size_tokens == 16 * plan.num_gpu_blocks


def test_the_longest_length_that_fits_is_found():
    """llm-d-benchmark#760: --max-model-len -1 should compute the longest length."""
    plan = planner.plan("Qwen/Qwen3-32B", gpu="H100", max_model_len=-1)
    assert plan.resolved.max_model_len == 32944
    assert plan.changed(max_model_len=32944).outcome != "does not fit"
    assert plan.changed(max_model_len=32945).outcome == "too close to call"
    sure = plan.max_model_len_that_fits
    assert plan.changed(max_model_len=sure).fits


def test_the_dtype_of_the_kv_cache_counts():
    """llm-d-planner#194: Accept kv_cache_dtype: it matters most."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100")
    halved = plan.changed(kv_cache_dtype="fp8")
    assert (
        halved.limiting_rank.bytes_per_block * 2 == plan.limiting_rank.bytes_per_block
    )


def test_the_printed_numbers_divide():
    """configiq#112: GiB, tokens and bytes per token contradict each other.

    vLLM 0.24 on an H200 logged 64.68 GiB and 626,949 tokens for gemma-4-31b.
    """
    plan = planner.plan("google/gemma-4-31B-it", gpu="H200", vllm_version="0.24.0")
    rank = plan.limiting_rank
    low, high = rank.available_kv_cache_low_bytes, rank.available_kv_cache_high_bytes
    assert low < 64.68 * GIB < high
    tokens = int(plan.max_concurrency * plan.resolved.max_model_len)
    assert plan.kv_cache_size_tokens == tokens
    assert abs(tokens / 626_949 - 1) < 0.01


def test_the_cache_is_divided_by_the_ranks():
    """vllm-fit#31, #33: Divide KV by tensor parallel; read nested configurations."""
    plan = planner.plan("Qwen/Qwen3-VL-8B-Instruct", gpu="H100", max_model_len=8192)
    halved = plan.changed(tensor_parallel_size=2)
    assert plan.model.num_kv_heads == 8  # in text_config
    assert (
        halved.limiting_rank.bytes_per_block * 2 == plan.limiting_rank.bytes_per_block
    )


def test_the_chosen_gpu_is_too_small_and_what_would_do():
    """gpustack#1613: Warn when the GPUs I picked are too small, and say what is needed.

    28 GiB of weights: not an A10G's 22, but a GPU of 44 or two A10Gs.
    """
    plan = planner.plan("Qwen/Qwen3-14B", gpu="A10G")
    assert plan.error.kind == "weights"
    items = planner.advise(plan).items
    gpu = next(item for item in items if "gpu" in item.changes)
    ranks = next(item for item in items if "tensor_parallel_size" in item.changes)
    assert gpus.GPU.named(gpu.changes["gpu"]).total_memory_bytes < 45 * GIB
    assert ranks.changes["tensor_parallel_size"] == 2
    assert gpu.starts
    assert ranks.starts


def test_an_embedding_model_is_not_a_chat_model():
    """gpustack#2412: 13.8 GiB claimed, 926 MiB used by an embedding model.

    567 million parameters in 16 bits, and no KV cache at all.
    """
    plan = planner.plan("BAAI/bge-m3", gpu="T4")
    assert plan.fits
    assert plan.limiting_rank.weights_bytes < 1.1 * GIB
    assert not plan.kv_groups


def test_memory_in_use_before_the_start_counts():
    """gpustack#1136: Account for what the desktop holds while idle."""
    total = gpus.GPU.named("RTX4080").total_memory_bytes
    busy = gpus.GPU.named(
        "RTX4080", total_memory_bytes=total, free_memory_bytes=total - 2 * GIB
    )
    plan = planner.plan("Qwen/Qwen3-4B", gpu=busy, max_model_len=8192)
    assert plan.error.kind == "free_memory"
    assert any("2.00 GiB of this GPU are in use" in note for note in plan.notes)
    best = planner.advise(plan).best
    assert best.changes["gpu_memory_utilization"] < (total - 2 * GIB) / total
    assert best.starts


def test_where_does_a_long_context_come_from():
    """llmfit#302: Unclear where 26.3 GB come from: it assumed 262k tokens.

    Not given, max_model_len is the model's own limit, and the load needs a 64th.
    """
    plan = planner.plan("Qwen/Qwen3.5-27B", gpu="A100-80GB")
    load = planner.Load(prompt_tokens=3072, output_tokens=1024, requests=8)
    assert plan.resolved.max_model_len == 64 * load.request_tokens
    advice = planner.advise(plan, load)
    assert any("max_model_len is not given" in warning for warning in advice.warnings)


def test_hybrid_attention_keeps_keys_of_a_quarter_of_the_layers():
    """lmstudio-bug-tracker#1862: Hybrid models are over-estimated by half.

    16 of 64 layers keep keys and values; 48 keep one state of a fixed size.
    """
    plan = planner.plan("Qwen/Qwen3.5-27B", gpu="A100-80GB")
    kinds = {group.kind for group in plan.kv_groups}
    full = sum(g.num_layers for g in plan.kv_groups if g.kind == "FullAttentionSpec")
    states = sum(g.num_layers for g in plan.kv_groups if g.kind == "MambaSpec")
    assert kinds == {"FullAttentionSpec", "MambaSpec"}
    assert (full, states) == (16, 48)


def test_the_sizes_of_tensor_parallel_that_vllm_accepts():
    """llmfit PR #277: List the sizes that are valid, filter by them.

    Qwen3-14B over 5 GPUs passes its 40 heads and fails at 151,936 tokens (llm-d).
    """
    plan = planner.plan("Qwen/Qwen3-14B", gpu="H100")
    outcomes = {n: plan.changed(tensor_parallel_size=n) for n in range(1, 9)}
    assert [n for n, p in outcomes.items() if p.outcome != "refused"] == [1, 2, 4, 8]
    assert outcomes[5].error.message == "151936 is not divisible by 5"


def test_a_dry_run_counts_everything_without_loading():
    """ik_llama.cpp#1302: A minute of waiting to hear that memory is not enough."""
    plan = planner.plan("Qwen/Qwen3-32B", gpu="H100")
    names = {line.name for line in plan.limiting_rank.lines}
    assert {"weights", "peak activation", "CUDA graphs", "KV cache"} <= names
    assert not plan.fits
    assert planner.advise(plan).best.starts


def test_the_error_itself_names_the_longest_length():
    """vllm#16118, kaito#1178: Say the estimated max_model_len in the error."""
    plan = planner.plan("Qwen/Qwen3-32B", gpu="H100")
    assert "the estimated maximum model length is 32944" in plan.error.message


def test_is_my_gpu_large_enough():
    """vllm PR #29736: How much, how does it scale, is my GPU large enough?

    Over the GPUs of the catalogue: none below 30 GiB holds 28 GiB of weights.
    """
    plan = planner.plan("Qwen/Qwen3-14B", max_model_len=4096)
    enough = [
        gpu
        for gpu in gpus.catalogue()
        if gpu.compute_capability >= (8, 0) and plan.changed(gpu=gpu).fits
    ]
    assert enough
    assert min(gpu.total_memory_bytes for gpu in enough) > 30 * GIB


def test_qwen3_14b_on_twelve_gb():
    """u/Shadehawke1 on Reddit: Qwen3-14B keeps running out of memory on 12 GB.

    27.5 GiB in 16 bits, 15 in 8: no setting alone starts it on 11.65 GiB.
    """
    plan = planner.plan("Qwen/Qwen3-14B", gpu="RTX3060", max_model_len=8192)
    weights = plan.limiting_rank.weights_bytes
    assert 27.5 * GIB < weights < 27.6 * GIB
    starting = [item for item in planner.advise(plan).items if item.starts]
    assert all(item.burden >= 4 for item in starting)
    assert any("gpu" in item.changes for item in starting)


def test_all_experts_stay_in_memory():
    """selfhostllm.org: Active parameters decide the memory of a mixture of experts.

    They do not: 46.7 billion x 2 bytes lie there, though 12.9 billion are active.
    """
    plan = planner.plan("mistralai/Mixtral-8x7B-Instruct-v0.1", gpu="H200")
    assert 46.6e9 < plan.limiting_rank.weights_bytes / 2 < 46.8e9


@pytest.mark.parametrize(("prompts", "served"), [(4, True), (400, False)])
def test_how_many_requests_at_once(prompts, served):
    """selfhostllm.org on HN: How many concurrent requests does this serve?"""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L40S", max_model_len=16384)
    load = planner.Load(prompt_tokens=8000, output_tokens=192, requests=prompts)
    advice = planner.advise(plan, load)
    assert (advice.requests >= prompts) == served
    assert served or advice.items[0].gain_requests > 0
