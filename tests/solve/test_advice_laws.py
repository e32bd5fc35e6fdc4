"""Laws of advice, over the catalogue's models, GPUs and settings."""

import re

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import planner
from planner.engine import gpu as gpus
from planner.engine.settings import given_arguments
from planner.errors import PlannerError
from planner.planning.inputs import Inputs
from planner.solve.advice.makers import MAKERS
from planner.solve.advice.situation import Situation

MODELS = (
    *("Qwen/Qwen3-0.6B", "Qwen/Qwen3-14B", "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B"),
    *("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"),
    *("meta-llama/Llama-4-Scout-17B-16E-Instruct", "google/gemma-3-27b-it"),
    *("mistralai/Mixtral-8x7B-Instruct-v0.1", "openai/gpt-oss-20b", "microsoft/phi-4"),
    *("openai/gpt-oss-120b", "deepseek-ai/DeepSeek-V2-Lite", "google/gemma-2-9b-it"),
    *("deepseek-ai/DeepSeek-V3", "Qwen/Qwen2.5-VL-7B-Instruct", "BAAI/bge-m3"),
    *("Qwen/Qwen3-VL-32B-Instruct", "Qwen/Qwen3-Next-80B-A3B-Instruct"),
    *("Qwen/Qwen3.5-27B", "nvidia/Nemotron-H-56B-Base-8K", "ai21labs/Jamba-v0.1"),
    *("openai/whisper-large-v3", "RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8"),
)
GPUS = ("T4", "L4", "RTX4090", "A10G", "A100-40GB", "L40S", "H100", "H200", "B200")

PLANS = st.fixed_dictionaries(
    {"model": st.sampled_from(MODELS), "gpu": st.sampled_from(GPUS)},
    optional={
        "tensor_parallel_size": st.sampled_from((2, 3, 4, 8)),
        "pipeline_parallel_size": st.sampled_from((2, 3)),
        "max_model_len": st.sampled_from((512, 4096, 32768, 131072)),
        "max_num_seqs": st.sampled_from((1, 16, 256, 2048)),
        "max_num_batched_tokens": st.sampled_from((512, 4096, 65536)),
        "gpu_memory_utilization": st.sampled_from((0.1, 0.5, 0.8, 0.9, 0.97, 1.0)),
        "kv_cache_dtype": st.sampled_from(("fp8", "nvfp4", "bfloat16")),
        "quantization": st.sampled_from(("fp8", "experts_int8")),
        "kv_cache_memory_bytes": st.sampled_from((2**28, 2**33)),
        "num_gpu_blocks_override": st.sampled_from((10, 1000)),
        "block_size": st.sampled_from((16, 64)),
        "dtype": st.sampled_from(("float32", "float16")),
        "enforce_eager": st.just(True),
        "disable_hybrid_kv_cache_manager": st.just(True),
        "enable_prefix_caching": st.booleans(),
        "attention_backend": st.sampled_from(("FLASH_ATTN", "FLASHINFER")),
    },
)
"""Arguments of a plan, legal or not."""

