"""Each kind of change: what it proposes, what it says, what it leaves alone."""

from math import floor

import pytest

import planner
from planner.engine.releases import NEWEST
from planner.engine.settings import settings_from
from planner.solve.advice import makers
from planner.solve.advice.situation import Situation
from planner.solve.advice.trying import flags_of, removed_flags
from planner.units import GIB


def _proposed(name, plan, load=None):
    """Return the changes that one maker proposes, in its order."""
    situation = Situation.of(plan, load)
    return [dict(candidate.changes) for candidate in makers.MAKERS[name](situation)]


def _plan(model="Qwen/Qwen3-8B", **arguments):
    return planner.plan(model, **{"gpu": "H100", **arguments})


def _item(advice, *names):
    return next(item for item in advice.items if set(item.changes) == set(names))


def test_flags_are_what_is_added_and_what_is_left_out():
    """A model and a GPU are no flags; None takes a flag back."""
    changes = {"gpu": "H200", "max_num_seqs": 64, "block_size": None}
    assert flags_of(changes) == "--max-num-seqs 64"
    assert removed_flags(changes) == "--block-size"


def test_tensor_parallel_sizes_divide_the_heads():
    """40 heads: over 2, 4, 5 or 8 GPUs; planning them refuses 5 for the vocabulary."""
    assert _proposed("tensor parallel", _plan("Qwen/Qwen3-14B")) == [
        {"tensor_parallel_size": size} for size in (2, 4, 5, 8)
    ]


def test_a_slice_of_a_gpu_joins_no_others():
    """MIG slices and processors make no engine of several."""
    plan = _plan(gpu="H100-MIG-3g.40gb")
    for name in ("tensor parallel", "pipeline parallel", "data parallel"):
        assert _proposed(name, plan) == []


