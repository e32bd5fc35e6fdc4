"""vLLM itself, started on a GPU that is not there, says what the planner computes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import planner
from planner.confirming.dry.run import DryOptions, DryStart
from planner.confirming.film import FilmStage, Use
from planner.confirming.stages import StartStage
from planner.planning.inputs import Inputs
from planner.units import GIB, MIB
from tests.starts import descendants

SMALL = {"max_model_len": 4096, "enforce_eager": True}
# Models, GPUs and arguments: one of each kind. The weights are never touched, so that
# size does not matter.
CASES = {
    "dense": ("Qwen/Qwen3-0.6B", "H100", {}),
    "dense, two ranks in one process": (
        "Qwen/Qwen3-8B",
        "H100",
        {"tensor_parallel_size": 2},
    ),
    "dense, two stages": ("Qwen/Qwen3-8B", "L4", {"pipeline_parallel_size": 2}),
    "experts": ("Qwen/Qwen3-30B-A3B", "H100", {}),
    "latent attention": ("deepseek-ai/DeepSeek-V2-Lite", "H100", {}),
    "block FP8": ("Qwen/Qwen3-8B-FP8", "H100", {}),
    "sliding windows": ("google/gemma-3-1b-it", "RTX4090", {}),
    "adapters": ("Qwen/Qwen3-0.6B", "H100", {"enable_lora": True, "max_loras": 2}),
    "a fixed KV cache": ("Qwen/Qwen3-0.6B", "H100", {"kv_cache_memory_bytes": 2**30}),
}


def quiet(_event: object) -> None:
    """Listen without writing."""


@pytest.mark.parametrize("case", CASES)
def test_weights_are_the_planners(case: str, release: str) -> None:
    """What loading takes on each stage, repacked and rounded."""
    model, gpu, arguments = CASES[case]

    run = planner.dry_run(model, gpu=gpu, listener=quiet, **SMALL, **arguments)

    assert run.started, run.refused
    assert run.measurement.vllm_version == release
    assert run.estimate is not None
    assert len(run.ranks) == len(run.estimate.ranks)
    if "enable_lora" not in arguments:  # adapters are no parameters of vLLM's modules
        assert built_bytes(run) == pytest.approx(
            run.estimate.ranks[0].weights_bytes, rel=1e-4
        )
    for worker, planned in zip(run.ranks, run.estimate.ranks, strict=True):
        # The allocator's rounding beside it: a reused segment counts with its tail of
        # up to 1 MiB, which depends on the order in which loading frees what it needs.
        assert planned.allocated_weights_bytes == pytest.approx(
            worker.weights_bytes, rel=0.025
        )


def built_bytes(run: planner.DryRun) -> int:
    """Return the bytes of every tensor that vLLM built on the first rank."""
    entries = [
        *run.tree["outside"],
        *(
            entry
            for one in run.tree["layers"].values()
            for kind in one["layers"].values()
            for entry in one["kinds"][kind]
        ),
    ]
    return sum(tensor[3] for entry in entries for tensor in entry["tensors"])


def test_given_its_memory_the_plan_counts_as_vllm_does() -> None:
    """Blocks, tokens and concurrency follow from the memory that is left."""
    run = planner.dry_run("Qwen/Qwen3-0.6B", gpu="A100-80GB", listener=quiet, **SMALL)

    assert run.confirmation is not None
    assert run.confirmation.given is not None
    assert run.confirmation.given.is_exact
    assert run.plan().num_gpu_blocks == run.measurement.num_gpu_blocks


def test_its_plan_has_vllms_own_figures() -> None:
    """Measured by vLLM, except what only a driver allocates."""
    run = planner.dry_run("Qwen/Qwen3-0.6B", gpu="H100", listener=quiet, **SMALL)

    lines = {line.name: line for line in run.plan().ranks[0].lines}

    (worker,) = run.ranks
    for name in ("weights", "persistent buffers", "peak activation", "KV cache"):
        assert str(lines[name].basis) == "dry run"
    assert lines["weights"].size_bytes == worker.weights_bytes
    assert lines["peak activation"].size_bytes == worker.peak_activation_bytes
    assert lines["non-torch"].basis != "dry run"
    assert lines["KV cache"].size_bytes == worker.available_kv_cache_bytes


def test_its_film_has_what_vllm_measured() -> None:
    """Weights, peak and KV cache to the byte; the tensors of each stage in its own."""
    run = planner.dry_run(
        "Qwen/Qwen3-0.6B", gpu="L4", listener=quiet, is_filmed=True, **SMALL
    )

    film = run.film
    assert film is not None
    loaded, begun = film.last(FilmStage.REPACKING), film.last(FilmStage.STARTING)
    assert loaded is not None
    assert begun is not None
    assert film.peak is not None
    (worker,) = run.ranks
    assert worker.weights_bytes == loaded.tensor_bytes - begun.tensor_bytes
    highest, last = film.peak
    assert worker.peak_activation_bytes == highest.tensor_bytes - last.tensor_bytes
    end = film.frames[-1]
    assert 0 <= end.bytes_of(Use.KV_CACHE) - worker.kv_cache_bytes <= MIB
    assert any(text.startswith("Memory profiling takes") for _at, text in film.lines)


def test_a_model_without_a_reader_is_planned_from_what_vllm_builds(
    unread, tmp_path
) -> None:
    """Weights and KV cache of an architecture that the planner does not know."""
    config = {
        "architectures": [unread],
        "model_type": "llama",
        "hidden_size": 1024,
        "intermediate_size": 2816,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "num_hidden_layers": 6,
        "vocab_size": 32000,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-6,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(planner.UnknownArchitecture, match="dry_run"):
        planner.plan(tmp_path, **SMALL)

    run = planner.dry_run(tmp_path, gpu="H100", listener=quiet, **SMALL)
    planned = run.plan()

    assert run.estimate is None
    assert unread in run.unplanned
    assert planned.fits
    assert planned.num_gpu_blocks == run.measurement.num_gpu_blocks
    # 6 layers of 2,048 rows of q, k, v, 1,024 of o, 5,632 and 2,816 of the MLP.
    attention = 1024 * (16 + 2 * 8) * 64 + 16 * 64 * 1024
    layer = attention + 3 * 1024 * 2816 + 2 * 1024
    parameters = 6 * layer + 2 * 32000 * 1024 + 1024
    assert planned.ranks[0].weights_bytes == pytest.approx(2 * parameters, rel=0.002)


def test_vllms_refusal_is_a_result() -> None:
    """In vLLM's own words."""
    run = planner.dry_run(
        "Qwen/Qwen3-0.6B", listener=quiet, max_model_len=10**6, enforce_eager=True
    )

    assert run.started is False
    assert run.refused is not None
    assert "max_model_len" in run.refused
    assert run.ranks == ()


