"""A bound on speed: what a step must read and compute, and nothing faster."""

import json
from math import isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner import GPU, Load, PlannerError
from planner.engine.gpu import FLOPS_DTYPES, catalogue
from planner.memory.account import Basis
from planner.show.speed import sheet
from planner.solve.speed.reach import Reach
from planner.solve.speed.speed import CAUTION
from planner.solve.speed.step import (
    Peaks,
    compute_limits_from,
    decode_step,
    mean_of,
    prompt_steps,
)
from planner.solve.speed.work import Experts, work_of
from planner.units import GIB
from tests import plans
from tests.rows import each_row

LOAD = Load(prompt_tokens=2000, output_tokens=500, requests=32)
LOADS = st.builds(
    Load,
    prompt_tokens=st.integers(1, 4000),
    output_tokens=st.integers(0, 1000),
    requests=st.integers(1, 300),
)
MODELS = (
    "Qwen/Qwen3-8B",  # plain attention
    "google/gemma-3-4b-it",  # windows, tied embeddings
    "Qwen/Qwen3-30B-A3B",  # experts
    "openai/gpt-oss-20b",  # windows, experts in four bits
    "Qwen/Qwen3-Next-80B-A3B-Instruct",  # states
    "deepseek-ai/DeepSeek-V2-Lite-Chat",  # latent attention
)


def bound(plan, **changes):
    """Return the bound under the usual load, with something changed."""
    load = Load(**{"prompt_tokens": 2000, "output_tokens": 500, **changes})
    return planner.speed_bound(plan, load)


def figure(found, name):
    """Return the figure of that name."""
    return next(figure for figure in found.figures if figure.name == name)


def test_a_step_of_a_dense_model_is_weights_and_caches_over_bandwidth() -> None:
    """Llama-3.1-8B on an H100, worked out by hand.

    Matrix products: 32 layers x (4096 x (4096 + 2 x 1024) + 4096 x 4096 + 3 x 4096 x
    14336) + 4096 x 128256 = 7,504,658,432 parameters. Read: these and 65 norms of 4096,
    two bytes each. KV cache: 32 layers x 2 x 8 heads x 128 x 2 bytes = 131,072 bytes a
    token; 2,001 to 2,500 tokens are 2,250.5 on average.
    """
    layer = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14_336
    parameters = 32 * layer + 4096 * 128_256
    weights = 2 * (parameters + 65 * 4096)
    kv = 131_072 * 2250.5
    found = planner.speed_bound(plans.fitting(), LOAD)

    assert parameters == figure(found, "active_parameters").value
    assert weights == pytest.approx(
        figure(found, "weight_bytes_per_step").value, rel=1e-6
    )
    assert int(kv) == figure(found, "kv_bytes_per_request").value
    seconds = (figure(found, "weight_bytes_per_step").value + 32 * kv) / 3.35e12
    assert isclose(seconds, found.decode_at_least_seconds, rel_tol=1e-9)
    assert isclose(32 / seconds, found.total_at_most_tokens_per_second, rel_tol=1e-9)


def test_a_prompt_is_two_operations_per_parameter_and_token() -> None:
    """2,000 tokens x 2 x the layers' parameters, the head once, and attention.

    Attention: 32 layers x 32 heads x 2 x (128 + 128) operations per token looked at,
    1 + 2 + ... + 2,000 of them; all at 989.4 TFLOP/s.
    """
    layer = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14_336
    products = 2000 * 2 * 32 * layer + 2 * 4096 * 128_256
    attention = 32 * 32 * 2 * 256 * 2000 * 2001 // 2
    found = planner.speed_bound(plans.fitting(), LOAD)

    assert isclose(
        (products + attention) / 989.4e12, found.prefill_at_least_seconds, rel_tol=1e-9
    )


def test_experts_that_a_batch_is_expected_to_touch() -> None:
    """One token touches 8 of 128; two touch 8 + 8 x 120/128 = 15.5 on average."""
    experts = Experts(128, num_experts=128, top_k=8)

    assert 8 == experts.touched_bytes(1)
    assert 15.5 == experts.touched_bytes(2)
    assert isclose(128, experts.touched_bytes(10_000))


