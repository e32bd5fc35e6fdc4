"""Logs of vLLM, of several releases, and what is read from them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import planner
from planner.confirming.log import read_log
from tools.starts import read_records

LOGS = Path(__file__).parents[1] / "data" / "logs"

V0 = """
INFO 07-18 05:07:32 model_runner.py:1115] Loading model weights took 27.5681 GB
INFO 07-18 05:09:19 worker.py:267] the current vLLM instance can use total_gpu_memory (39.38GiB) x gpu_memory_utilization (0.80) = 31.50GiB
INFO 07-18 05:09:19 worker.py:267] model weights take 27.57GiB; non_torch_memory takes 0.11GiB; PyTorch activation peak memory takes 1.49GiB; the rest of the memory reserved for KV Cache is 2.33GiB.
INFO 07-18 05:09:19 executor_base.py:111] # cuda blocks: 796, # CPU blocks: 1365
INFO 07-18 05:09:19 executor_base.py:116] Maximum concurrency for 8192 tokens per request: 1.55x
INFO 07-18 05:09:39 model_runner.py:1562] Graph capturing finished in 18 secs, took 0.38 GiB
INFO 07-18 05:09:39 llm_engine.py:436] init engine (profile, create kv cache, warmup model) took 60.42 seconds
"""  # noqa: E501 - lines of a log
OLDER = """
(EngineCore_DP0 pid=1) INFO [gpu_model_runner.py:2392] Model loading took 7.5552 GiB and 3.88 seconds
(EngineCore_DP0 pid=1) INFO [gpu_worker.py:298] Available KV cache memory: 58.05 GiB
(EngineCore_DP0 pid=1) INFO [kv_cache_utils.py:864] GPU KV cache size: 422,672 tokens
(EngineCore_DP0 pid=1) INFO [kv_cache_utils.py:868] Maximum concurrency for 40,960 tokens per request: 10.32x
(EngineCore_DP0 pid=1) INFO [gpu_model_runner.py:3118] Graph capturing finished in 3 secs, took 0.54 GiB
INFO:     Application startup complete.
"""  # noqa: E501 - lines of a log
MIDDLE = """
(EngineCore pid=7) INFO 04-22 15:13:03 [v1/worker/gpu_model_runner.py:4820] Model loading took 12.56 GiB memory and 38.074301 seconds
(EngineCore pid=7) INFO 04-22 15:13:09 [v1/worker/gpu_model_runner.py:5900] Estimated CUDA graph memory: 0.84 GiB total
(EngineCore pid=7) DEBUG 04-22 15:13:20 [v1/worker/gpu_worker.py:435] Memory profiling takes 17.55 seconds. Total non KV cache memory: 13.57GiB; torch peak memory increase: 0.77GiB; non-torch forward increase memory: 0.25GiB; weights memory: 12.56GiB.
(EngineCore pid=7) INFO 04-22 15:13:20 [v1/worker/gpu_worker.py:436] Available KV cache memory: 61.66 GiB
(EngineCore pid=7) INFO 04-22 15:13:20 [v1/core/kv_cache_utils.py:1319] GPU KV cache size: 126,256 tokens
(EngineCore pid=7) INFO 04-22 15:13:20 [v1/core/kv_cache_utils.py:1324] Maximum concurrency for 8,192 tokens per request: 15.41x
(EngineCore pid=7) INFO 04-22 15:13:24 [v1/worker/gpu_model_runner.py:6046] Graph capturing finished in 4 secs, took 0.85 GiB
(APIServer pid=1) DEBUG 04-22 15:13:25 [v1/metrics/loggers.py:273] Engine 000: vllm cache_config_info with initialization after num_gpu_blocks is: 7891
"""  # noqa: E501 - lines of a log
NEWER = """
(EngineCore pid=2) INFO [model_runner.py:400] Model loading took 14.99 GiB memory and 3.2 seconds
(EngineCore pid=2) INFO [model_runner.py:900] Graph capturing finished in 2 secs, took 0.10 GiB
(EngineCore pid=2) INFO [gpu_worker.py:750] Available KV cache memory: 56.21 GiB
(EngineCore pid=2) INFO [kv_cache_utils.py:1150] GPU KV cache size: 460,496 tokens, Maximum concurrency for 131,072 tokens per request: 3.51x
(EngineCore pid=2) INFO [model_runner.py:900] Graph capturing finished in 9 secs, took 0.23 GiB
(EngineCore pid=2) INFO [gpu_worker.py:1060] CUDA graph pool memory: 0.23 GiB (actual), 1.24 GiB (estimated), difference: 1.01 GiB (439.1%).
(EngineCore pid=2) INFO [gpu_worker.py:1062] Free memory on device (78.84/79.25 GiB) on startup. Desired GPU memory utilization is (0.92, 72.91 GiB). Actual usage is 15.26 GiB for consumed memory (weights + non-torch), 1.44 GiB for peak activation, and 0.23 GiB for CUDAGraph memory.
"""  # noqa: E501 - lines of a log


def test_a_log_of_the_first_engine() -> None:
    """0.7: GB where GiB is meant, and the CPU's blocks beside the GPU's."""
    assert {
        "weights_gib": 27.5681,
        "total_gpu_gib": 39.38,
        "requested_gib": 31.5,
        "profiled_weights_gib": 27.57,
        "non_torch_gib": 0.11,
        "activation_gib": 1.49,
        "available_kv_gib": 2.33,
        "num_gpu_blocks": 796,
        "max_concurrency_len": 8192,
        "max_concurrency": 1.55,
        "cudagraph_gib": 0.38,
        "started": True,
    } == read_log(V0).to_dict()


def test_an_older_log() -> None:
    """0.10: tokens and concurrency on two lines, weights to four decimals."""
    assert {
        "weights_gib": 7.5552,
        "available_kv_gib": 58.05,
        "kv_tokens": 422672,
        "max_concurrency_len": 40960,
        "max_concurrency": 10.32,
        "cudagraph_gib": 0.54,
        "started": True,
    } == planner.read_log(OLDER).to_dict()


def test_a_log_with_every_detail() -> None:
    """0.19 at DEBUG: the profile's account, the graphs' estimate, the blocks."""
    assert {
        "weights_gib": 12.56,
        "cudagraph_estimated_gib": 0.84,
        "total_non_kv_gib": 13.57,
        "activation_gib": 0.77,
        "non_torch_gib": 0.25,
        "profiled_weights_gib": 12.56,
        "available_kv_gib": 61.66,
        "kv_tokens": 126256,
        "max_concurrency_len": 8192,
        "max_concurrency": 15.41,
        "cudagraph_gib": 0.85,
        "num_gpu_blocks": 7891,
        "started": True,
    } == read_log(MIDDLE).to_dict()


def test_a_newer_log() -> None:
    """0.31: one line; graphs are captured twice, and the second time counts."""
    said = read_log(NEWER).to_dict()
    assert (460496, 3.51) == (said["kv_tokens"], said["max_concurrency"])
    assert 0.23 == said["cudagraph_gib"]
    assert 1.24 == said["cudagraph_estimated_gib"]
    assert (15.26, 1.44) == (said["consumed_gib"], said["activation_gib"])
    assert (78.84, 79.25) == (said["free_at_start_gib"], said["total_gpu_gib"])
    assert 72.91 == said["requested_gib"]


def test_graphs_of_a_trial_alone_do_not_count() -> None:
    """The start ended after the cache was made: only the trial's graphs are told."""
    until_cache = "\n".join(NEWER.splitlines()[:5])
    assert "cudagraph_gib" not in read_log(until_cache).to_dict()