LAW = settings(
    max_examples=15,
    deadline=None,
    # Shrinking plans again for minutes what one look at the arguments tells.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)


def _planned(arguments):
    """Return the plan, or None where nothing can be planned."""
    try:
        return planner.plan(**arguments)
    except PlannerError:
        return None


def _available(plan):
    rank = plan.limiting_rank
    return 0 if rank is None else rank.available_kv_cache_bytes


@LAW
@given(arguments=PLANS)
def test_applying_an_advice_gives_exactly_the_gain_it_promised(arguments):
    """Plan, bytes and tokens of each change, and of the pair, to the last one."""
    plan = _planned(arguments)
    if plan is None:
        return
    for item in planner.advise(plan).offered:
        applied = plan.changed(**item.changes)
        assert applied == item.plan
        assert applied.fits == item.starts
        assert item.gain_bytes == _available(applied) - _available(plan)
        gained_tokens = applied.kv_cache_size_tokens - plan.kv_cache_size_tokens
        assert item.gain_tokens == gained_tokens
        assert item.gain_tokens_all_engines == (
            applied.all_engines.kv_cache_size_tokens
            - plan.all_engines.kv_cache_size_tokens
        )
        assert planner.advise(applied).requests >= 0


LOADS = st.none() | st.builds(
    planner.Load,
    prompt_tokens=st.sampled_from((500, 3000, 30_000)),
    output_tokens=st.sampled_from((0, 1000)),
    requests=st.sampled_from((1, 20, 300)),
)


@LAW
@given(arguments=PLANS, load=LOADS)
def test_a_change_is_offered_only_where_it_helps(arguments, load):
    """It starts or serves what did not, or gains 1 %, and never fewer requests."""
    plan = _planned({**arguments, "load": load})
    if plan is None:
        return
    advice = planner.advise(plan)
    cache = max(abs(_available(plan)), 16 * 2**20 * 100)
    for item in advice.offered:
        serves_now = item.serves and not advice.is_served
        starts_now = item.starts and not plan.fits
        gains = (
            item.gain_requests * 100 >= max(advice.requests, 1)
            or item.gain_bytes * 100 >= cache
            or item.gain_tokens * 100 >= max(plan.kv_cache_size_tokens, 1)
        )
        assert serves_now or starts_now or (gains and item.gain_requests >= 0)
        assert serves_now or item.starts or not plan.fits


@LAW
@given(arguments=PLANS, load=LOADS)
def test_applying_an_advice_changes_only_what_it_names(arguments, load):
    """The inputs before and after differ in the named arguments alone."""
    plan = _planned({**arguments, "load": load})
    if plan is None:
        return
    before = Inputs.of(plan)
    for item in planner.advise(plan).offered:
        after = Inputs.of(plan.changed(**item.changes))
        given = {**before.engine_args, **after.engine_args}
        changed = {
            name
            for name in given
            if before.engine_args.get(name) != after.engine_args.get(name)
        }
        assert changed <= set(item.changes)
        assert "model" in item.changes or item.plan.name == plan.name
        assert "gpu" in item.changes or after.gpu == before.gpu
        assert after.vllm_version == before.vllm_version
        assert after.entrypoint == before.entrypoint
        assert after.env == before.env
        assert after.load == before.load


@LAW
@given(arguments=PLANS)
def test_a_title_states_the_numbers_that_it_changes(arguments):
    """max_model_len=4096 is "4,096" in the title, and so for every number above 1."""
    plan = _planned(arguments)
    if plan is None:
        return
    for item in planner.advise(plan).offered:
        for value in item.changes.values():
            if isinstance(value, int | float) and value > 1:
                assert f"{value:,}" in item.title or f"{value:g}" in item.title


@LAW
@given(arguments=PLANS, load=LOADS)
def test_every_maker_gives_its_class_and_a_reason(arguments, load):
    """The burden has a class, and the cost is a sentence."""
    plan = _planned({**arguments, "load": load})
    if plan is None:
        return
    situation = Situation.of(plan, None)
    for make in MAKERS.values():
        for candidate in make(situation):
            assert candidate.burden.cost_class.rule
            assert re.fullmatch(r"([A-Z0-9]|vLLM ).*\.", candidate.cost)


@LAW
@given(arguments=PLANS, load=LOADS)
def test_an_advice_serves_the_load_where_planning_says_so(arguments, load):
    """And the best one serves wherever any does."""
    plan = _planned({**arguments, "load": load})
    if plan is None or load is None:
        return
    advice = planner.advise(plan)
    for item in advice.offered:
        assert item.serves == plan.changed(**item.changes).serving.is_served
    if any(item.serves for item in advice.offered):
        assert advice.best.serves
    groups = [(not group.suffices, group.cost_class.place) for group in advice.groups]
    assert groups == sorted(groups)


@LAW
@given(arguments=PLANS)
def test_what_starts_comes_before_what_does_not(arguments):
    """And a plan that does not start is told first what asks least."""
    plan = _planned(arguments)
    if plan is None:
        return
    items = planner.advise(plan).items
    assert [item.starts for item in items] == sorted(
        (item.starts for item in items), reverse=True
    )
    if not plan.fits:
        burdens = [item.burden for item in items if item.starts]
        assert burdens == sorted(burdens)


def _every_single_change(plan):
    """Yield single changes by brute force, knowing nothing of the makers."""
    yield from ({"tensor_parallel_size": size} for size in range(1, 9))
    yield from ({"pipeline_parallel_size": size} for size in range(1, 9))
    powers = [2**power for power in range(18)]
    for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens"):
        yield from ({name: power} for power in powers)
    for name, values in _CHOICES.items():
        yield from ({name: value} for value in values)
    yield from ({name: None} for name in given_arguments(plan.settings))
    yield from ({"gpu": gpu.name} for gpu in gpus.catalogue() if _is_larger(gpu, plan))


_CHOICES = {
    "quantization": ("fp8", "fp8_per_block", "mxfp8", "nvfp4_per_token"),
    "kv_cache_dtype": ("fp8", "nvfp4", "int8_per_token_head", "int4_per_token_head"),
    "enforce_eager": (True,),
    "max_cudagraph_capture_size": (0, 1, 8, 64, 256),
    "enable_expert_parallel": (True,),
    "language_model_only": (True,),
    "enable_prefix_caching": (False,),
    "block_size": (16, 32, 64, 128),
    "dtype": ("bfloat16", "float16"),
    "mamba_ssm_cache_dtype": ("bfloat16",),
    "cpu_offload_gb": (1, 4, 16, 64),
    "gpu_memory_utilization": (0.3, 0.6, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98),
    "limit_mm_per_prompt": ({"image": 0}, {"video": 0}, {"image": 1, "video": 1}),
}


def _is_larger(gpu, plan):
    """Whether it is whole, larger and no older: H100 after A100, not after B200.

    Eight times as large at most: a B300 is no answer to an A10G.
    """
    return (
        gpu.compute_capability >= plan.gpu.compute_capability
        and 1.02 <= gpu.total_memory_bytes / plan.gpu.total_memory_bytes <= 8
        and gpu.is_integrated == plan.gpu.is_integrated
        and not gpu.mig_profile
    )


def _has_room(plan):
    """Whether the budget leaves the most that lies beside it, and 1 % of the GPU."""
    total = plan.gpu.total_memory_bytes
    return all(
        rank.requested_memory_bytes + sum(line.high_bytes for line in rank.outside)
        <= total - total // 100
        for rank in plan.ranks
    )


def _starting_change(plan):
    """Return a single change that starts, found by trying them all; None without."""
    for changes in _every_single_change(plan):
        try:
            changed = plan.changed(**changes)
        except PlannerError:
            continue
        if changed.fits and _has_room(changed):
            return changes
    return None


@LAW
@given(arguments=PLANS)
def test_advice_is_never_empty_where_a_single_change_would_start_the_plan(arguments):
    """What brute force finds over some 150 single changes, advice finds in kind."""
    plan = _planned(arguments)
    if plan is None or plan.fits:
        return
    changes = _starting_change(plan)
    if changes is not None:
        items = planner.advise(plan).items
        assert items, changes
        assert items[0].starts, changes