def test_a_batch_reads_at_least_the_experts_of_one_token() -> None:
    """Nothing forbids that all tokens choose the same 8 of 128 experts.

    48 layers x 128 experts x 3 matrices x 2048 x 768 x 2 bytes, of which 8 / 128.
    """
    plan = planner.plan("Qwen/Qwen3-30B-A3B", gpu="H100")
    one, many = bound(plan, requests=1), bound(plan, requests=16)
    experts = 48 * 8 * 3 * 2048 * 768 * 2

    assert work_of(plan).stages[0].dense_bytes + experts == (
        figure(many, "weight_bytes_per_step").value
    )
    assert figure(one, "weight_bytes_per_step").value == (
        figure(many, "weight_bytes_per_step").value
    )
    assert Basis.FORMULA == figure(many, "weight_bytes_per_step").basis
    assert "8 of 128, as if all" in figure(many, "weight_bytes_per_step").why
    assert any("as if all tokens chose the same" in note for note in many.notes)


def test_from_when_on_compute_limits_assumes_equal_routing() -> None:
    """More distinct experts are read by more tokens: that figure is no bound."""
    routed = bound(planner.plan("Qwen/Qwen3-30B-A3B", gpu="H100"))

    assert Basis.ASSUMED == figure(routed, "compute_limits_from").basis
    assert Basis.FORMULA == figure(bound(plans.fitting()), "compute_limits_from").basis


@pytest.mark.parametrize(
    ("model", "billions"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 7.50),  # 8.03 less the embeddings
        ("Qwen/Qwen3-30B-A3B", 3.04),  # 3.35 published, less the embeddings
        ("deepseek-ai/DeepSeek-V3", 36.62),  # 37 published, with the embeddings
        ("openai/gpt-oss-120b", 5.13),  # as published
        ("Qwen/Qwen3-4B", 4.02),  # tied: the embeddings are the head
    ],
)
def test_active_parameters_are_those_of_the_model_card(model, billions) -> None:
    """What a token is multiplied with."""
    plan = planner.plan(model, gpu="H200", tensor_parallel_size=8)

    assert billions == round(work_of(plan).active_parameters / 1e9, 2)


def test_active_parameters_do_not_depend_on_the_ranks() -> None:
    """Four ranks multiply what one does."""
    one = work_of(plans.fitting())
    four = work_of(plans.in_stages())

    assert one.active_parameters == four.active_parameters


def test_a_window_reads_no_more_than_itself() -> None:
    """Tokens 1 to 6 with a window of 4 look at 1 + 2 + 3 + 4 + 4 + 4 = 18."""
    window = Reach(limit=4)

    assert 18 == window.total(6)
    assert [1, 4, 4] == [window.at(tokens) for tokens in (1, 4, 100)]
    assert Reach(limit=4, is_chunk=True).total(6) == 1 + 2 + 3 + 4 + 1 + 2


@given(limit=st.integers(1, 50), tokens=st.integers(0, 200), is_chunk=st.booleans())
def test_the_total_is_the_sum(limit, tokens, is_chunk) -> None:
    """Closed forms add up what they stand for."""
    for reach in (Reach(), Reach(limit, is_chunk=is_chunk)):
        assert sum(map(reach.at, range(1, tokens + 1))) == reach.total(tokens)


def test_windows_latent_vectors_and_states_read_less() -> None:
    """Beyond its window of 1,024 tokens a layer of Gemma reads no more."""
    short = work_of(planner.plan("google/gemma-3-4b-it", gpu="H100"))
    reaches = {layers.reach for layers in short.stages[0].attention}
    hybrid = work_of(planner.plan("Qwen/Qwen3-Next-80B-A3B-Instruct", gpu="B200"))
    latent = work_of(planner.plan("deepseek-ai/DeepSeek-V2-Lite-Chat", gpu="H100"))

    assert {Reach(1024), Reach()} == reaches
    assert any(layers.state_bytes for layers in hybrid.stages[0].attention)
    # 27 layers x (512 + 64) elements of two bytes
    assert 27 * 576 * 2 == latent.stages[0].attention[0].token_bytes