def test_the_cpu_build() -> None:
    """0.32.0 on a processor: 4.22 GiB asked for, 0.68 taken, 3.54 left."""
    assert {
        "available_kv_gib": 3.54,
        "requested_gib": 4.22,
        "consumed_gib": 0.68,
        "kv_tokens": 3709568,
        "max_concurrency_len": 2048,
        "max_concurrency": 1811.31,
        "compile_cache": "cold",
        "started": True,
    } == read_log((LOGS / "cpu-0.32.0.log").read_text("utf-8")).to_dict()


@pytest.mark.parametrize(
    ("words", "figures"),
    [
        ("Available KV cache memory: -14.28 GiB", {"available_kv_gib": -14.28}),
        (
            "Graph capturing finished in 2 secs, took -0.65 GiB",
            {"cudagraph_gib": -0.65},
        ),
        (
            "Initial free memory 78.84 GiB, reserved 61.06 GiB memory for KV Cache as "
            "specified by kv_cache_memory_bytes config",
            {"available_kv_gib": 61.06, "free_at_start_gib": 78.84},
        ),
        (
            "Explicitly set (2.0/21.09) GiB for KV cache on node 0.",
            {"available_kv_gib": 2.0},
        ),
        (
            "VLLM_CPU_KVCACHE_SPACE not set. Using 7.5 GiB for KV cache.",
            {"available_kv_gib": 7.5},
        ),
        (
            "Environment variable VLLM_CPU_KVCACHE_SPACE (GiB) for CPU backend is not "
            "set, using 4 by default.",
            {"available_kv_gib": 4.0},
        ),
        ("# cpu blocks: 2048, # CPU blocks: 0", {"num_gpu_blocks": 2048}),
        (
            "Overriding num_gpu_blocks=4400 with num_gpu_blocks_override=512",
            {"num_gpu_blocks": 512},
        ),
        ("Overriding num_gpu_blocks=0 with num_gpu_blocks_override=512", {}),
        ("Encoder graph capturing finished in 3 secs, took 0.50 GiB (8 graphs)", {}),
        (
            "Auto-fit max_model_len: reduced from 131072 to 7760 to fit in available "
            "GPU memory (0.95 GiB available for KV cache)",
            {"available_kv_gib": 0.95},
        ),
        (
            "Initial free memory: 78.84 GiB, free memory: 70.00 GiB, requested GPU "
            "memory: 71.33 GiB",
            {"free_at_start_gib": 78.84, "requested_gib": 71.33},
        ),
        ("XPU KV cache size: 12,352 tokens", {"kv_tokens": 12352}),
        ("GPU + host KV cache size: 9,000 tokens", {"kv_tokens": 9000}),
        (
            "Applying persisted startup plan (fingerprint ab12): kv_cache_memory_bytes="
            "65565989131 (61.06 GiB), recorded free-memory baseline 78.84 GiB",
            {"available_kv_gib": 61.06},
        ),
        (
            "Memory profiling results: total_gpu_memory=44.42GiB "
            "initial_memory_usage=8.19GiB peak_torch_memory=7.57GiB "
            "memory_usage_post_profile=8.26GiB non_torch_memory=0.73GiB "
            "kv_cache_size=31.68GiB gpu_memory_utilization=0.90",
            {
                "available_kv_gib": 31.68,
                "non_torch_gib": 0.73,
                "total_gpu_gib": 44.42,
                "initial_memory_usage_gib": 8.19,
                "peak_torch_gib": 7.57,
            },
        ),
        (
            "Encoder cache will be initialized with a budget of 14400 tokens, and "
            "profiled with 1 image items of the maximum feature size.",
            {"encoder_budget_tokens": 14400},
        ),
        (
            "Setting attention block size to 544 tokens to ensure that attention page "
            "size is >= mamba page size.",
            {"attn_block_size": 544},
        ),
        (
            "worker init memory snapshot: torch_peak=0.0GiB, free_memory=78.84GiB, "
            "non_torch_memory=0.41GiB, timestamp=1.0, auto_measure=True",
            {},
        ),
    ],
)
def test_sentences_of_every_release(words: str, figures: dict[str, float]) -> None:
    """Each tells its figures and no others."""
    line = f"(EngineCore pid=7) INFO 04-22 15:13:20 [gpu_worker.py:436] {words}"
    assert figures == read_log(line).figures


