"""An estimate beside a measurement: what is inside its range, and why it may not be."""

from __future__ import annotations

from dataclasses import replace

import pytest

import planner
from planner.confirming.confirmation import ComparisonRow, Confirmation, Confirmed
from planner.confirming.differences import confirmation_of, with_memory
from planner.confirming.from_log import measurement_of
from planner.confirming.log import LogReading
from planner.confirming.log.setting import LogSetting
from planner.confirming.measurement import EngineFigures, Measurement, WorkerFigures
from planner.planning.result import Plan
from planner.units import GIB, MIB


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Llama-3.1-8B on an H100: 0.92 of 79.19 GiB."""
    return planner.plan("meta-llama/Llama-3.1-8B-Instruct", gpu="H100")


def measured(plan: Plan, **changes: int) -> Measurement:
    """Measure what was planned, but for some figures of the worker."""
    rank = plan.ranks[0]
    size = {line.name: line.size_bytes for line in rank.lines}
    worker = WorkerFigures(
        rank=0,
        total_memory_bytes=plan.gpu.total_memory_bytes,
        free_at_start_bytes=plan.gpu.total_memory_bytes - 500 * MIB,
        requested_memory_bytes=rank.requested_memory_bytes,
        weights_bytes=rank.allocated_weights_bytes,
        consumed_bytes=rank.allocated_weights_bytes
        + size["persistent buffers"]
        + size["non-torch"],
        peak_activation_bytes=size["peak activation"],
        cudagraph_estimate_bytes=size["CUDA graphs"],
        is_estimate_charged=True,
        available_kv_cache_bytes=rank.available_kv_cache_bytes,
    )
    return Measurement(
        vllm_version=plan.vllm_version,
        is_started=True,
        workers=(replace(worker, **changes),),
        engine=EngineFigures(num_gpu_blocks=plan.num_gpu_blocks, block_size=16),
    )


def row(confirmation: Confirmation, name: str) -> ComparisonRow:
    """Return the row of a name."""
    return next(row for row in confirmation.rows if row.name == name)


def test_what_was_measured_as_planned_is_confirmed(plan) -> None:
    """Every row inside, nothing to explain."""
    confirmation = confirmation_of(plan, measured(plan))

    assert confirmation.outcome is Confirmed.CONFIRMED
    assert confirmation.reasons == ()
    assert [r.name for r in confirmation.rows if r.is_inside is False] == []
    assert row(confirmation, "weights").difference == 0
    assert row(confirmation, "persistent buffers + non-torch").difference == 0


def test_the_sum_that_vllm_measures_is_compared_as_a_sum(plan) -> None:
    """From 0.24 on vLLM does not tell buffers from what PyTorch does not know of."""
    confirmation = confirmation_of(plan, measured(plan))
    rank = plan.ranks[0]

    both = rank.line("persistent buffers"), rank.line("non-torch")
    found = row(confirmation, "persistent buffers + non-torch")
    assert found.estimated == sum(line.size_bytes for line in both)
    assert found.low == sum(line.low_bytes for line in both)
    assert found.high == sum(line.high_bytes for line in both)


def test_the_line_that_is_off_is_named_with_its_reason(plan) -> None:
    """4 GiB more for activations: the sampler or the experts' kernel."""
    peak = plan.ranks[0].line("peak activation").size_bytes + 4 * GIB
    available = plan.ranks[0].available_kv_cache_bytes - 4 * GIB
    confirmation = confirmation_of(
        plan,
        measured(plan, peak_activation_bytes=peak, available_kv_cache_bytes=available),
    )

    assert confirmation.outcome is Confirmed.OFF
    assert row(confirmation, "peak activation").difference == 4 * GIB
    assert confirmation.reasons[0].startswith("peak activation: 4.00 GiB more")
    assert "sampler" in confirmation.reasons[0]


def test_a_cold_compile_cache_is_a_reason_only_where_something_is_off(plan) -> None:
    """An excuse that nobody needs is none."""
    peak = plan.ranks[0].line("peak activation").size_bytes + 4 * GIB
    cold = replace(measured(plan), is_compile_cache_cold=True)
    off = replace(
        measured(plan, peak_activation_bytes=peak), is_compile_cache_cold=True
    )

    assert not any(
        "vLLM compiled" in why for why in confirmation_of(plan, cold).reasons
    )
    assert any("vLLM compiled" in why for why in confirmation_of(plan, off).reasons)