@settings(max_examples=30)
@given(model=st.sampled_from(MODELS), load=LOADS)
def test_no_bound_exceeds_what_the_bandwidth_can_move(model, load) -> None:
    """Tokens per second never exceed requests x bandwidth / bytes, for any load."""
    plan = planner.plan(model, gpu="B200", max_model_len=8192)
    found = planner.speed_bound(plan, load)
    weights = figure(found, "weight_bytes_per_step").value
    caches = found.requests * figure(found, "kv_bytes_per_request").value
    fastest = found.requests * 8e12 / (weights + caches)

    assert found.total_at_most_tokens_per_second <= fastest * (1 + 1e-6)
    # Fewer are sure to run than may run, and a step of fewer is no slower.
    assert found.per_request_at_most_tokens_per_second * found.requests >= (
        found.total_at_most_tokens_per_second * (1 - 1e-9)
    )
    assert found.decode_at_full_length_at_least_seconds >= (
        found.decode_at_least_seconds * (1 - 1e-9)
    )


@settings(max_examples=20)
@given(
    model=st.sampled_from(MODELS),
    load=LOADS,
    times=st.floats(1, 8),
    what=st.sampled_from(["memory_bandwidth_bytes_per_second", "dense_flops"]),
)
def test_a_faster_gpu_is_never_slower(model, load, times, what) -> None:
    """More bandwidth, or more operations per second, and everything else the same."""
    gpu = GPU.named("B200")
    faster = {
        "memory_bandwidth_bytes_per_second": int(
            times * (gpu.memory_bandwidth_bytes_per_second or 0)
        ),
        "dense_flops": {name: int(times * peak) for name, peak in gpu.dense_flops},
    }[what]
    plan = planner.plan(model, gpu=gpu, max_model_len=8192)
    better = plan.changed(gpu=GPU.named("B200", **{what: faster}))
    one, other = planner.speed_bound(plan, load), planner.speed_bound(better, load)

    assert other.decode_at_least_seconds <= one.decode_at_least_seconds
    assert other.prefill_at_least_seconds <= one.prefill_at_least_seconds


@settings(max_examples=20)
@given(model=st.sampled_from(MODELS), few=st.integers(1, 100), more=st.integers(1, 100))
def test_more_requests_at_once_are_more_tokens_but_no_faster_each(
    model, few, more
) -> None:
    """Weights are read once for all of them."""
    plan = planner.plan(model, gpu="B200", max_model_len=8192)
    one = bound(plan, requests=few)
    other = bound(plan, requests=few + more)

    slack = 1 + 1e-9
    assert one.total_at_most_tokens_per_second <= (
        other.total_at_most_tokens_per_second * slack
    )
    assert one.decode_at_least_seconds <= other.decode_at_least_seconds * slack


@pytest.mark.parametrize("model", MODELS)
def test_computing_limits_from_the_first_request_at_which_it_takes_longer(
    model,
) -> None:
    """One fewer, and reading takes longer."""
    work = work_of(planner.plan(model, gpu="B200", max_model_len=8192))
    peaks = Peaks(bandwidth=10**13, flops={"bfloat16": 10**13}, dtype="bfloat16")
    seen = mean_of(Load(prompt_tokens=10, output_tokens=10))
    first = compute_limits_from(work, peaks, seen)
    at = decode_step(work, peaks, first, seen)
    before = decode_step(work, peaks, first - 1, seen)

    assert at.compute_seconds >= at.memory_seconds
    assert before.compute_seconds < before.memory_seconds


def test_which_limits_first_is_said_in_words() -> None:
    """Short requests on a slow processor compute; long ones fill the cache."""
    gpu = GPU.named("H100", dense_flops={"bfloat16": 10**13})
    slow = plans.fitting().changed(gpu=gpu)
    computing = planner.speed_bound(slow, Load(prompt_tokens=50, output_tokens=50))
    filled = bound(plans.fitting(), prompt_tokens=100_000)

    assert "compute" == computing.limited_first_by
    assert f"From {computing.compute_limits_from:,} requests" in computing.limit
    assert "memory" == filled.limited_first_by
    assert "memory, not compute, is the limit" in filled.limit
    assert 4 == filled.memory_holds