def test_of_several_ranks_the_limiting_one_counts() -> None:
    """Most weights, least memory left, fewest tokens with their concurrency."""
    said = read_log(
        """
(Worker_TP0 pid=2) INFO 08-16 01:46:15 [gpu_model_runner.py:1892] Model loading took 7.6871 GiB and 71.3 seconds
(Worker_TP1 pid=3) INFO 08-16 01:46:15 [gpu_model_runner.py:1892] Model loading took 7.6890 GiB and 70.3 seconds
(Worker_TP1 pid=3) INFO 08-16 01:49:52 [gpu_worker.py:255] Available KV cache memory: 56.08 GiB
(Worker_TP0 pid=2) INFO 08-16 01:49:52 [gpu_worker.py:255] Available KV cache memory: 55.62 GiB
INFO 08-16 01:49:52 [kv_cache_utils.py:833] GPU KV cache size: 3,675,536 tokens
INFO 08-16 01:49:52 [kv_cache_utils.py:837] Maximum concurrency for 32,768 tokens per request: 112.17x
INFO 08-16 01:49:52 [kv_cache_utils.py:833] GPU KV cache size: 3,644,816 tokens
INFO 08-16 01:49:52 [kv_cache_utils.py:837] Maximum concurrency for 32,768 tokens per request: 111.23x
"""  # noqa: E501 - lines of a log
    ).figures
    assert (7.689, 55.62) == (said["weights_gib"], said["available_kv_gib"])
    assert (3644816, 111.23) == (said["kv_tokens"], said["max_concurrency"])