def test_the_share_of_the_gpu_rises_in_hundredths_up_to_what_is_safe():
    """From 0.93 to the largest that leaves room for context and block tables."""
    plan = _plan("Qwen/Qwen3-32B")
    shares = [
        change["gpu_memory_utilization"]
        for change in _proposed("more of the GPU", plan)
    ]
    assert shares[0] == 0.93
    total = plan.gpu.total_memory_bytes
    beside = sum(line.high_bytes for line in plan.limiting_rank.outside)
    assert shares[-1] == floor(100 * (total - beside - total // 100) / total) / 100
    least = _item(planner.advise(plan), "gpu_memory_utilization")
    share = least.changes["gpu_memory_utilization"]
    assert not plan.changed(gpu_memory_utilization=round(share - 0.01, 2)).fits


def test_a_fixed_cache_is_left_to_vllm():
    """One GiB holds no request of 40,960 tokens; what the budget leaves holds nine."""
    plan = _plan(kv_cache_memory_bytes=GIB)
    item = _item(planner.advise(plan), "kv_cache_memory_bytes")
    assert item.changes == {"kv_cache_memory_bytes": None}
    assert item.flags == ""
    assert item.removed_flags == "--kv-cache-memory-bytes"
    assert item.plan == _plan()


def test_an_override_of_blocks_is_left_out():
    """A hundred blocks of 16 tokens hold no request of 40,960."""
    plan = _plan(num_gpu_blocks_override=100)
    assert planner.advise(plan).best.removed_flags == "--num-gpu-blocks-override"


def test_what_is_offloaded_is_the_least_that_starts():
    """In tenths of a GiB: a tenth less does not start."""
    plan = _plan("Qwen/Qwen3-14B", gpu="RTX4090", max_model_len=4096)
    item = _item(planner.advise(plan), "cpu_offload_gb")
    amount = item.changes["cpu_offload_gb"]
    assert item.starts
    assert not plan.changed(cpu_offload_gb=round(amount - 0.1, 1)).fits


def test_a_gpu_on_which_nothing_starts_is_offered_only_beside_more_of_them():
    """DeepSeek-V3: 625 GiB of weights are for no single GPU, but for 8 x 140 GiB."""
    advice = planner.advise(_plan("deepseek-ai/DeepSeek-V3", gpu="L40S"))
    assert not any("gpu" in item.changes for item in advice.items)
    assert advice.pair.changes == {"tensor_parallel_size": 8, "gpu": "H200"}
    assert advice.best is advice.pair


@pytest.mark.parametrize(
    ("model", "now", "offered"),
    [
        ("Qwen/Qwen3-14B", "A10G", ["A40"]),
        ("Qwen/Qwen3-14B", "L4", ["L40S"]),  # the A40 is older, 8.6 and not 8.9
        ("Qwen/Qwen3-14B", "RTX3090", ["RTX6000Ada"]),
        ("Qwen/Qwen3-32B", "RTX4090", ["RTXPRO6000-WS"]),
        # 131 GiB of weights: no card for a desk, and none of 8 x 24 GiB at most.
        ("meta-llama/Llama-3.1-70B-Instruct", "A10G", []),
        # No data centre's GPU is newer than 12.0 and larger than this one.
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "RTXPRO6000", ["GB200"]),
    ],
)
def test_the_smallest_gpu_of_the_same_class_comes_first(model, now, offered):
    """A card for a desk after another; no older one unless nothing else starts."""
    items = planner.advise(_plan(model, gpu=now)).items
    assert [i.changes["gpu"] for i in items if "gpu" in i.changes] == offered


def test_several_larger_gpus_are_offered_where_one_would_be_out_of_proportion():
    """625 GiB of weights on an A100: several larger GPUs, for no single one does."""
    advice = planner.advise(_plan("deepseek-ai/DeepSeek-V3", gpu="A100-80GB"))
    assert set(advice.pair.changes) == {"tensor_parallel_size", "gpu"}
    assert advice.pair.starts


def _shared_h100(free_gib):
    total = planner.GPU.named("H100").total_memory_bytes
    return planner.GPU.named(
        "H100", total_memory_bytes=total, free_memory_bytes=free_gib * GIB
    )


def test_too_little_is_free_and_the_weights_do_not_fit_either():
    """60 GiB free of each, 66 of weights: less of the GPU, and 8 bits of weights."""
    plan = _plan(
        "meta-llama/Llama-3.1-70B-Instruct",
        gpu=_shared_h100(60),
        tensor_parallel_size=2,
    )
    assert plan.error.kind == "free_memory"
    assert plan.changed(gpu_memory_utilization=0.72).error.kind == "weights"
    pair = planner.advise(plan).pair
    assert pair.starts
    assert set(pair.changes) == {"gpu_memory_utilization", "model"}
    larger = _item(planner.advise(plan), "gpu")
    assert larger.cost == "H200 instead of H100 (79.19 GiB), taken to be empty."


def test_too_little_is_free_and_only_more_gpus_hold_the_weights():
    """8-bit weights of 68 GiB, of which 40 are free: over two of these, no H200."""
    plan = _plan(
        "RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8",
        gpu=_shared_h100(40),
    )
    pair = planner.advise(plan).pair
    assert pair.starts
    more = {"tensor_parallel_size", "pipeline_parallel_size"} & set(pair.changes)
    assert len(more) == 1
    assert set(pair.changes) == {"gpu_memory_utilization", *more}


def test_adapters_of_a_lower_rank_and_fewer_of_them():
    """128, 64, ... down to 8; 3, 2, 1."""
    plan = _plan(enable_lora=True, max_lora_rank=256, max_loras=4, max_model_len=8192)
    assert _proposed("adapter rank", plan)[0] == {"max_lora_rank": 128}
    assert _proposed("adapter rank", plan)[-1] == {"max_lora_rank": 8}
    assert _proposed("fewer adapters", plan) == [{"max_loras": n} for n in (3, 2, 1)]
    assert _proposed("no adapters", plan) == [{"enable_lora": False}]
    warnings = planner.advise(plan).warnings
    assert any("Room for 4 adapters of rank 256" in text for text in warnings)


def test_fewer_tokens_are_guessed_or_none():
    """4, 2, 1 of 5; or the argument is taken back."""
    plan = _plan(spec_method="ngram", spec_tokens=5, max_model_len=8192)
    fewer = _proposed("fewer guesses", plan)
    assert fewer == [{"spec_tokens": n} for n in (4, 2, 1)]
    assert _proposed("no draft", plan) == [{"spec_method": None, "spec_tokens": None}]
    config = {"method": "ngram", "num_speculative_tokens": 2}
    other = _plan(speculative_config=config, max_model_len=8192)
    assert _proposed("fewer guesses", other) == [
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 1}}
    ]
    assert _proposed("fewer guesses", _plan(max_model_len=8192)) == []


def test_adapters_are_cut_over_the_ranks():
    """Only where there are ranks, and they are not cut yet."""
    plan = _plan(enable_lora=True, tensor_parallel_size=2, max_model_len=8192)
    assert _proposed("adapters cut", plan) == [{"fully_sharded_loras": True}]
    assert _proposed("adapters cut", plan.changed(tensor_parallel_size=1)) == []