@pytest.mark.parametrize("was_cold", [True, False])
def test_a_start_is_compared_with_the_plan_of_what_it_was(was_cold: bool) -> None:
    """A first start's peak is not that of later ones: both are as planned."""
    both = planner.plan(
        "Qwen/Qwen3-8B", gpu="RTX4090", max_model_len=8192, max_num_seqs=16
    )
    cache = "cold" if was_cold else "warm"
    peak = both.changed(compile_cache=cache).ranks[0].line("peak activation").size_bytes
    start = measured(both, peak_activation_bytes=peak)
    made = confirmation_of(both, replace(start, is_compile_cache_cold=was_cold))
    assert made.plan.settings.compile_cache == cache
    assert row(made, "peak activation").difference == 0
    unknown = confirmation_of(both, start)
    assert unknown.plan.settings.compile_cache is None


def test_a_start_is_compared_with_the_sampler_that_explains_it() -> None:
    """Until 0.11.0 FlashInfer samples where it is installed: a lower peak."""
    native = planner.plan("Qwen/Qwen3-8B", gpu="L4", vllm_version="0.10.2")
    flashinfer = native.changed(sampler="flashinfer")

    sizes = [one.ranks[0].available_kv_cache_bytes for one in (native, flashinfer)]
    made = [
        confirmation_of(native, measured(native, available_kv_cache_bytes=size))
        for size in sizes
    ]

    assert sizes[0] < sizes[1]
    planned = [one.plan.ranks[0].available_kv_cache_bytes for one in made]
    assert planned == sizes
    assert [row(one, "KV cache").difference for one in made] == [0, 0]


def test_another_release_is_the_first_reason(plan) -> None:
    """With what to type."""
    other = replace(measured(plan), vllm_version="0.25.1")

    reasons = confirmation_of(plan, other).reasons

    assert "Another release: measured with vLLM 0.25.1" in reasons[0]
    assert 'vllm_version="0.25.1"' in reasons[0]


def test_another_setting_is_a_reason(plan) -> None:
    """vLLM resolved the batch otherwise than the plan."""
    changed = replace(measured(plan), engine=EngineFigures(max_num_batched_tokens=2048))

    confirmation = confirmation_of(plan, changed)

    assert confirmation.outcome is Confirmed.OFF
    assert any(
        "max_num_batched_tokens to 2,048, the plan to 8,192" in why
        for why in confirmation.reasons
    )


def test_other_programs_and_another_total_are_reasons(plan) -> None:
    """20 GiB held when vLLM started; a card of another size."""
    total = plan.gpu.total_memory_bytes
    shared = confirmation_of(plan, measured(plan, free_at_start_bytes=total - 20 * GIB))
    other = confirmation_of(plan, measured(plan, total_memory_bytes=total - GIB))

    assert any("Other programs held" in why for why in shared.reasons)
    assert any("Another total: this GPU has" in why for why in other.reasons)


def test_nothing_else_is_on_a_gpu_that_is_not_there(plan) -> None:
    """What is gone at the start of a dry run is the context that it assumes."""
    total = plan.gpu.total_memory_bytes
    found = measured(plan, free_at_start_bytes=total - 20 * GIB)
    reasons = confirmation_of(plan, replace(found, is_dry=True)).reasons

    assert not any("Other programs held" in why for why in reasons)


def test_given_the_measured_memory_blocks_are_exact(plan) -> None:
    """One byte less than a block's worth gives a block less."""
    block = plan.ranks[0].bytes_per_block
    available = 1000 * block - 1
    engine = EngineFigures(
        num_gpu_blocks=999,
        kv_cache_size_tokens=with_memory(plan, available).kv_cache_size_tokens,
    )
    found = replace(measured(plan, available_kv_cache_bytes=available), engine=engine)

    right = confirmation_of(plan, found).given
    wrong = confirmation_of(
        plan, replace(found, engine=replace(engine, num_gpu_blocks=1000))
    ).given

    assert right is not None
    assert right.num_gpu_blocks == 999
    assert right.error is not None  # 131,072 tokens do not fit 15,984
    assert wrong is not None
    assert not wrong.is_exact


def test_a_start_that_fails_as_planned_is_confirmed() -> None:
    """With vLLM's own words in both; figures in them may differ."""
    plan = planner.plan("meta-llama/Llama-3.1-8B-Instruct", gpu="L4")
    assert plan.error is not None
    words = plan.error.message.replace("16.0 GiB", "16.1 GiB")
    failed = Measurement(is_started=False, error=f"ValueError: {words}")

    assert confirmation_of(plan, failed).outcome is Confirmed.CONFIRMED
    other = replace(failed, error="RuntimeError: CUDA error: an illegal access")
    assert confirmation_of(plan, other).outcome is Confirmed.OFF


def test_the_contrary_of_the_plan_contradicts_it(plan) -> None:
    """Both ways, with the sentence of the side that said no."""
    failed = Measurement(is_started=False, error="OutOfMemoryError: CUDA out of memory")
    small = planner.plan("meta-llama/Llama-3.1-8B-Instruct", gpu="L4")
    started = Measurement(is_started=True)

    assert confirmation_of(plan, failed).outcome is Confirmed.CONTRADICTED
    assert "out of memory" in confirmation_of(plan, failed).reasons[0]
    assert confirmation_of(small, started).outcome is Confirmed.CONTRADICTED
    assert "expected vLLM to refuse" in confirmation_of(small, started).reasons[0]


