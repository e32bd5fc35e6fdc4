"""Questions that users asked vLLM's maintainers, answered with the planner.

Each docstring holds a question in our words, after where it was asked
(vllm-project/vllm unless named). The figures are those of vLLM 0.33.0's defaults where
nothing is said.
"""

import re

import pytest

import planner
from planner.solve.advice import Advice, AdviceItem
from planner.units import GIB


def _kv_bytes(plan):
    return plan.limiting_rank.available_kv_cache_bytes


def _item(advice: Advice, *names: str) -> AdviceItem:
    return next(item for item in advice.items if set(item.changes) == set(names))


def test_why_does_half_a_billion_parameters_take_21_gib():
    """#4253: Why does a 0.5B model require 21 GB?

    0.9 x 23.52 GiB = 21.17 GiB is the budget that vLLM fills; the weights are 0.92 GiB.
    """
    model = "Qwen/Qwen2.5-0.5B-Instruct"
    plan = planner.plan(model, gpu="RTX4090", gpu_memory_utilization=0.9)
    rank = plan.limiting_rank
    assert rank.requested_memory_bytes == 22_728_513_946  # ceil(0.9 x 25,253,904,384)
    assert rank.weights_bytes == 992_260_224
    assert any(
        "vLLM takes its whole budget" in w for w in planner.advise(plan).warnings
    )
    small = plan.changed(gpu_memory_utilization=0.2, max_model_len=4096)
    assert small.fits
    assert small.limiting_rank.requested_memory_bytes < 5 * GIB


def test_should_eight_billion_parameters_not_take_16_gb():
    """#8816: An 8B model should take 16 GB, and mine takes all of the GPU.

    The weights do take 16.09 GB (8.03 billion x 2 bytes); the rest is KV cache.
    """
    plan = planner.plan("meta-llama/Llama-3.1-8B-Instruct", gpu="H100")
    assert plan.limiting_rank.weights_bytes == 16_094_077_440
    assert _kv_bytes(plan) > 50 * GIB


def test_why_does_opt_125m_take_11_gb():
    """#355, #2587: opt-125m takes 11 GB on my T4.

    The budget is 0.92 x 14.56 GiB = 13.39 GiB; a fifth of the GPU serves it as well.
    """
    plan = planner.plan("facebook/opt-125m", gpu="T4")
    assert plan.limiting_rank.weights_bytes < 0.25 * GIB
    assert 13 * GIB < plan.limiting_rank.requested_memory_bytes < 14 * GIB
    assert f"{plan.changed(gpu_memory_utilization=0.2).max_concurrency:.1f}" == "28.3"


def test_lowering_the_utilization_leaves_no_memory_for_cache_blocks():
    """#7028, #9163: I set 0.1 to use less: No available memory for the cache blocks.

    15 GiB of weights need more than 0.1 x 22.06 GiB; the advice is the least that
    starts.
    """
    plan = planner.plan(
        "meta-llama/Meta-Llama-3-8B", gpu="A10G", gpu_memory_utilization=0.1
    )
    assert plan.error.message.startswith("No available memory for the cache blocks.")
    item = planner.advise(plan).items[0]
    least = item.changes["gpu_memory_utilization"]
    assert 0.8 < least < 0.92
    assert item.starts
    assert not plan.changed(gpu_memory_utilization=round(least - 0.01, 2)).fits


def test_may_i_give_vllm_all_of_the_gpu():
    """#10797: Should I use gpu_memory_utilization=1?

    No: the CUDA context takes half a GiB, so 78.68 of 79.19 GiB are free at best.
    """
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100", gpu_memory_utilization=1.0)
    assert plan.error.kind == "free_memory"
    assert any("Use 0.99 or less" in note for note in plan.notes)
    best = planner.advise(plan).best
    assert 0.95 < best.changes["gpu_memory_utilization"] < 0.99
    assert best.starts


def test_130_mb_are_missing_every_single_time():
    """cognithor #318: 30.12 of 31.84 GiB are free, and 0.95 wants 130 MB more.

    0.95 x 31.84 = 30.25 GiB, 0.13 GiB more than Windows leaves free.
    """
    gpu = planner.GPU.named(
        "RTX5090",
        total_memory_bytes=int(31.84 * GIB),
        free_memory_bytes=int(30.12 * GIB),
    )
    plan = planner.plan(
        "Qwen/Qwen3-8B", gpu=gpu, gpu_memory_utilization=0.95, max_model_len=8192
    )
    missing = plan.limiting_rank.requested_memory_bytes - gpu.free_memory_bytes
    assert round(missing / 10**6) == 137
    best = planner.advise(plan).best
    assert best.flags == "--gpu-memory-utilization 0.9"
    assert best.starts


