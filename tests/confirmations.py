"""Confirmations to show: one of each outcome, on invented measurements."""

from dataclasses import replace
from functools import cache

from planner.confirming.confirmation import (
    ComparisonRow,
    Confirmation,
    Confirmed,
    GivenMemory,
)
from planner.confirming.dry.result import DriverMemory, DryRun
from planner.confirming.measurement import (
    EngineFigures,
    LoadFigures,
    Measurement,
    WorkerFigures,
)
from planner.engine.releases import NEWEST
from planner.units import GIB, MIB
from tests import plans

ERROR = (
    "ValueError: To serve at least one request with the models's max seq len (131072), "
    "(16.0 GiB KV cache is needed"
)


def measurement(plan, off_bytes: int = 0) -> Measurement:
    """What vLLM would tell, with `off_bytes` less for the KV cache."""
    rank = plan.limiting_rank
    size = {line.name: line.size_bytes for line in rank.lines}
    available = rank.available_kv_cache_bytes - off_bytes
    blocks = available // rank.bytes_per_block
    rest = size.get("persistent buffers", 0) + size.get("non-torch", 0) + off_bytes
    weights = size["weights"]
    return Measurement(
        vllm_version=NEWEST,
        device_name="NVIDIA H100 80GB HBM3",
        driver_version="570.86",
        date="2026-11-21",
        workers=(
            WorkerFigures(
                rank=0,
                requested_memory_bytes=rank.requested_memory_bytes,
                weights_bytes=weights,
                consumed_bytes=weights + rest,
                peak_activation_bytes=size["peak activation"],
                cudagraph_estimate_bytes=size.get("CUDA graphs", 0),
                is_estimate_charged=True,
                available_kv_cache_bytes=available,
                num_blocks=blocks,
            ),
        ),
        engine=EngineFigures(
            num_gpu_blocks=blocks,
            block_size=16,
            kv_cache_size_tokens=blocks * 16,
            max_concurrency=blocks / plan.blocks_per_request,
        ),
        is_started=True,
        generated_tokens=(9906, 11, 1917, 0, 358, 1097, 264, 4221, 1646),
        generated_text="Hello, <b>world</b>! I am a language model",
        is_compile_cache_cold=True,
        is_dummy=True,
        seconds=74.2,
    )


def rows(plan, told: Measurement) -> tuple[ComparisonRow, ...]:
    """The comparison as the planner makes it, in short."""
    rank = plan.limiting_rank
    lines = {line.name: line for line in rank.lines}
    worker = told.limiting_worker
    return (
        *(
            ComparisonRow(
                name=part.name,
                unit="bytes",
                estimated=sum(lines[name].size_bytes for name in part.covers),
                low=sum(lines[name].low_bytes for name in part.covers),
                high=sum(lines[name].high_bytes for name in part.covers),
                measured=part.size_bytes,
                basis=str(lines[part.covers[0]].basis),
            )
            for part in told.lines
        ),
        ComparisonRow(
            name="num_gpu_blocks",
            unit="blocks",
            estimated=plan.num_gpu_blocks,
            low=plan.num_gpu_blocks - 2000,
            high=plan.num_gpu_blocks + 2000,
            measured=worker.num_blocks,
            basis="formula",
        ),
        ComparisonRow(
            name="max_concurrency",
            unit="requests",
            estimated=plan.max_concurrency,
            low=plan.max_concurrency - 0.5,
            high=plan.max_concurrency + 0.5,
            measured=told.max_concurrency,
            basis="formula",
        ),
    )


def of(plan, told: Measurement, outcome: Confirmed, **others) -> Confirmation:
    """Put both together."""
    return Confirmation(
        plan=plan,
        measurement=told,
        outcome=outcome,
        rows=rows(plan, told) if told.workers else (),
        given=GivenMemory(
            available_kv_cache_bytes=told.available_kv_cache_bytes,
            num_gpu_blocks=told.num_gpu_blocks,
            kv_cache_size_tokens=told.kv_cache_size_tokens,
            max_concurrency=told.max_concurrency,
            is_exact=True,
        )
        if told.workers
        else None,
        **{"reasons": ()} | others,
    )


@cache
def confirmed() -> Confirmation:
    """Everything as estimated, but 100 MiB."""
    plan = plans.fitting()
    return of(
        plan,
        measurement(plan, 100 * MIB),
        Confirmed.CONFIRMED,
        notes=("Stored: later plans on this GPU use what was measured.",),
    )


@cache
def off() -> Confirmation:
    """Two GiB less for the KV cache than the range says."""
    plan = plans.fitting()
    return of(
        plan,
        measurement(plan, 2 * GIB),
        Confirmed.OFF,
        reasons=(
            "persistent buffers + non-torch: 2.00 GiB more than estimated. Other "
            "processes may have taken memory while vLLM measured.",
            "The compile cache was cold: compiling holds memory of its own.",
        ),
    )


@cache
def contradicted() -> Confirmation:
    """It failed although the plan said that it fits."""
    told = Measurement(vllm_version=NEWEST, error=ERROR, is_started=False)
    return of(plans.fitting(), told, Confirmed.CONTRADICTED)


@cache
def as_refused() -> Confirmation:
    """It failed, as planned, before anything was measured."""
    told = Measurement(vllm_version=NEWEST, error=ERROR, is_started=False)
    return of(plans.too_long(), told, Confirmed.CONFIRMED)


@cache
def stopped() -> Confirmation:
    """Ended by Stop: nothing was told."""
    return of(
        plans.fitting(), Measurement(), Confirmed.OPEN, notes=("Stopped by the user.",)
    )


def dry_measurement(plan, off_bytes: int = 40 * MIB) -> Measurement:
    """What vLLM would tell on a GPU that is not there."""
    return replace(
        measurement(plan, off_bytes),
        driver_version="",
        is_dry=True,
        generated_tokens=(),
        generated_text="",
        is_compile_cache_cold=False,
    )


@cache
def dry() -> Confirmation:
    """The same plan without a GPU: 60 MiB nearer to it than `confirmed`."""
    plan = plans.fitting()
    return of(plan, dry_measurement(plan), Confirmed.CONFIRMED)


@cache
def dry_run() -> DryRun:
    """The run of `dry`."""
    return DryRun(
        model=dry().plan.name,
        gpu=dry().plan.gpu,
        entrypoint="serve",
        engine_args={},
        measurement=dry().measurement,
        driver=(DriverMemory(non_torch_bytes=GIB, cudagraph_bytes=GIB // 2),),
        estimate=dry().plan,
        confirmation=dry(),
    )


@cache
def unplanned_run() -> DryRun:
    """Of a model that the planner does not read."""
    return replace(
        dry_run(),
        model="nobody/new-model",
        estimate=None,
        confirmation=None,
        unplanned="The architecture NewForCausalLM is not modelled.",
    )


@cache
def loaded() -> Confirmation:
    """With a load probe."""
    full = LoadFigures(
        num_requests=8,
        prompt_tokens=131_000,
        output_tokens=72,
        num_finished=8,
        peak_running=3,
        peak_waiting=5,
        peak_kv_cache_usage=0.987,
        num_readings=40,
        preemptions=2,
        seconds=312.5,
    )
    sure = confirmed()
    return replace(sure, measurement=replace(sure.measurement, load=full))


ALL = (confirmed, off, contradicted, as_refused, stopped, loaded)