def test_a_start_that_was_ended_says_nothing(plan) -> None:
    """Stopped, or a log that ends early."""
    unknown = Measurement(is_started=None)

    assert confirmation_of(plan, unknown).outcome is Confirmed.OPEN
    stopped = confirmation_of(plan, measured(plan), is_stopped=True)
    assert stopped.outcome is Confirmed.OPEN


def test_a_log_alone_is_compared_to_what_it_rounds_to(plan) -> None:
    """0.01 GiB: weights that differ by less are the same."""
    weights = plan.ranks[0].allocated_weights_bytes
    log = LogReading(
        figures={"weights_gib": round(weights / GIB, 2)}, started=True, error=None
    )

    confirmation = confirmation_of(plan, Measurement(log=log, is_started=True))

    assert row(confirmation, "weights").is_rounded
    assert row(confirmation, "weights").is_inside
    assert confirmation.given is None


def test_a_log_of_0_27_and_later_tells_the_account_as_sums() -> None:
    """15 weights of 16 consumed, 4 peak, 1 graphs and 51 KV cache: five lines."""
    figures = {
        "weights_gib": 15.0,
        "consumed_gib": 16.0,
        "activation_gib": 4.0,
        "cudagraph_estimated_gib": 1.0,
        "available_kv_gib": 51.0,
    }
    log = LogReading(figures=figures, setting=LogSetting(is_estimate_charged=True))

    lines = Measurement(log=log, is_started=True).lines

    assert {line.name: line.size_bytes / GIB for line in lines} == {
        "weights": 15,
        "persistent buffers + non-torch": 1,
        "peak activation": 4,
        "CUDA graphs": 1,
        "KV cache": 51,
    }


def test_a_log_of_the_kv_cache_alone_says_that_it_cannot_name_the_line(plan) -> None:
    """5 GiB less than planned, and not a word of why."""
    left = plan.ranks[0].available_kv_cache_bytes / GIB - 5
    log = LogReading(figures={"available_kv_gib": round(left, 2)}, started=True)

    reasons = confirmation_of(plan, Measurement(log=log, is_started=True)).reasons

    assert "only the KV cache" in reasons[0]
    assert "VLLM_LOGGING_LEVEL=DEBUG" in reasons[0]


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("cpu", "all but the KV cache"),
        ("cuda", "weights + persistent buffers + non-torch"),
    ],
)
def test_what_a_log_without_the_weights_tells_as_one(device: str, name: str) -> None:
    """The CPU backend measures its process; a GPU's peak stands beside the rest."""
    figures = {"consumed_gib": 0.69, "available_kv_gib": 3.53}

    lines = Measurement(
        log=LogReading(figures=figures, setting=LogSetting(device=device))
    ).lines

    assert [line.name for line in lines] == [name, "KV cache"]


def test_a_peak_that_contains_an_unknown_estimate_stands_beside_both() -> None:
    """The graphs' estimate was charged, and no line of the quote tells it."""
    text = (
        "INFO 01-01 10:00:00 [g.py:1] Actual usage is 15.26 GiB for consumed memory "
        "(weights + non-torch), 1.44 GiB for peak activation, and 0.23 GiB for "
        "CUDAGraph memory."
    )
    lines = {line.name: line.covers for line in measurement_of(text).lines}
    told = measurement_of(f"{text}\nEstimated CUDA graph memory: 0.25 GiB").lines

    assert lines["peak activation + CUDA graphs"] == ("peak activation", "CUDA graphs")
    assert round(1.19 * GIB) in [line.size_bytes for line in told]  # 1.44 - 0.25


def test_a_row_without_a_range_cannot_be_wrong() -> None:
    """Unless it is exact: then it must be met."""
    row = ComparisonRow(
        name="x", unit="bytes", estimated=5, measured=7, basis="measured"
    )

    assert row.difference == 2
    assert row.is_inside is None
    assert replace(row, basis="exact").is_inside is False
    assert replace(row, low=4, high=8).is_inside is True
    assert replace(row, measured=None).is_inside is None


def test_everything_is_told_as_plain_values(plan) -> None:
    """For --json: outcome, plan, measured figures, rows."""
    told = confirmation_of(plan, measured(plan)).to_dict()

    assert told["outcome"] == "confirmed"
    assert told["plan"]["fits"] is True
    assert told["measured"]["workers"][0]["rank"] == 0
    assert {"name", "estimated", "measured", "difference", "is_inside"} <= set(
        told["rows"][0]
    )
