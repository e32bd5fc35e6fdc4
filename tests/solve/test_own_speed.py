"""What `vllm bench serve` measured, and how it corrects forecasts of the same start."""

import json
from math import isclose

import pytest

import planner
from planner import Load, PlannerError, solve
from planner.app import cli
from planner.confirming.measurement import LoadFigures
from planner.confirming.run import rate_of
from planner.solve.speed.bench import MeasuredSpeed, read_bench
from planner.solve.speed.measured import own_factors
from planner.solve.speed.own import speeds_path, start_of
from tests import plans

PRINTED = """
============ Serving Benchmark Result ============
Successful requests:                     320
Failed requests:                         0
Maximum request concurrency:             32
Benchmark duration (s):                  100.00
Total input tokens:                      640000
Total generated tokens:                  160000
Request throughput (req/s):              3.20
Output token throughput (tok/s):         1600.00
Total Token throughput (tok/s):          8000.00
---------------Time to First Token----------------
Mean TTFT (ms):                          520.10
Median TTFT (ms):                        500.00
P99 TTFT (ms):                           900.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          19.90
Median TPOT (ms):                        19.00
P99 TPOT (ms):                           25.00
==================================================
"""
RESULT = {
    "date": "20261129-120000",
    "backend": "vllm",
    "num_prompts": 320,
    "max_concurrency": 32,
    "duration": 100.0,
    "completed": 320,
    "total_input_tokens": 640000,
    "total_output_tokens": 160000,
    "output_throughput": 1600.0,
    "median_ttft_ms": 500.0,
    "mean_ttft_ms": 520.1,
    "median_tpot_ms": 19.0,
    "mean_tpot_ms": 19.9,
    "input_lens": [2000, 2000],
}
LOAD = Load(prompt_tokens=2000, output_tokens=500, requests=32)
MEASURED = MeasuredSpeed(
    load=LOAD,
    next_token_seconds=0.019,
    first_token_seconds=0.5,
    total_tokens_per_second=1600.0,
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Keep measurements in a folder of the test's own."""
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("PLANNER_CALIBRATION", raising=False)
    return tmp_path


def test_what_is_printed_and_what_is_written_say_the_same() -> None:
    """640,000 / 320 = 2,000 prompt tokens, 160,000 / 320 = 500 of each answer."""
    assert MEASURED == read_bench(PRINTED)
    assert MEASURED == read_bench(json.dumps(RESULT))
    appended = "\n".join(json.dumps({**RESULT, "completed": n}) for n in (100, 320))
    assert MEASURED == read_bench(appended)


def test_without_a_concurrency_requests_at_once_are_the_mean_number() -> None:
    """3.2 requests per second x (0.5 s + 499 x 0.019 s) = 31.9."""
    without = {**RESULT, "max_concurrency": None}

    assert 32 == read_bench(json.dumps(without)).load.requests
    few = read_bench(json.dumps({**RESULT, "completed": 8}))
    assert 8 == few.load.requests


@pytest.mark.parametrize("text", ["", "{}", "[1]", "INFO 1: 2", '{"completed": 3}'])
def test_anything_else_is_refused_with_what_it_lacks(text) -> None:
    """And with what to give."""
    with pytest.raises(PlannerError, match="--result-filename"):
        read_bench(text)


def test_an_own_measurement_corrects_the_forecast_of_its_start() -> None:
    """At the measured load exactly, at another one by the same factor."""
    plan, other = plans.fitting(), Load(prompt_tokens=1000, output_tokens=300)
    before = planner.speed_forecast(plan, LOAD)
    elsewhere = planner.speed_forecast(plan, other)
    solve.keep_speed(plan, PRINTED)
    after = planner.speed_forecast(plan, LOAD)

    assert (0, 1) == (before.own_measurements, after.own_measurements)
    assert isclose(0.019, after.next_token_seconds.value)
    assert isclose(0.5, after.first_token_seconds.value)
    assert isclose(1600, after.total_tokens_per_second.value)
    factor = 0.019 / before.next_token_seconds.value
    now = planner.speed_forecast(plan, other).next_token_seconds
    assert isclose(factor * elsewhere.next_token_seconds.value, now.value)
    assert isclose(own_factors()["next_token"], now.high / now.value)
    assert "Corrected by 1 measurement of your own" in str(after)


def test_it_corrects_no_other_start() -> None:
    """Another layout, another GPU, another model."""
    plan = plans.fitting()
    solve.keep_speed(plan, MEASURED)
    others = (
        plan.changed(tensor_parallel_size=2),
        plan.changed(gpu="H200"),
        plan.changed(enforce_eager=True),
        planner.plan("Qwen/Qwen3-8B", gpu="H100"),
    )

    for other in others:
        assert start_of(plan) != start_of(other)
        assert 0 == planner.speed_forecast(other, LOAD).own_measurements
    longer = plan.changed(max_model_len=8192, gpu_memory_utilization=0.8)
    assert 1 == planner.speed_forecast(longer, LOAD).own_measurements


def test_the_same_load_again_replaces_and_another_is_added() -> None:
    """The correction is the median."""
    plan = plans.fitting()
    for seconds in (0.019, 0.021):
        solve.keep_speed(plan, MeasuredSpeed(load=LOAD, next_token_seconds=seconds))
    assert 1 == planner.speed_forecast(plan, LOAD).own_measurements
    assert isclose(0.021, planner.speed_forecast(plan, LOAD).next_token_seconds.value)
    solve.keep_speed(plan, MeasuredSpeed(load=Load(prompt_tokens=9, output_tokens=9)))
    assert 2 == planner.speed_forecast(plan, LOAD).own_measurements


def test_a_rate_alone_corrects_the_next_token_too() -> None:
    """Twice the tokens per second is half the time."""
    plan = plans.fitting()
    before = planner.speed_forecast(plan, LOAD)
    half = before.total_tokens_per_second.value / 2
    solve.keep_speed(plan, MeasuredSpeed(load=LOAD, total_tokens_per_second=half))
    after = planner.speed_forecast(plan, LOAD)

    assert isclose(2 * before.next_token_seconds.value, after.next_token_seconds.value)
    assert before.first_token_seconds == after.first_token_seconds


def test_nothing_is_kept_or_used_where_calibration_is_off(monkeypatch) -> None:
    """As for memory."""
    solve.keep_speed(plans.fitting(), MEASURED)
    monkeypatch.setenv("PLANNER_CALIBRATION", "off")

    assert 0 == planner.speed_forecast(plans.fitting(), LOAD).own_measurements
    with pytest.raises(PlannerError, match="cannot be kept"):
        solve.keep_speed(plans.fitting(), MEASURED)


def test_a_start_without_a_forecast_has_none_to_correct() -> None:
    """Nothing near a T4 was measured."""
    turing = planner.plan("Qwen/Qwen3-0.6B", gpu="T4", max_model_len=4096)

    with pytest.raises(PlannerError, match="no forecast"):
        solve.keep_speed(turing, MEASURED)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"speeds": [{}]}', '{"speeds": [{"ratios": {"total": -1}}]}']
)
def test_a_spoilt_file_is_named(text) -> None:
    """Nothing is guessed from it."""
    speeds_path().write_text(text)

    with pytest.raises(PlannerError, match=r"speeds\.json"):
        planner.speed_forecast(plans.fitting(), LOAD)


def test_a_result_on_the_command_line_brings_its_load(tmp_path, capsys) -> None:
    """`planner speed MODEL --gpu H100 --measured result.json`."""
    file = tmp_path / "result.json"
    file.write_text(json.dumps(RESULT))
    model = "meta-llama/Llama-3.1-8B-Instruct"
    status = cli.main(
        ["speed", model, "--gpu", "H100", "--measured", str(file), "--json"]
    )
    told = json.loads(capsys.readouterr().out)

    assert cli.FITS == status
    assert 32 == told["load"]["requests"]
    assert isclose(19.0, told["tpot_ms"]["value"])
    assert 1 == told["own_measurements"]


def test_a_load_probe_keeps_its_rate() -> None:
    """24 of 32 requests of 500 tokens in 10 s are 1,200 tokens per second."""
    load = LoadFigures(
        num_requests=32,
        prompt_tokens=2000,
        output_tokens=500,
        num_finished=24,
        peak_running=24,
        peak_waiting=8,
        peak_kv_cache_usage=0.5,
        num_readings=40,
        preemptions=0,
        seconds=10.0,
    )

    assert MeasuredSpeed(load=LOAD, total_tokens_per_second=1200.0) == rate_of(load)