def test_can_the_size_of_the_kv_cache_be_changed():
    """#2418: max seq len is larger than what the KV cache stores: can I change it?

    40,960 tokens asked, 32,960 held: 8-bit keys and values hold twice as many.
    """
    plan = planner.plan("Qwen/Qwen3-32B", gpu="H100")
    assert (plan.resolved.max_model_len, plan.kv_cache_size_tokens) == (40960, 32960)
    advice = planner.advise(plan)
    halved = _item(advice, "kv_cache_dtype")
    assert halved.plan.kv_cache_size_tokens == 65936
    assert halved.starts
    assert _item(advice, "max_model_len").changes["max_model_len"] < 29168


def test_out_of_memory_when_warming_up_the_sampler():
    """#14452, #15105, #27508: OOM when warming up sampler with 1024 dummy requests.

    On an H100 the default is 1,024: x 151,936 logits x 14 bytes = 2.03 GiB of peak.
    """
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100")
    assert plan.resolved.max_num_seqs == 1024
    peak = plan.limiting_rank.line("peak activation").size_bytes
    assert peak >= 1024 * 151_936 * 14
    assert any("test its sampler" in w for w in planner.advise(plan).warnings)
    fewer = plan.changed(max_num_seqs=256)
    # 1.35 GiB of peak, 0.47 of state for sampling, and 16 graphs of 1 MiB.
    lines = ("peak activation", "persistent buffers", "CUDA graphs")
    saved = [
        one.limiting_rank.line(name).size_bytes
        for one in (plan, fewer)
        for name in lines
    ]
    gained = sum(saved[:3]) - sum(saved[3:])
    assert _kv_bytes(fewer) - _kv_bytes(plan) == gained
    assert gained / GIB == pytest.approx(1.35 + 0.475 + 16 / 1024, abs=0.01)


def test_what_do_cuda_graphs_take_from_the_cache():
    """#45178, PR #51590: KV cache is far larger when graph profiling is off.

    What vLLM sets aside for graphs goes to the cache, byte for byte, without them.
    """
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L4", max_model_len=8192)
    graphs = plan.limiting_rank.line("CUDA graphs").size_bytes
    item = _item(planner.advise(plan), "enforce_eager")
    # 51 pieces of the model by layers, 34 whole graphs of 1 MiB.
    assert graphs / GIB == pytest.approx(0.587, abs=0.001)
    assert item.gain_bytes == graphs
    assert "--enforce-eager" == item.flags


def test_out_of_memory_in_graph_capture_at_a_share_of_098():
    """#57475: OOM while capturing CUDA graphs with 0.98.

    0.98 leaves 0.44 GiB of a 22 GiB L4: not enough for graphs that are not charged.
    """
    plan = planner.plan(
        "Qwen/Qwen3-8B",
        gpu="L4",
        vllm_version="0.27.1",
        max_model_len=8192,
        gpu_memory_utilization=0.98,
    )
    assert not plan.fits
    told = f"{plan.error.message} {' '.join(plan.notes)}"
    assert re.search(r"[Uu]se 0\.9[0-5] or less", told)
    long = plan.changed(
        vllm_version="0.33.0", gpu_memory_utilization=None, max_model_len=40960
    )
    item = next(i for i in planner.advise(long).items if "stay free" in i.cost)
    assert item.changes["gpu_memory_utilization"] == 0.96


def test_why_do_gdn_models_hold_fewer_tokens_in_newer_releases():
    """#50780: KV cache of my gated-delta-net model shrank by a fifth.

    Newer releases keep states for prefix caching; without it the tokens are back.
    """
    newer = planner.plan("Qwen/Qwen3.5-27B", gpu="H200", max_model_len=32768)
    older = newer.changed(vllm_version="0.26.0")
    lost = 1 - newer.kv_cache_size_tokens / older.kv_cache_size_tokens
    # A fifth in the report; less here, as 0.33 charges less for whole graphs.
    assert lost == pytest.approx(0.134, abs=0.001)
    without = newer.changed(enable_prefix_caching=False)
    assert without.kv_cache_size_tokens > 0.95 * older.kv_cache_size_tokens
    assert _item(planner.advise(newer), "enable_prefix_caching").plan == without


