"""A forecast of speed: a range beside the bound, fitted to published measurements."""

import json
from dataclasses import replace
from math import hypot, isclose
from statistics import mean, median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner import GPU, Load, PlannerError
from planner.solve.speed.forecast import FORECAST_CAUTION
from planner.solve.speed.form import point_of, times_of
from planner.solve.speed.measured import near, parameters, range_factors
from planner.units import GIB
from tests import plans

LOAD = Load(prompt_tokens=2000, output_tokens=500, requests=32)
LOADS = st.builds(
    Load,
    prompt_tokens=st.integers(1, 4000),
    output_tokens=st.integers(0, 1000),
    requests=st.integers(1, 300),
)
MODELS = (
    "Qwen/Qwen3-8B",
    "google/gemma-3-4b-it",
    "Qwen/Qwen3-30B-A3B",
    "openai/gpt-oss-20b",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "deepseek-ai/DeepSeek-V2-Lite-Chat",
)
ROUND = dict.fromkeys(
    (
        "bandwidth_share_HBM",
        "bandwidth_share_GDDR",
        "bandwidth_share_unified",
        "peak_share_dense",
        "peak_share_experts",
    ),
    0.5,
) | {
    "layer_seconds": 1e-4,
    "expert_layer_seconds": 1e-5,
    "request_seconds": 1e-5,
    "reduce_seconds_NVLink": 1e-5,
    "reduce_seconds_PCIe": 1e-5,
    "reduce_seconds_network": 1e-5,
    "server_seconds": 0.01,
    "prompts_ahead": 0.5,
}
"""Parameters with which one can calculate by hand."""


def ends(found):
    """Return the figures that are forecast."""
    return [
        one
        for one in (
            found.next_token_seconds,
            found.first_token_seconds,
            found.per_request_tokens_per_second,
            found.total_tokens_per_second,
        )
        if one is not None
    ]


def test_a_step_is_reading_and_computing_at_a_share_of_the_peak_and_overheads() -> None:
    """Llama-3.1-8B on an H100, 32 requests of 2,000 + 500 tokens.

    The bound reads for 7.30 ms and computes for 0.524 ms: at half of the peaks 14.6 ms
    and 1.05 ms. 32 layers take 3.2 ms, 32 requests 0.32 ms. While a request gets 500
    tokens, 31 prompts of 29.3 ms are computed at half of the peak: 3.64 ms a token.
    """
    bound = planner.speed_bound(plans.fitting(), LOAD)
    times = times_of(point_of(plans.fitting(), LOAD, "HBM"), ROUND)
    computing = 32 * (2 * 7_504_658_432 + 32 * 32 * 2 * 256 * 2250.5) / 989.4e12
    step = (
        hypot(2 * bound.decode_at_least_seconds, 2 * computing) + 32 * 1e-4 + 32 * 1e-5
    )
    others = 31 * 2 * bound.prefill_at_least_seconds / 500

    assert isclose(step, times.parts.seconds, rel_tol=1e-3)
    assert isclose(others, times.others_seconds, rel_tol=1e-3)
    assert isclose(step + others, times.next_token_seconds, rel_tol=1e-3)


def test_a_request_waits_for_its_prompt_and_for_those_ahead() -> None:
    """Server 10 ms, its prompt at half of the peak, half a step, half of the others."""
    bound = planner.speed_bound(plans.fitting(), LOAD)
    times = times_of(point_of(plans.fitting(), LOAD, "HBM"), ROUND)
    prompt = 2 * bound.prefill_at_least_seconds
    own = 0.01 + prompt + 32 * 1e-4 + times.parts.seconds / 2

    assert isclose(own + 0.5 * 31 * prompt, times.first_token_seconds, rel_tol=1e-3)
    answer = own + 499 * times.next_token_seconds
    assert isclose(32 * 500 / answer, times.total_tokens_per_second, rel_tol=1e-3)


def test_ranks_reduce_twice_in_a_layer() -> None:
    """2 x 32 all-reduces of 10 us over NVLink, and what they send: 32 x 4096 x 2 bytes.

    A rank sends (and receives) 2 x 1/2 of them at 300 GB/s, 64 times.
    """
    two = plans.fitting().changed(tensor_parallel_size=2)
    times = times_of(point_of(two, LOAD, "HBM"), ROUND)
    sent = 2 * 32 * 32 * 4096 * 2 / 300e9

    assert isclose(64 * 1e-5 + sent, times.parts.reducing, rel_tol=1e-9)
    slower = point_of(two.changed(gpu="A100-80GB-PCIe"), LOAD, "HBM")
    assert "PCIe" == slower.link


def test_one_request_has_no_others() -> None:
    """And waits for nobody."""
    alone = replace(LOAD, requests=1)
    times = times_of(point_of(plans.fitting(), alone, "HBM"), ROUND)

    assert 0 == times.others_seconds
    assert times.next_token_seconds == times.parts.seconds
    assert "one request" == planner.speed_forecast(plans.fitting(), alone).regime