def test_one_modality_or_all_of_them_are_left_out():
    """Videos first, for images are what most people send."""
    plan = _plan("Qwen/Qwen2.5-VL-7B-Instruct", max_model_len=8192)
    assert _proposed("one modality less", plan) == [
        {"limit_mm_per_prompt": {"video": 0}},
        {"limit_mm_per_prompt": {"image": 0}},
    ]
    assert _proposed("fewer images", plan) == [
        {"limit_mm_per_prompt": {"image": 1, "video": 1}}
    ]
    assert _proposed("text only", plan.changed(language_model_only=True)) == []


def test_an_encoder_that_every_rank_holds_is_cut():
    """mm_encoder_tp_mode="data" holds it whole on each."""
    plan = _plan(
        "Qwen/Qwen2.5-VL-7B-Instruct",
        tensor_parallel_size=2,
        mm_encoder_tp_mode="data",
        max_model_len=8192,
    )
    assert _proposed("encoder cut", plan) == [{"mm_encoder_tp_mode": "weights"}]


def test_an_encoder_is_held_whole_and_images_shared_out():
    """Where there are ranks, and the class can."""
    model = "Qwen/Qwen2.5-VL-7B-Instruct"
    plan = _plan(model, tensor_parallel_size=2, max_model_len=8192)
    assert _proposed("encoder whole", plan) == [{"mm_encoder_tp_mode": "data"}]
    assert _proposed("encoder whole", plan.changed(tensor_parallel_size=1)) == []
    assert _proposed("encoder whole", plan.changed(language_model_only=True)) == []


def test_fewer_tiles_of_large_images():
    """8, 4 and 1 of Llama 4's 16; Qwen has no tiles."""
    plan = _plan("meta-llama/Llama-4-Scout-17B-16E-Instruct", max_model_len=8192)
    found = _proposed("fewer tiles", plan)
    assert found == [{"mm_processor_kwargs": {"max_patches": n}} for n in (8, 4, 1)]
    assert _proposed("fewer tiles", _plan("Qwen/Qwen2.5-VL-7B-Instruct")) == []


def test_thirty_two_bits_and_doubled_batches_are_taken_back():
    """dtype=float32 doubles weights and cache; throughput doubles batches."""
    wide = _plan(dtype="float32", max_model_len=8192)
    item = _item(planner.advise(wide), "dtype")
    assert item.changes == {"dtype": "bfloat16"}
    assert item.gain_bytes > 14 * GIB
    fast = _plan(performance_mode="throughput", max_model_len=8192)
    assert _proposed("balanced", fast) == [{"performance_mode": "balanced"}]


def test_layers_of_several_kinds_keep_what_each_needs():
    """gpt-oss: a window of 128 tokens in every other layer."""
    plan = _plan("openai/gpt-oss-20b", disable_hybrid_kv_cache_manager=True)
    item = _item(planner.advise(plan), "disable_hybrid_kv_cache_manager")
    assert item.gain_tokens > 0
    assert item.plan == _plan("openai/gpt-oss-20b")


def test_experts_are_given_whole_where_there_are_ranks():
    """A mixture of experts over two GPUs; not on one, not twice."""
    plan = _plan("Qwen/Qwen3-30B-A3B", tensor_parallel_size=2)
    assert _proposed("expert parallel", plan) == [{"enable_expert_parallel": True}]
    assert _proposed("expert parallel", _plan("Qwen/Qwen3-30B-A3B")) == []
    assert _proposed("expert parallel", plan.changed(enable_expert_parallel=True)) == []


def test_a_load_longer_than_max_model_len_is_let_in():
    """8,000 tokens do not pass max_model_len=4096, whatever the KV cache holds."""
    plan = _plan(max_model_len=4096)
    load = planner.Load(prompt_tokens=7000, output_tokens=1000, requests=2)
    advice = planner.advise(plan, load)
    assert advice.requests == 0
    assert advice.best.changes == {"max_model_len": 8000}
    assert advice.best.serves


def test_requests_are_limited_by_max_num_seqs_and_multiplied_by_engines():
    """The KV cache holds more than 100 of them; 4 run at once, in each of 2 engines."""
    plan = _plan(max_model_len=1024, max_num_seqs=4)
    assert planner.advise(plan).requests == 4
    assert planner.advise(plan.changed(data_parallel_size=2)).requests == 8


def test_two_changes_are_offered_where_no_setting_alone_suffices():
    """Llama on an L4 with room for large adapters: none, and shorter prompts."""
    plan = _plan(
        "meta-llama/Llama-3.1-8B-Instruct",
        gpu="L4",
        enable_lora=True,
        max_loras=8,
        max_lora_rank=256,
    )
    advice = planner.advise(plan)
    assert not any(item.starts and not item.needs_hardware for item in advice.items)
    assert advice.pair.starts
    assert len(advice.pair.changes) == 2
    assert not advice.pair.needs_hardware
    assert advice.pair.title in str(advice)