def test_text_only_use_still_profiles_the_largest_image():
    """#38459, #22173: I send text, yet the largest video is profiled.

    On an L4, the encoder and its trial take 13 of 20 GiB.
    """
    plan = planner.plan("Qwen/Qwen2.5-VL-7B-Instruct", gpu="L4")
    assert not plan.fits
    item = _item(planner.advise(plan), "language_model_only")
    assert item.gain_bytes > 13 * GIB
    assert any("even if only text is sent" in w for w in planner.advise(plan).warnings)


def test_limit_mm_per_prompt_seems_ignored_for_qwen3_vl():
    """#38459, #36357: limit_mm_per_prompt changes nothing for Qwen3-VL.

    One image is as large as what the trial run takes anyway: not a byte changes.
    """
    plan = planner.plan("Qwen/Qwen3-VL-8B-Instruct", gpu="H100", max_model_len=32768)
    one = plan.changed(limit_mm_per_prompt={"image": 1, "video": 0})
    none = plan.changed(limit_mm_per_prompt={"image": 0, "video": 0})
    assert _kv_bytes(one) == _kv_bytes(plan)
    assert _kv_bytes(none) > _kv_bytes(plan) + GIB


@pytest.mark.parametrize(
    ("model", "ranks", "words"),
    [
        ("Qwen/Qwen3-14B", 3, "Total number of attention heads (40)"),
        ("Qwen/Qwen3-14B", 6, "Total number of attention heads (40)"),
        ("Qwen/Qwen2.5-1.5B", 8, "Total number of attention heads (12)"),
        ("tiiuae/falcon-7b", 2, "Total number of attention heads (71)"),
    ],
)
def test_which_tensor_parallel_sizes_divide_the_model(model, ranks, words):
    """#414, #2652, #596: 52 heads over 3 GPUs, 40 over 6, 12 over 8: not divisible.

    The heads decide (40 over 3 here for 52); the advice is a size that divides them.
    """
    plan = planner.plan(model, gpu="H100", tensor_parallel_size=ranks)
    assert plan.error.message.startswith(words)
    sizes = [
        item.changes["tensor_parallel_size"] or 1
        for item in planner.advise(plan).items
        if "tensor_parallel_size" in item.changes
    ]
    heads = plan.model.num_attention_heads
    assert sizes
    assert all(heads % size == 0 for size in sizes)


def test_adapters_take_memory_by_their_largest_rank():
    """#14450, #29049, #15039: LoRA takes memory before I load any adapter.

    8 adapters of rank 256 take 128 times what one of rank 16 takes, and buffers.
    """
    plain = planner.plan(
        "meta-llama/Llama-3.1-8B-Instruct", gpu="H100", max_model_len=8192
    )
    one = plain.changed(enable_lora=True, max_loras=1, max_lora_rank=16)
    many = one.changed(max_loras=8, max_lora_rank=256)
    weights = [p.limiting_rank.weights_bytes for p in (plain, one, many)]
    assert weights[1] - weights[0] == 92_774_456
    assert 127 < (weights[2] - weights[0]) / (weights[1] - weights[0]) < 129
    rank = _item(planner.advise(many), "max_lora_rank")
    assert rank.changes == {"max_lora_rank": 128}
    assert rank.gain_bytes > 5 * GIB


