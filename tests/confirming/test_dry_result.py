"""What a dry run says, as values: contract, plan with its figures, text."""

from __future__ import annotations

import json

import pytest

import planner
from planner.confirming.differences import confirmation_of
from planner.confirming.dry.result import DriverMemory, DryRun
from planner.confirming.measurement import EngineFigures, Measurement, WorkerFigures
from planner.engine.releases import NEWEST
from planner.errors import PlannerError
from planner.planning.calibrations.dry import DryFigures, DryRank, dry_lines
from planner.planning.result import KVCacheGroup, Plan
from planner.show.dry_run import sheet
from planner.units import GIB, MIB

MODEL = "Qwen/Qwen3-8B"
ARGUMENTS = {"max_model_len": 4096, "enforce_eager": True}
NON_TORCH = 200 * MIB
PERSISTENT = 700 * MIB + 512
PEAK = 2 * GIB + 1024
GROUP = KVCacheGroup(
    kind="FullAttentionSpec", num_layers=36, block_size=16, page_size_bytes=65536
)


def estimate(**changes) -> Plan:
    """Return the plan of the same start."""
    return planner.plan(MODEL, gpu="H100", **ARGUMENTS, **changes)


def worker(rank: int = 0, *, weights: int | None = None) -> WorkerFigures:
    """Return a worker's account: what is not known is left for the KV cache."""
    planned = estimate().ranks[0]
    held = planned.allocated_weights_bytes if weights is None else weights
    consumed = held + PERSISTENT + NON_TORCH
    return WorkerFigures(
        rank=rank,
        requested_memory_bytes=planned.requested_memory_bytes,
        weights_bytes=held,
        consumed_bytes=consumed,
        peak_activation_bytes=PEAK,
        available_kv_cache_bytes=planned.requested_memory_bytes - consumed - PEAK,
        groups=(GROUP,),
    )


def dry(*workers: WorkerFigures, **changes) -> DryRun:
    """Return the dry run of these workers."""
    measured = Measurement(
        vllm_version=NEWEST,
        workers=workers,
        engine=EngineFigures(
            num_gpu_blocks=40_000,
            kv_cache_size_tokens=640_000,
            max_concurrency=156.25,
            max_model_len=4096,
        ),
        is_started=True,
        is_dummy=True,
        is_dry=True,
        seconds=21.0,
    )
    plan = estimate()
    facts = {
        "model": MODEL,
        "gpu": plan.gpu,
        "entrypoint": "serve",
        "engine_args": ARGUMENTS,
        "measurement": measured,
        "driver": (DriverMemory(non_torch_bytes=NON_TORCH),),
        "estimate": plan,
        "confirmation": confirmation_of(plan, measured),
        **changes,
    }
    return DryRun(**facts)


def test_the_contract_names_what_vllm_measured() -> None:
    """Names and values that other programs rely on, in whole bytes."""
    found = json.loads(json.dumps(dry(worker()).to_dict()))

    assert found["started"] is True
    assert found["refused"] is None
    assert found["vllm_version"] == NEWEST
    assert found["seconds"] == 21.0
    (rank,) = found["ranks"]
    assert rank["rank"] == 0
    assert rank["weights_bytes"] == estimate().ranks[0].allocated_weights_bytes
    assert rank["peak_activation_bytes"] == PEAK
    assert rank["available_kv_cache_bytes"] == worker().available_kv_cache_bytes
    assert found["num_gpu_blocks"] == 40_000
    assert found["kv_cache_size_tokens"] == 640_000
    assert found["max_concurrency"] == 156.25
    assert found["kv_groups"] == [
        {
            "kind": "FullAttentionSpec",
            "num_layers": 36,
            "block_size": 16,
            "page_size_bytes": 65536,
        }
    ]