def test_what_the_cache_holds_is_planned_not_guessed() -> None:
    """2,500 tokens are 157 blocks of 16, one block stays empty; at the low end."""
    planned = plans.fitting().changed(max_model_len=2500)
    blocks = round(planned.max_concurrency_low * 157)
    found = bound(plans.fitting())
    (figure,) = (one for one in found.figures if one.name == "memory_holds")

    assert 157 == planned.blocks_per_request
    assert (blocks - 1) // 157 == found.memory_holds
    assert (
        f"({blocks:,} blocks at the low end of the estimate - 1 that stays empty) "
        "/ 157 per request, rounded down"
    ) == figure.why
    assert found.memory_holds == bound(planned).memory_holds


def test_requests_that_must_wait_are_not_counted() -> None:
    """Neither beyond what the cache holds nor beyond max_num_seqs."""
    plan = plans.fitting()
    waiting = bound(plan.changed(max_num_seqs=8), requests=100)

    assert 8 == waiting.requests
    assert any("Only 8 of 100 requests" in note for note in waiting.notes)
    # 2,000 + 500 / 2 tokens are 141 blocks on average, at the high end of the range
    blocks = (
        plan.ranks[0].available_kv_cache_high_bytes // plan.ranks[0].bytes_per_block
    )
    assert (blocks - 1) // 141 == bound(plan, requests=10**6).requests


def test_tensor_parallel_ranks_share_and_pipeline_stages_follow_each_other() -> None:
    """Two ranks read half each; two stages of half the layers read as long as one."""
    single = bound(plans.fitting())
    shared = bound(plans.fitting().changed(tensor_parallel_size=2))
    staged = bound(plans.fitting().changed(pipeline_parallel_size=2))

    assert shared.decode_at_least_seconds == pytest.approx(
        single.decode_at_least_seconds / 2, rel=0.01
    )
    assert staged.decode_at_least_seconds == pytest.approx(
        single.decode_at_least_seconds, rel=0.01
    )


def test_replicas_share_the_requests() -> None:
    """Two engines of 16 requests each are twice as many tokens as one of 16."""
    plan = plans.fitting()
    one = bound(plan, requests=16)
    two = bound(plan.changed(data_parallel_size=2), requests=32)

    assert two.total_at_most_tokens_per_second == pytest.approx(
        2 * one.total_at_most_tokens_per_second
    )


def test_weights_of_one_byte_are_read_in_half_the_time() -> None:
    """fp8 halves the layers; the head stays."""
    plan = plans.fitting()
    fp8 = bound(plan.changed(quantization="fp8_per_tensor"))

    assert fp8.decode_at_least_seconds < 0.65 * bound(plan).decode_at_least_seconds
    assert "fp8" in figure(fp8, "prefill_at_least_seconds").why


def test_a_long_prompt_reads_the_weights_for_every_step() -> None:
    """20,000 tokens in steps of 8,192 are three steps."""
    work = work_of(plans.fitting())
    peaks = Peaks.of(GPU.named("H100"), "bfloat16")
    one = prompt_steps(work, peaks, 8192, 8192).moved[0]
    three = prompt_steps(work, peaks, 20_000, 8192).moved[0]
    weights = work.stages[0].dense_bytes

    assert 3 * weights + 20_000 * 131_072 == three
    assert weights + 8192 * 131_072 == one


def test_without_a_peak_only_reading_is_bounded_and_the_figure_is_named() -> None:
    """The RTX 3060's maker publishes none that we know."""
    found = bound(planner.plan("Qwen/Qwen3-0.6B", gpu="RTX3060", max_model_len=4096))

    assert "unknown" == found.limited_first_by
    assert found.compute_limits_from is None
    assert found.decode_at_least_seconds > 0
    (note,) = [note for note in found.notes if "dense_flops" in note]
    assert "planner.GPU.named('RTX3060', dense_flops={'bfloat16'" in note