def test_a_draft_models_weights_and_cache_are_counted():
    """#9995, PR #37521: The draft model's weights and KV cache are not counted.

    Qwen3-8B with Qwen3-0.6B before it: 1.11 GiB more weights, and 28 layers more in the
    cache beside the 36, of the same 8 heads of 128, so 36/64 of the tokens at most.
    """
    plain = planner.plan("Qwen/Qwen3-8B")
    draft = {"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 3}
    drafted = plain.changed(speculative_config=draft)
    more = drafted.limiting_rank.weights_bytes - plain.limiting_rank.weights_bytes
    assert 1.10 * GIB < more < 1.12 * GIB
    assert [group.num_layers for group in plain.kv_groups] == [36]
    assert [group.num_layers for group in drafted.kv_groups] == [64]
    assert drafted.kv_cache_size_tokens < plain.kv_cache_size_tokens * 36 / 64
    without_length = plain.changed(speculative_config={"model": "Qwen/Qwen3-0.6B"})
    assert "num_speculative_tokens" in without_length.error.message


def test_cpu_offload_is_accepted_and_does_nothing():
    """#9339, #13714, #56283: cpu_offload_gb has no effect.

    Before 0.28.0 the second model runner moves nothing; from then on 10 GiB and a bit.
    """
    model, gpu = "Qwen/Qwen3-14B", "RTX4090"
    before = planner.plan(model, gpu=gpu, vllm_version="0.27.1", cpu_offload_gb=10)
    after = before.changed(vllm_version="0.28.0")
    assert any("ignores cpu_offload_gb" in note for note in before.notes)
    moved = before.limiting_rank.weights_bytes - after.limiting_rank.weights_bytes
    assert 10 * GIB <= moved < 10.5 * GIB


def test_a_slice_of_a_gpu_gets_the_defaults_of_small_gpus():
    """#55381: On an H200 2g.35gb my throughput halves.

    Below 70 GiB vLLM takes 2,048 tokens and 256 requests a step; 8,192 cost 0.27 GiB.
    """
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H200-MIG-2g.35gb")
    assert plan.resolved.max_num_batched_tokens == 2048
    assert plan.resolved.max_num_seqs == 256
    asked = plan.changed(max_num_batched_tokens=8192)
    assert 0.2 * GIB < _kv_bytes(plan) - _kv_bytes(asked) < 0.4 * GIB
    kinds = {name for item in planner.advise(plan).items for name in item.changes}
    assert not kinds & {"tensor_parallel_size", "pipeline_parallel_size"}


def test_is_the_utilization_of_the_gpu_or_of_the_instance():
    """#10643, #14376, #10451: Two instances on one GPU: global or per instance?

    Of the whole GPU, by each instance: after one with 0.5, a second 0.5 has no room,
    for the first also holds its context; 0.49 has.
    """
    first = planner.plan(
        "Qwen/Qwen3-8B", gpu="H100", gpu_memory_utilization=0.5, max_model_len=8192
    )
    rank = first.limiting_rank
    total = first.gpu.total_memory_bytes
    left = total - rank.requested_memory_bytes - rank.outside_bytes
    shared = planner.GPU.named("H100", total_memory_bytes=total, free_memory_bytes=left)
    assert first.changed(gpu=shared).error.kind == "free_memory"
    assert first.changed(gpu=shared, gpu_memory_utilization=0.49).fits


def test_latent_attention_does_not_shrink_with_more_gpus():
    """A lesson learnt late: DeepSeek needs as much KV cache on 4 GPUs as on 2.

    One latent head is kept whole by every rank; two ranks a context halve it.
    """
    plan = planner.plan(
        "deepseek-ai/DeepSeek-V2-Lite", gpu="H100", tensor_parallel_size=2
    )
    more = plan.changed(tensor_parallel_size=4)
    assert more.needed_kv_cache_bytes == plan.needed_kv_cache_bytes
    assert any("Latent attention" in w for w in planner.advise(plan).warnings)
    split = _item(planner.advise(plan), "decode_context_parallel_size").plan
    assert split.needed_kv_cache_bytes == -(-plan.needed_kv_cache_bytes // 2)


def test_more_ranks_than_kv_heads_repeat_them():
    """A lesson learnt late: 16 GPUs hold hardly more tokens a GPU than 8.

    8 KV heads over 16 ranks: each is kept twice, a block is as large as over 8.
    """
    plan = planner.plan(
        "meta-llama/Llama-3.1-70B-Instruct", gpu="H100", tensor_parallel_size=16
    )
    eight = plan.changed(tensor_parallel_size=8)
    assert plan.limiting_rank.bytes_per_block == eight.limiting_rank.bytes_per_block
    assert any("each head is kept 2 times" in w for w in planner.advise(plan).warnings)


def test_a_hybrid_model_refuses_more_requests_than_state_blocks():
    """A lesson learnt late: max_num_seqs exceeds available Mamba cache blocks."""
    plan = planner.plan(
        "nvidia/Nemotron-H-56B-Base-8K", gpu="H100", tensor_parallel_size=2
    )
    assert plan.error.kind == "num_seqs"
    best = planner.advise(plan).best
    assert best.changes["max_num_seqs"] <= plan.num_gpu_blocks
    assert best.starts