def test_too_small_a_gpu_is_said_by_vllm() -> None:
    """PyTorch's allocator finds no memory for 15 GiB of weights in 8 GiB."""
    small = planner.GPU.named("L4", total_memory_bytes=8 * GIB)

    run = planner.dry_run("Qwen/Qwen3-8B", gpu=small, listener=quiet, **SMALL)

    assert run.started is False
    assert "out of memory" in (run.refused or "")


@pytest.mark.parametrize(
    "stage",
    [
        StartStage.STARTING,
        StartStage.LOADING,
        StartStage.PROFILING,
        StartStage.KV_CACHE,
    ],
)
def test_stop_ends_it_at_any_stage(stage: StartStage) -> None:
    """Within seconds, and without an outcome."""
    reached = threading.Event()

    def listen(event) -> None:
        if event.stage is stage:
            reached.set()

    inputs = Inputs(model="Qwen/Qwen3-0.6B", vllm_version="", engine_args=SMALL)
    start = DryStart(inputs, DryOptions(), listen)
    results = []
    thread = threading.Thread(target=lambda: results.append(start.execute()))
    thread.start()
    assert reached.wait(120)

    start.stop()
    thread.join(30)

    assert not thread.is_alive()
    assert results[0].started is None
    assert descendants(os.getpid()) == set()


def test_a_killed_caller_leaves_nothing() -> None:
    """The supervisor sees that nobody reads it any more."""
    program = (
        "import planner; print('begin', flush=True);"
        f"planner.dry_run('Qwen/Qwen3-0.6B', **{SMALL!r})"
    )
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        next(line for line in caller.stdout if "starting" in line)
        time.sleep(2.0)
        children = descendants(caller.pid)
        assert children

        caller.send_signal(signal.SIGKILL)

    deadline = time.monotonic() + 30
    while alive(children) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alive(children) == set()


def alive(pids: set[int]) -> set[int]:
    """Return those that still run."""
    found = set()
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
            if stat.rpartition(")")[2].split()[0] not in "ZX":
                found.add(pid)
        except OSError:
            continue
    return found
