"""How far a start is, from the lines of its log."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.confirming.stages import StageTracker, StartStage, progress_of, stage_of
from tests.confirming.test_log_lines import PREFIXES

LOGS = Path(__file__).parents[1] / "data" / "logs"
HEAD = "INFO 04-22 00:21:43 [a.py:1] "

STAGES = [
    ("vLLM API server version 0.10.0", StartStage.STARTING),
    ("Initializing a V1 LLM engine (v0.33.0) with config: m", StartStage.STARTING),
    ("Starting to load model org/Some-Model...", StartStage.LOADING),
    (
        "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01]",
        StartStage.LOADING,
    ),
    ("Loading model from scratch...", StartStage.LOADING),
    ("Loading weights took 3.22 seconds", StartStage.LOADING),
    ("Model loading took 14.9889 GiB and 5.42 seconds", StartStage.COMPILING),
    (
        "Using cache directory: /cache/torch_compile_cache/ab/rank_0_0/backbone for "
        "vLLM's torch.compile",
        StartStage.COMPILING,
    ),
    ("Dynamo bytecode transform time: 4.41 s", StartStage.COMPILING),
    ("[backbone] Starting torch.compile", StartStage.COMPILING),
    ("torch.compile takes 33.20 s in total", StartStage.PROFILING),
    ("[backbone] torch.compile took 33.20 s in total", StartStage.PROFILING),
    (
        "torch.compile and initial profiling/warmup run together took 12.34 s in total",
        StartStage.PROFILING,
    ),
    ("Initial profiling/warmup run took 1.20 s", StartStage.PROFILING),
    ("Estimated CUDA graph memory: 0.84 GiB total", StartStage.PROFILING),
    ("Available KV cache memory: 61.66 GiB", StartStage.KV_CACHE),
    ("GPU KV cache size: 126,256 tokens", StartStage.KV_CACHE),
    ("CPU KV cache size: 126,256 tokens, Maximum concurrency", StartStage.KV_CACHE),
    ("Explicitly set (2.0/21.09) GiB for KV cache on node 0.", StartStage.KV_CACHE),
    ("Capturing CUDA graph shapes:   1%|1| 1/67 [00:00<00:41]", StartStage.CAPTURING),
    (
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  40%|4| 2/5",
        StartStage.CAPTURING,
    ),
    ("Capturing CUDA graphs (FULL): 100%|#| 5/5", StartStage.CAPTURING),
    ("Capturing eagle prefill CUDA graphs (FULL):  20%|#| 1/5", StartStage.CAPTURING),
    ("Graph capturing finished in 4 secs, took 0.85 GiB", StartStage.CAPTURING),
    (
        "init engine (profile, create kv cache, warmup model) took 38.86 s",
        None,
    ),
    (
        "Enforce eager set, disabling CUDAGraphs, and JIT kernel warmup.",
        None,
    ),
    ("INFO:     Application startup complete.", StartStage.READY),
    ("Resolved architecture: LlamaForCausalLM", StartStage.STARTING),
    ("Using LBHNC KV cache layout.", None),
    ("Automatically detected platform cuda.", None),
    ("Avg prompt throughput: 10.3 tokens/s", None),
    ("", None),
]


@pytest.mark.parametrize(("line", "stage"), STAGES)
def test_the_stage_that_a_line_shows(line: str, stage: StartStage | None) -> None:
    """Of every release from 0.10 on, the CPU build among them."""
    assert stage is stage_of(line)
    assert stage is stage_of(f"(Worker_TP0 pid=4) {HEAD}{line}")


@given(st.sampled_from(PREFIXES), st.sampled_from(STAGES))
def test_prefixes_change_no_stage(
    prefix: str, told: tuple[str, StartStage | None]
) -> None:
    """Ray, docker, an issue."""
    line, stage = told
    assert stage is stage_of(f"{prefix}{HEAD}{line}")


def stages_in(name: str) -> list[StartStage]:
    """Return the stages of a log in their order."""
    tracker = StageTracker()
    lines = (LOGS / name).read_text("utf-8").splitlines()
    return list(dict.fromkeys(tracker.advance(line) for line in lines))


def test_a_start_of_the_cpu_build() -> None:
    """Every stage once, in order; a processor has no graphs to capture."""
    assert [
        StartStage.CHECKING,
        StartStage.STARTING,
        StartStage.LOADING,
        StartStage.COMPILING,
        StartStage.PROFILING,
        StartStage.KV_CACHE,
        StartStage.READY,
    ] == stages_in("cpu-0.32.0.log")


def test_starts_that_fail_stay_where_they_were() -> None:
    """Before the model, and for want of a KV cache."""
    assert StartStage.STARTING is stages_in("cpu-0.32.0-too-long.log")[-1]
    assert StartStage.KV_CACHE is stages_in("cpu-0.32.0-no-room.log")[-1]


def test_an_eager_start_does_not_compile() -> None:
    """After loading it profiles."""
    tracker = StageTracker()
    tracker.advance("Enforce eager set, disabling torch.compile and CUDAGraphs.")
    tracker.advance("Starting to load model m...")
    assert StartStage.PROFILING is tracker.advance("Model loading took 1.0 GiB and 2 s")


def test_a_trial_capture_is_no_capture() -> None:
    """Graphs are measured before the KV cache is made, and captured after."""
    tracker = StageTracker()
    tracker.advance("Profiling CUDA graph memory: PIECEWISE=6 (largest=24)")
    line = "Capturing CUDA graphs (FULL):  20%|#| 1/5"
    assert StartStage.PROFILING is tracker.advance(line)
    tracker.advance("Available KV cache memory: 1.0 GiB")
    assert StartStage.CAPTURING is tracker.advance(line)


@pytest.mark.parametrize(
    ("line", "progress"),
    [
        ("Loading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?]", 0.0),
        ("Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01]", 0.5),
        ("Loading pt checkpoint shards: 100% Completed | 4/4 [00:01]", 1.0),
        ("Multi-thread loading shards:  25% Completed | 1/4 [00:01]", 0.25),
        ("Capturing CUDA graphs (decode, FULL):  40%|####      | 2/5 [00:00]", 0.4),
        (
            "Capturing CUDA graph shapes:   0%|          | 0/4 [00:00<?, ?it/s]\r"
            "Capturing CUDA graph shapes:  75%|#######   | 3/4 [00:01, 1.6it/s]",
            0.75,
        ),
        (
            "Capturing CUDA graph shapes:   0%|          | 0/4 [00:00<?, ?it/s]"
            "Capturing CUDA graph shapes:  50%|#####     | 2/4 [00:01, 1.6it/s]",
            0.5,
        ),
        (
            "Loading safetensors using InstantTensor loader:   9% Completed | "
            "13.3G/155G [00:01<00:10, 14.3GB/s]",
            0.09,
        ),
        ("Downloading shards:  50%|#####     | 2/4 [00:01]", None),
        ("Loading safetensors checkpoint shards:   0% Completed | 0/0", None),
        ("Available KV cache memory: 1.0 GiB", None),
    ],
)
def test_the_share_of_a_stage(line: str, progress: float | None) -> None:
    """Where the log has a bar of it."""
    assert progress == progress_of(line)
    assert progress == progress_of(f"(EngineCore pid=4) {line}")


def test_the_share_of_a_run() -> None:
    """Loading is the third of twelve stages: half of it is 2.5 of 11 steps."""
    tracker = StageTracker()
    tracker.advance("Loading safetensors checkpoint shards:  50% Completed | 2/4")
    assert 2.5 / 11 == tracker.fraction
    tracker.advance("Loading safetensors checkpoint shards:   0% Completed | 0/1")
    assert 0.5 == tracker.progress


@given(st.lists(st.sampled_from([line for line, _ in STAGES]) | st.text()))
def test_it_only_moves_forward(lines: list[str]) -> None:
    """In stage and in share, whatever the lines are."""
    tracker = StageTracker()
    shares = [tracker.fraction]
    for line in lines:
        tracker.advance(line)
        shares.append(tracker.fraction)
    assert sorted(shares) == shares
    assert shares[-1] <= 1.0


def test_a_stage_is_reached_once() -> None:
    """The run itself tells the stages that no line shows."""
    tracker = StageTracker()
    assert StartStage.GENERATING is tracker.reach(StartStage.GENERATING)
    assert StartStage.GENERATING is tracker.reach(StartStage.LOADING)