def test_a_silent_log_says_nothing() -> None:
    """Nothing is guessed."""
    assert read_log("").to_dict() == {}


@pytest.mark.parametrize(
    "text",
    [
        "nginx: [notice] using the epoll event method",
        "Traceback (most recent call last):\nValueError: could not convert string",
        'INFO: "GET / HTTP/1.1" 200\nINFO:     Application startup complete.',
        "llama_kv_cache_init: KV self size  = 1024.00 MiB",
        "step 100 loss 1.25\nstep 200 loss 1.20",
        "\x00\x01\x02",
    ],
)
def test_a_log_of_something_else(text: str) -> None:
    """It tells nothing, and that it is not vLLM's."""
    reading = read_log(text)
    assert ({}, False) == (reading.to_dict(), reading.is_vllm)


CONTRACT = (
    "weights_gib available_kv_gib kv_tokens max_concurrency max_concurrency_len "
    "num_gpu_blocks cudagraph_gib cudagraph_estimated_gib activation_gib "
    "non_torch_gib encoder_budget_tokens needed_kv_gib estimated_max_len"
).split()


def numbers_in(quote: str) -> set[float]:
    """Return every number that stands in a quote."""
    found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", quote.replace(", ", " "))
    return {float(number.replace(",", "")) for number in found}


def published_logs() -> list[dict[str, object]]:
    """Return the records whose quote is a log.

    Those of issues (hv-) and of memory at the start (free-) quote what people wrote of
    theirs: tables and sentences.
    """
    told = ("hv-", "free-")
    return [row for row in read_records() if not str(row["id"]).startswith(told)]


def test_published_logs_are_read_as_their_records_say() -> None:
    """Of 1,320 figures that stand in 279 quotes at least 98 % are read, exactly.

    What a record has from elsewhere than its quote cannot be read in it. The rest are
    rows of numbers that no word stands beside.
    """
    compared, missed = 0, []
    for row in published_logs():
        quote, measured = str(row["quote"] or ""), row["measured"]
        said = read_log(quote).to_dict()
        for name in CONTRACT:
            recorded = measured.get(name)  # type: ignore[attr-defined]
            if recorded is None or recorded not in numbers_in(quote):
                continue
            compared += 1
            if said.get(name) != recorded:
                missed.append((row["id"], name, recorded, said.get(name)))
    assert compared > 1300
    assert len(missed) <= 0.02 * compared, missed


def test_published_logs_tell_whether_they_started() -> None:
    """Of 277 starts at least 93 % are told right: the other quotes leave it out."""
    told = [
        read_log(str(row["quote"] or "")).started is row["measured"]["started"]  # type: ignore[index]
        for row in published_logs()
        if "started" in row["measured"]  # type: ignore[operator]
    ]
    assert sum(told) >= 0.93 * len(told)