@settings(max_examples=40, deadline=None)
@given(model=st.sampled_from(MODELS), load=LOADS)
def test_the_range_holds_the_value_and_the_bound_holds_the_range(model, load) -> None:
    """low <= value <= high; no end is faster than the bound."""
    plan = planner.plan(model, gpu="B200", max_model_len=8192)
    found = planner.speed_forecast(plan, load)
    slack = 1 + 1e-9

    for one in ends(found):
        assert 0 < one.low <= one.value * slack
        assert one.value <= one.high * slack
    if found.total_tokens_per_second is not None:
        assert found.total_tokens_per_second.high <= (
            found.bound.total_at_most_tokens_per_second * slack
        )
        assert found.next_token_seconds.low * slack >= (
            found.bound.decode_at_least_seconds
        )


@settings(max_examples=20, deadline=None)
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
    one, other = (planner.speed_forecast(each, load) for each in (plan, better))

    for slow, fast in zip(ends(one)[:2], ends(other)[:2], strict=True):
        assert fast.value <= slow.value * (1 + 1e-9)


@settings(max_examples=20, deadline=None)
@given(model=st.sampled_from(MODELS), few=st.integers(1, 60), more=st.integers(1, 60))
def test_more_requests_at_once_do_not_make_a_token_come_sooner(
    model, few, more
) -> None:
    """They share a reading of the weights, and bring prompts of their own."""
    plan = planner.plan(model, gpu="B200", max_model_len=8192)
    load = replace(LOAD, requests=few)
    one = planner.speed_forecast(plan, load)
    other = planner.speed_forecast(plan, replace(load, requests=few + more))

    assert one.next_token_seconds.value <= other.next_token_seconds.value * (1 + 1e-9)


def test_where_nothing_like_it_was_measured_the_bound_is_all() -> None:
    """A Turing card, a processor; and a GPU whose peak is not known."""
    turing = planner.plan("Qwen/Qwen3-0.6B", gpu="T4", max_model_len=4096)
    unknown = planner.plan("Qwen/Qwen3-0.6B", gpu="RTX3060", max_model_len=4096)

    for plan in (turing, unknown):
        found = planner.speed_forecast(plan, LOAD)
        told = found.to_dict()
        assert not found.is_known
        assert {"low": None, "value": None, "high": None} == told["tpot_ms"]
        assert "bound" == told["basis"]
        assert told["bound"]["figures"]["decode_at_least_seconds"]["value"] > 0
        assert "At most" in str(found)
    assert "Nothing near it was measured" in str(planner.speed_forecast(turing, LOAD))


def test_what_was_measured_near_it_is_counted() -> None:
    """Class of GPU, format and number of GPUs; then two of the three."""
    exact = near(plans.fitting())
    none = near(planner.plan("Qwen/Qwen3-32B-AWQ", gpu="RTX4090", max_model_len=4096))

    assert ("HBM", "16 bits", "one") == (
        exact.kind.memory,
        exact.kind.weights,
        exact.kind.gpus,
    )
    assert 0 < exact.measurements < exact.of_class
    assert (
        f"{exact.measurements} measurements of {exact.sources} sources" in exact.words
    )
    assert 0 == none.measurements < none.of_class
    assert none.words.startswith("No measurement has all of this: GDDR memory, weights")


def test_speculation_needs_an_acceptance_length() -> None:
    """Three drafts and the token itself: from 1 to 4 tokens a step."""
    drafting = plans.fitting().changed(
        speculative_config={"method": "ngram", "num_speculative_tokens": 3}
    )
    without = planner.speed_forecast(drafting, LOAD)
    some = planner.speed_forecast(drafting, LOAD, acceptance_length=2.0)
    more = planner.speed_forecast(drafting, LOAD, acceptance_length=3.0)

    assert without.next_token_seconds is None
    assert any("Mean acceptance length" in note for note in without.notes)
    assert more.next_token_seconds.value < some.next_token_seconds.value
    with pytest.raises(PlannerError, match="from 1 to 4"):
        planner.speed_forecast(drafting, LOAD, acceptance_length=4.5)
    with pytest.raises(PlannerError, match="without speculative decoding"):
        planner.speed_forecast(plans.fitting(), LOAD, acceptance_length=2.0)


def test_verifying_drafts_takes_longer_than_a_token() -> None:
    """A step of four tokens a request computes four times as much, and reads as much.

    Its keys and values are read once.
    """
    one = point_of(plans.fitting(), LOAD, "HBM")
    four = point_of(plans.fitting(), LOAD, "HBM", drafts=3)

    assert isclose(4 * one.step.compute_seconds, four.step.compute_seconds)
    assert one.step.memory_seconds == four.step.memory_seconds