def test_its_plan_replaces_what_pytorch_allocates() -> None:
    """700 MiB + 512 stay: what was consumed, less weights and assumed non-torch."""
    plan = dry(worker()).plan()

    lines = {line.name: line for line in plan.ranks[0].lines}
    sizes = {"persistent buffers": PERSISTENT, "peak activation": PEAK}
    for name, size in sizes.items():
        line = lines[name]
        assert size == line.size_bytes == line.low_bytes == line.high_bytes
        assert str(line.basis) == "dry run"
        assert f"{size:,} bytes" in line.why
    assert str(lines["KV cache"].basis) == "dry run"
    assert str(lines["non-torch"].basis) == "measured"
    assert estimate().ranks[0].line("non-torch") == lines["non-torch"]


def test_its_plan_keeps_the_range_of_what_a_driver_takes() -> None:
    """Non-torch memory is the only line whose range is left."""
    rank = dry(worker()).plan().ranks[0]

    spread = rank.available_kv_cache_high_bytes - rank.available_kv_cache_low_bytes
    before = estimate().ranks[0]
    wider = before.available_kv_cache_high_bytes - before.available_kv_cache_low_bytes
    assert 0 < spread < wider


def test_a_changed_dry_plan_is_estimated_again() -> None:
    """vLLM was not asked for another batch."""
    plan = dry(worker()).plan().changed(max_num_batched_tokens=2048)

    assert all(str(line.basis) != "dry run" for line in plan.ranks[0].lines)


def test_both_compile_caches_are_named() -> None:
    """The cold peak beside the warm one that counts."""
    cold = Measurement(
        workers=(WorkerFigures(rank=0, peak_activation_bytes=3 * GIB),),
        is_compile_cache_cold=True,
    )

    plan = dry(worker(), cold=cold).plan()

    line = plan.ranks[0].line("peak activation")
    assert line.size_bytes == PEAK
    assert "with a cold compile cache 3.00 GiB" in line.why


def test_a_cold_peak_is_named_where_the_warm_one_is_as_estimated() -> None:
    """What the plan says of the cold start does not depend on its estimate."""
    planned = estimate().ranks[0].line("peak activation").size_bytes
    figures = DryFigures(
        vllm_version=NEWEST,
        ranks=(
            DryRank(
                weights_bytes=None,
                persistent_bytes=None,
                peak_bytes=planned,
                cold_peak_bytes=3 * GIB,
            ),
        ),
        is_compile_cache_cold=False,
    )

    lines = dry_lines(estimate().ranks[0].lines, figures, 0)

    (why,) = [line.why for line in lines if line.name == "peak activation"]
    assert "warm compile cache; with a cold compile cache 3.00 GiB" in why
    assert why.endswith("as estimated")


def test_vllms_refusal_is_in_its_own_words() -> None:
    """And there is no plan without figures."""
    error = "ValueError: User-specified max_model_len (1000000) is greater"
    measured = Measurement(vllm_version=NEWEST, is_started=False, error=error)
    run = dry(measurement=measured, confirmation=None)

    assert run.refused == error
    assert error in str(run)
    assert "Does not start" in sheet(run).to_html()
    with pytest.raises(PlannerError, match="User-specified max_model_len"):
        run.plan()


def test_its_text_says_what_is_real_and_what_is_assumed() -> None:
    """For a terminal and for a notebook."""
    run = dry(worker())

    text = str(run)
    assert "✔ Starts: 40,000 KV cache blocks, 640,000 tokens" in text
    assert "without a GPU" in text
    assert "assumed: 0.20 GiB non-torch" in text
    assert "Dry run" in text
    assert "Measured" not in text
    assert "dry run" in run._repr_mimebundle_()["text/html"].lower()


def test_without_an_estimate_it_says_why() -> None:
    """A model that the planner does not read."""
    run = dry(worker(), estimate=None, confirmation=None, unplanned="not modelled yet")

    assert "There is no estimate: not modelled yet" in str(run)
    assert run.to_dict()["unplanned"] == "not modelled yet"
    assert "There is no estimate" in sheet(run).to_html()