def test_an_older_release_is_told_that_the_newest_starts():
    """0.9.2 knows no gpt-oss; the newest does."""
    plan = _plan("openai/gpt-oss-20b", vllm_version="0.9.2")
    assert plan.outcome == "refused"
    assert any(f"{NEWEST} would start this" in w for w in planner.advise(plan).warnings)


def test_nothing_is_offered_where_nothing_helps():
    """A model that vLLM serves no more gets no changes, and says so."""
    plan = _plan("Qwen/Qwen-7B-Chat")
    advice = planner.advise(plan)
    assert advice.items == ()
    assert advice.best is None
    assert not advice.helps_to_start
    assert "No single change helps." in str(advice)
    assert "No single change helps." in advice._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("gpu", ["CPU", "GB10"])
def test_memory_that_is_shared_is_advised_on_as_well(gpu):
    """A processor gets no GPU offered, and a GB10 no plain one."""
    if gpu == "CPU":
        gpu = planner.GPU(name="CPU", total_memory_bytes=16 * GIB)
    plan = planner.plan("Qwen/Qwen3-8B", gpu=gpu)
    kinds = {name for item in planner.advise(plan).items for name in item.changes}
    assert not kinds & {"gpu", "enforce_eager"} or not plan.gpu.is_cpu
    assert settings_from({}) == plan.settings


def test_what_is_free_is_asked_for_less_the_context_and_some_room():
    """30.12 of 31.84 GiB are free, less the context and some room: 0.9."""
    gpu = planner.GPU.named(
        "RTX5090",
        total_memory_bytes=int(31.84 * GIB),
        free_memory_bytes=int(30.12 * GIB),
    )
    plan = planner.plan("Qwen/Qwen3-8B", gpu=gpu, gpu_memory_utilization=0.95)
    assert _proposed("less of the GPU", plan) == [{"gpu_memory_utilization": 0.9}]
    assert planner.advise(plan).best.changes == {"gpu_memory_utilization": 0.9}


def test_a_full_gpu_leaves_nothing_to_offer_of_its_own():
    """5 of 79 GiB are free: no share of them holds 16 GiB of weights."""
    total = planner.GPU.named("H100").total_memory_bytes
    full = planner.GPU.named(
        "H100", total_memory_bytes=total, free_memory_bytes=5 * GIB
    )
    advice = planner.advise(planner.plan("Qwen/Qwen3-8B", gpu=full))
    shares = [i for i in advice.items if "gpu_memory_utilization" in i.changes]
    assert not any(item.starts for item in shares)


def test_context_parallel_divides_what_ranks_repeat():
    """One latent head on 4 ranks: over 2 or all 4 of them."""
    plan = _plan("deepseek-ai/DeepSeek-V2-Lite", tensor_parallel_size=4)
    assert _proposed("context parallel", plan) == [
        {"decode_context_parallel_size": size} for size in (2, 4)
    ]
    split = plan.changed(decode_context_parallel_size=4)
    assert not any("Latent" in text for text in planner.advise(split).warnings)


def test_another_block_size_is_tried_where_layers_share_blocks():
    """Or where one was asked for; a plain model keeps vLLM's choice."""
    assert _proposed("block size", _plan()) == []
    asked = _proposed("block size", _plan(block_size=64))
    assert asked == [{"block_size": size} for size in (16, 32, 128)]


@pytest.mark.parametrize(
    ("release", "names"),
    [
        ("0.19.1", ["fp8"]),
        ("0.20.0", ["fp8_per_tensor", "fp8_per_block"]),
        ("0.33.0", ["fp8_per_tensor", "fp8_per_block"]),
    ],
)
def test_online_methods_bear_the_name_that_the_release_takes(release, names):
    """Until 0.19 fp8 is the only name; from 0.20 on it is the old one."""
    plan = _plan(vllm_version=release)
    proposed = [c["quantization"] for c in _proposed("online quantisation", plan)]
    assert proposed[:2] == names
    situation = Situation.of(plan, None)
    for candidate in makers.MAKERS["online quantisation"](situation):
        assert f"({candidate.changes['quantization']})" in candidate.title


def test_more_requests_are_offered_for_a_load_only():
    """As many as one engine has of it."""
    load = planner.Load(prompt_tokens=3000, output_tokens=1000, requests=50)
    plan = _plan(max_num_seqs=8)
    assert _proposed("more requests", plan) == []
    assert _proposed("more requests", plan, load) == [{"max_num_seqs": 50}]
    two = plan.changed(data_parallel_size=2)
    assert _proposed("more requests", two, load) == [{"max_num_seqs": 25}]
    assert _proposed("more requests", plan.changed(max_num_seqs=64), load) == []
