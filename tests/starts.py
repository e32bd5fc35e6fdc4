"""Starts of vLLM for tests: a stand-in, a tiny model, and what a start leaves."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import planner
from planner.confirming.confirmation import Confirmation
from planner.confirming.options import RunOptions
from planner.confirming.run import Run
from planner.planning.result import Plan
from planner.units import GIB

STAND_IN = Path(__file__).parent / "fake_vllm"
"""A package that is called vllm and starts, logs, measures and answers as vLLM does."""

PATIENCE = 300.0
"""Seconds after which what does not come is a fault, on the busiest machine too."""

LAST_START = "PLANNER_LAST_START"
"""Variable that `.ci/run` sets: the time in seconds since 1970 up to which a test that
starts a real vLLM may begin."""

TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 512,
    "max_position_embeddings": 2048,
}

LOG_OF_A_GPU = """\
INFO 09-14 10:00:01 [api_server.py:1805] vLLM API server version 0.19.0
INFO 09-14 10:00:02 [utils.py:253] non-default args: {'model_tag': 'Qwen/Qwen3-8B', \
'model': 'Qwen/Qwen3-8B', 'max_model_len': 32768, 'port': 9000}
INFO 09-14 10:00:40 [gpu_model_runner.py:3005] Model loading took 15.27 GiB memory
INFO 09-14 10:01:10 [gpu_worker.py:349] Available KV cache memory: 51.01 GiB
INFO 09-14 10:01:11 [kv_cache_utils.py:1229] GPU KV cache size: 371,408 tokens
INFO 09-14 10:01:11 [kv_cache_utils.py:1234] Maximum concurrency for 32,768 tokens \
per request: 11.33x
INFO:     Application startup complete.
"""
"""What `vllm serve` of 0.19 wrote on an H100."""


def a_plan(folder: Path, entrypoint: str = "serve", share: float = 0.5) -> Plan:
    """A share of 16 GiB on a processor."""
    gpu = planner.GPU(name="CPU", total_memory_bytes=16 * GIB)
    return planner.plan(
        folder,
        gpu=gpu,
        entrypoint=entrypoint,
        dtype="float32",
        gpu_memory_utilization=share,
    )


def confirm(plan: Plan, **options: object) -> Confirmation:
    """Start it as a user does, without keeping the figures."""
    chosen: dict[str, object] = {"is_stored": False, **options}
    return Run(plan, RunOptions(**chosen)).execute()  # type: ignore[arg-type]


def descendants(pid: int) -> set[int]:
    """Return the processes below one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    found: set[int] = set()
    while (
        more := {child for child, above in parents.items() if above in {pid, *found}}
        - found
    ):
        found |= more
    return found


def shared_memory(pids: set[int]) -> set[Path]:
    """Return the shared memory that processes have open."""
    lines = [
        line
        for pid in pids
        if is_alive(pid)
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines()
    ]
    return {
        Path(line[line.index("/dev/shm/") :])
        for line in lines
        if "/dev/shm/" in line and not line.endswith("(deleted)")
    }


def wait_until(is_true: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait for something to become true; fail when it does not."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie that nobody has collected does not.

    A zombie with threads is one that is still giving back its memory.
    """
    place = Path(f"/proc/{pid}")
    try:
        state = (place / "stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" or len(list((place / "task").iterdir())) > 1
    except OSError:
        return False


def skip_when_late() -> None:
    """Skip a test that starts a real vLLM where CI's time is used up."""
    if time.time() > float(os.environ.get(LAST_START, "inf")):
        pytest.skip("no time left to start vLLM: `make nightly` does")
