"""From what the probe tells of a worker to its account, release by release."""

from __future__ import annotations

from planner.confirming.figures import engine_from, worker_from
from planner.confirming.log import LogReading
from planner.confirming.measurement import Measurement
from planner.units import GIB, MIB

NEW = {
    "rank": 0,
    "total_memory": 80 * GIB,
    "requested_memory": 72 * GIB,
    "weights": 15.0 * GIB,  # vLLM keeps it as a float
    "total_consumed": 16 * GIB,
    "peak_activation": 5 * GIB,
    "cudagraph_estimate": 1 * GIB,
    "estimates_cudagraphs": True,
    "available_kv_cache": 51 * GIB,
}


def lines_of(told: dict[str, object]) -> dict[str, int]:
    """Return the account's lines of one worker."""
    lines = Measurement(workers=(worker_from(told),)).lines
    return {line.name: line.size_bytes for line in lines}


def test_from_0_27_on_the_peak_holds_the_graphs_too() -> None:
    """72 requested = 15 weights + 1 buffers and others + 4 peak + 1 graphs + 51."""
    lines = lines_of(NEW)

    assert lines == {
        "weights": 15 * GIB,
        "persistent buffers + non-torch": 1 * GIB,
        "peak activation": 4 * GIB,
        "CUDA graphs": 1 * GIB,
        "KV cache": 51 * GIB,
    }
    assert sum(lines.values()) == 72 * GIB


def test_an_estimate_that_is_not_charged_is_no_line() -> None:
    """VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0: 52 are left, not 51."""
    lines = lines_of(
        NEW
        | {
            "estimates_cudagraphs": False,
            "peak_activation": 4 * GIB,
            "available_kv_cache": 52 * GIB,
        }
    )

    assert "CUDA graphs" not in lines
    assert sum(lines.values()) == 72 * GIB


def test_up_to_0_26_what_pytorch_does_not_know_of_is_told_apart() -> None:
    """72 requested = 15 weights + 0.5 non-torch + 5 peak + 51.5."""
    told = {
        "requested_memory": 72 * GIB,
        "weights": 15 * GIB,
        "non_torch": 512 * MIB,
        "peak_activation": 5 * GIB,
        "available_kv_cache": 72 * GIB - 20 * GIB - 512 * MIB,
    }

    lines = lines_of(told)

    assert lines["non-torch"] == 512 * MIB
    assert sum(lines.values()) == 72 * GIB


def test_before_0_12_the_log_tells_what_the_worker_does_not_keep() -> None:
    """The worker has 15 weights and 51.5 left; its log 5 peak and 0.5 others."""
    told = {
        "requested_memory": 72 * GIB,
        "weights": 15 * GIB,
        "available_kv_cache": 51 * GIB + 512 * MIB,
    }
    log = LogReading(figures={"activation_gib": 5.0, "non_torch_gib": 0.5})

    lines = Measurement(workers=(worker_from(told),), log=log).lines

    assert sum(line.size_bytes for line in lines) == 72 * GIB


def test_the_cpu_backend_measures_its_process_as_a_whole() -> None:
    """4 GiB requested, 3.4 left: 0.6 for everything else."""
    told = {
        "requested_memory": 4 * GIB,
        "available_kv_cache": 4 * GIB - 600 * MIB,
        "is_cpu": True,
    }

    assert lines_of(told) == {
        "all but the KV cache": 600 * MIB,
        "KV cache": 4 * GIB - 600 * MIB,
    }


def test_a_fixed_kv_cache_tells_nothing_of_the_process() -> None:
    """vLLM does not measure then."""
    told = {
        "requested_memory": 4 * GIB,
        "available_kv_cache": 1 * GIB,
        "is_cpu": True,
        "config.kv_cache_memory_bytes": 1 * GIB,
    }

    assert lines_of(told) == {"KV cache": 1 * GIB}


def test_the_worker_with_least_left_limits() -> None:
    """As vLLM takes the smallest."""
    roomy = worker_from(NEW | {"rank": 1, "available_kv_cache": 60 * GIB})
    measurement = Measurement(workers=(roomy, worker_from(NEW)))

    assert measurement.available_kv_cache_bytes == 51 * GIB
    assert measurement.limiting_worker is measurement.workers[1]


def test_the_engines_words_count_before_its_workers() -> None:
    """Labels of a metric are texts; a worker's copy may be older."""
    labels = {
        "num_gpu_blocks": "1000",
        "kv_cache_max_concurrency": "7.8125",
        "kv_cache_size_tokens": "None",
    }
    workers = [
        {
            "num_blocks": 999,
            "config.kv_cache_size_tokens": 16000,
            "config.block_size": 16,
        }
    ]

    engine = engine_from(workers, labels)

    assert engine.num_gpu_blocks == 1000
    assert engine.max_concurrency == 7.8125
    assert engine.kv_cache_size_tokens == 16000
    assert engine.block_size == 16
    assert engine.max_num_seqs is None


def test_blocks_come_from_the_workers_where_nobody_else_tells() -> None:
    """The fewest of them: vLLM uses that number on each."""
    workers = [{"num_blocks": 999}, {"num_blocks": 900}]

    assert engine_from(workers, {}).num_gpu_blocks == 900