def test_requests_beyond_what_runs_wait_for_their_first_token() -> None:
    """Saturated: the next token is that of those that run."""
    plan = plans.fitting().changed(max_num_seqs=32)
    all_run = planner.speed_forecast(plan, LOAD)
    waiting = planner.speed_forecast(plan, replace(LOAD, requests=64))

    assert ("moderate", "saturated") == (all_run.regime, waiting.regime)
    assert 32 == all_run.requests == waiting.requests
    assert all_run.next_token_seconds.value == waiting.next_token_seconds.value
    # Half of 32 waiting requests are ahead: 16 answers of 500 tokens.
    ahead = 16 * 500 / waiting.total_tokens_per_second.value
    assert isclose(
        all_run.first_token_seconds.value + ahead, waiting.first_token_seconds.value
    )
    assert any("About 32 of 64 requests" in note for note in waiting.notes)


def test_a_prompt_without_an_answer_has_a_first_token_only() -> None:
    """An embedding, or a probe."""
    found = planner.speed_forecast(plans.fitting(), replace(LOAD, output_tokens=0))

    assert found.first_token_seconds is not None
    assert found.next_token_seconds is None


def test_what_cannot_be_asked_is_refused() -> None:
    """Without a load, a start that vLLM refuses, a GPU of unknown bandwidth."""
    gpu = GPU(name="mine", total_memory_bytes=80 * GIB, compute_capability=(9, 0))

    with pytest.raises(PlannerError, match="needs a load"):
        planner.speed_forecast(plans.fitting())
    with pytest.raises(PlannerError, match="refuses"):
        planner.speed_forecast(plans.refused(), LOAD)
    with pytest.raises(PlannerError, match="memory_bandwidth_bytes_per_second"):
        planner.speed_forecast(planner.plan("Qwen/Qwen3-8B", gpu=gpu), LOAD)


def test_a_plan_that_does_not_start_says_so() -> None:
    """The speed of what would not start helps to choose."""
    found = planner.speed_forecast(plans.too_long(), LOAD)

    assert any("does not start" in note for note in found.notes)


def test_every_form_says_that_it_is_a_forecast_and_shows_the_bound() -> None:
    """Text, page, JSON and frame."""
    found = planner.speed_forecast(plans.fitting(), LOAD)
    told = json.loads(json.dumps(found.to_dict()))
    text = str(found)

    assert text.startswith("≈ About ")
    assert FORECAST_CAUTION in text
    assert FORECAST_CAUTION == told["caution"]
    assert "at most 4,385" in text
    assert found.why in text
    assert "measured" == told["basis"]
    assert found.bound.to_dict() == told["bound"]
    assert isclose(1000 * found.next_token_seconds.value, told["tpot_ms"]["value"])
    assert isclose(
        1000 / told["tpot_ms"]["low"], told["per_request_tokens_per_s"]["high"]
    )
    assert 4 == len(found.to_frame())
    assert found._repr_mimebundle_()["text/plain"] == text


def test_parameters_are_few_and_have_unit_and_source(root) -> None:
    """Thirteen for all GPUs, models and formats; shares are shares."""
    table = json.loads((root / "planner/data/speed.json").read_text("utf-8"))

    assert 13 == len(parameters()) == len(table["parameters"])
    for one in table["parameters"]:
        assert one["unit"] in ("1", "s")
        assert one["what"]
        assert "measured" == one["basis"]
        if one["unit"] == "1":
            assert 0 < one["value"] < 1
    assert sum(row["measurements"] for row in table["near"]) == table["measurements"]


def test_published_measurements_are_forecast_as_the_page_says(root) -> None:
    """Next token off by at most 20 % in the median; four of five in the range."""
    off, inside = [], []
    for line in (root / "tests/data/speed.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        release = {"vllm_version": row["release"]} if row.get("release") else {}
        load = Load(
            prompt_tokens=row["prompt_tokens"],
            output_tokens=row["output_tokens"],
            requests=row["requests"],
        )
        try:
            plan = planner.plan(
                row["model"], gpu=row["gpu"], **release, **row["arguments"]
            )
            told = planner.speed_forecast(plan, load).to_dict()
        except PlannerError:
            continue
        if (real := row.get("next_token_ms")) is not None:
            off.append(abs(told["tpot_ms"]["value"] / real - 1))
            inside.append(told["tpot_ms"]["low"] <= real <= told["tpot_ms"]["high"])
        if (real := row.get("total_tokens_per_second")) is not None:
            total = told["output_tokens_per_s"]
            inside.append(total["low"] <= real <= total["high"])

    assert len(off) > 220
    assert median(off) <= 0.2
    assert 0.75 <= mean(inside) <= 0.9


def test_ranges_are_wider_where_less_is_known() -> None:
    """The first token is not forecast well by anything."""
    for regime in ("one request", "moderate", "saturated"):
        factors = range_factors(regime)
        assert 1 < factors["next_token"] < factors["first_token"]