def test_without_a_bandwidth_there_is_no_bound() -> None:
    """The error says which figure to give."""
    gpu = GPU(name="mine", total_memory_bytes=80 * GIB, compute_capability=(9, 0))
    plan = planner.plan("Qwen/Qwen3-8B", gpu=gpu)

    with pytest.raises(PlannerError, match="memory_bandwidth_bytes_per_second"):
        bound(plan)


def test_a_refused_plan_has_no_speed() -> None:
    """vLLM's words say why."""
    with pytest.raises(PlannerError, match="refuses"):
        bound(plans.refused())
    with pytest.raises(PlannerError, match="refuses"):
        bound(plans.refused_for_its_length())
    with pytest.raises(PlannerError, match="cannot be served"):
        bound(plans.fitting(), prompt_tokens=200_000)


def test_a_plan_that_does_not_start_says_so() -> None:
    """The bound of what would not start helps to choose, but it is no promise."""
    found = bound(plans.too_long())

    assert any("does not start" in note for note in found.notes)


def test_an_answer_of_no_tokens_is_its_prompt() -> None:
    """An embedding, or a probe."""
    found = bound(plans.fitting(), output_tokens=0)

    assert found.prefill_at_least_seconds == found.request_at_least_seconds


def test_every_form_says_that_it_is_a_bound() -> None:
    """Text, page and JSON begin with it; each figure has its arithmetic."""
    found = planner.speed_bound(plans.fitting(), LOAD)
    told = json.loads(json.dumps(found.to_dict()))

    assert CAUTION in str(found)
    assert CAUTION in sheet(found).to_html()
    assert CAUTION == told["caution"]
    for one in found.figures:
        assert one.why in str(found)
        assert one.value == told["figures"][one.name]["value"]
    assert len(found.figures) == len(found.to_frame())
    assert found._repr_mimebundle_()["text/plain"] == str(found)


@pytest.mark.parametrize("model", MODELS)
def test_every_kind_of_model_has_a_bound(model) -> None:
    """Windows, experts, states, latent vectors."""
    found = bound(planner.plan(model, gpu="B200", max_model_len=8192))

    assert found.decode_at_least_seconds > 0
    assert found.prefill_at_least_seconds > 0


# --- The peaks of the catalogue ----------------------------------------------------


@each_row("gpu", catalogue(), ids=lambda gpu: gpu.name)
def test_every_peak_has_a_source_and_narrower_dtypes_are_not_slower(gpu) -> None:
    """fp4 >= fp8 >= bfloat16, where there are any."""
    peaks = dict(gpu.dense_flops)
    in_order = [peaks[d] for d in ("float16", "fp8", "fp4") if d in peaks]

    assert bool(peaks) == bool(gpu.source_of("dense_flops"))
    assert in_order == sorted(in_order)
    assert set(peaks) <= set(FLOPS_DTYPES)
    assert ("bfloat16" in peaks) == (bool(peaks) and gpu.compute_capability >= (8, 0))


def test_published_peaks_are_without_sparsity() -> None:
    """The H100's data sheet says 1,979 TFLOPS with sparsity: half of it is dense."""
    assert 989.4e12 == dict(GPU.named("H100").dense_flops)["bfloat16"]
    assert 312e12 == dict(GPU.named("A100-80GB").dense_flops)["bfloat16"]
    slice_, whole = GPU.named("H100-MIG-3g.40gb"), GPU.named("H100")
    share = dict(slice_.dense_flops)["fp8"] / dict(whole.dense_flops)["fp8"]
    assert share == pytest.approx(60 / 132)


@pytest.mark.parametrize(
    ("given_flops", "words"),
    [({"float64": 1}, "float64"), ({"fp8": 0}, "at least 1"), ({"fp8": 1.5}, "fp8")],
)
def test_a_peak_that_cannot_be_is_refused(given_flops, words) -> None:
    """With what is allowed."""
    with pytest.raises(PlannerError, match=words):
        GPU.named("H100", dense_flops=given_flops)
