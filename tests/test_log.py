"""Logs of vLLM, of several releases, and what is read from them."""

import json
from pathlib import Path

import pytest

import planner
from planner.log import read_log

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "vllm-logs.jsonl"

OLDER = """
(EngineCore_DP0 pid=1) INFO [gpu_model_runner.py:2392] Model loading took 7.5552 GiB and 3.88 seconds
(EngineCore_DP0 pid=1) INFO [gpu_worker.py:298] Available KV cache memory: 58.05 GiB
(EngineCore_DP0 pid=1) INFO [kv_cache_utils.py:864] GPU KV cache size: 422,672 tokens
(EngineCore_DP0 pid=1) INFO [kv_cache_utils.py:868] Maximum concurrency for 40,960 tokens per request: 10.32x
(EngineCore_DP0 pid=1) INFO [gpu_model_runner.py:3118] Graph capturing finished in 3 secs, took 0.54 GiB
INFO:     Application startup complete.
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
FAILED = """
(EngineCore pid=3) INFO [gpu_worker.py:424] Available KV cache memory: 0.95 GiB
(EngineCore pid=3) ERROR [core.py:1100] ValueError: To serve at least one request with the models's max seq len (8192), (1.0 GiB KV cache is needed, which is larger than the available KV cache memory (0.95 GiB). Based on the available memory, the estimated maximum model length is 7760. Try increasing `gpu_memory_utilization`.
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.
"""  # noqa: E501 - lines of a log


def test_an_older_log() -> None:
    """0.10: tokens and concurrency on two lines, weights to four decimals."""
    assert planner.read_log(OLDER).to_dict() == {
        "weights_gib": 7.5552,
        "available_kv_gib": 58.05,
        "kv_tokens": 422672,
        "max_concurrency_len": 40960,
        "max_concurrency": 10.32,
        "cudagraph_gib": 0.54,
        "started": True,
    }


def test_a_newer_log() -> None:
    """0.31: one line; graphs are captured twice, and the second time counts."""
    said = read_log(NEWER).to_dict()
    assert (said["kv_tokens"], said["max_concurrency"]) == (460496, 3.51)
    assert said["cudagraph_gib"] == 0.23
    assert said["cudagraph_estimated_gib"] == 1.24
    assert (said["consumed_gib"], said["activation_gib"]) == (15.26, 1.44)
    assert (said["free_at_start_gib"], said["total_gpu_gib"]) == (78.84, 79.25)
    assert "started" not in said


def test_a_start_that_failed() -> None:
    """The cause, not the error that wraps it."""
    said = read_log(FAILED).to_dict()
    assert said["started"] is False
    assert str(said["error"]).startswith("ValueError: To serve at least one request")
    assert (said["needed_kv_gib"], said["estimated_max_len"]) == (1.0, 7760)


def test_a_silent_log_says_nothing() -> None:
    """Nothing is guessed."""
    assert read_log("").to_dict() == {}


def rows() -> list[dict[str, object]]:
    """Return the published logs with what people read in them."""
    if not CORPUS.exists():
        return []
    return [json.loads(line) for line in CORPUS.read_text().splitlines()]


# Of several pipeline stages the record has another one's line.
OF_ANOTHER_RANK = {
    ("llmd-v0190-meta-llama-llama-3-1-8b-h100-80gb-tp1pp2dp1-8192", "activation_gib"),
    ("llmd-v0190-meta-llama-llama-3-1-8b-h100-80gb-tp1pp4dp1-8192", "activation_gib"),
}


@pytest.mark.skipif(
    not CORPUS.exists(), reason="the published logs are not beside this checkout"
)
def test_published_logs_are_read_as_their_records_say() -> None:
    """About a thousand figures; what a record leaves out is left out here too."""
    compared, wrong = 0, []
    for row in rows():
        measured = row["measured"]
        for name, value in read_log(str(row["quote"] or "")).figures.items():
            if name not in measured or (row["id"], name) in OF_ANOTHER_RANK:  # type: ignore[operator]
                continue
            compared += 1
            recorded = float(measured[name])  # type: ignore[index]
            if abs(recorded - value) > 0.006 * max(1.0, abs(value)):
                wrong.append((row["id"], name, value, recorded))
    assert wrong == []
    assert compared > 900
