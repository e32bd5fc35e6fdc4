"""What the planner says of the CPU backend is what vLLM's CPU build does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import planner
from planner.app.cli import main
from planner.confirming.confirmation import Confirmation, Confirmed
from planner.confirming.options import Event, RunOptions
from planner.confirming.run import Run
from planner.confirming.stages import StartStage
from planner.planning.result import Plan
from tests.starts import descendants, is_alive, shared_memory, wait_until
from tests.vllm.conftest import TINY

STOP_SECONDS = 1.0
SMALL: dict[str, Any] = {"dtype": "float32", "gpu_memory_utilization": 0.2}


def a_plan(release: str, model: str = "dense", **arguments: Any) -> Plan:
    """Plan for this machine's processor; without compiling, which is not the point."""
    asked = {**SMALL, "enforce_eager": True, **arguments}
    return planner.plan(TINY / model, gpu="CPU", vllm_version=release, **asked)


def check_exact(confirmation: Confirmation) -> None:
    """All that vLLM's code decides is equal, and it serves."""
    assert confirmation.measurement.is_started, confirmation.log_text[-3000:]
    given = confirmation.given
    assert given is not None
    measured = confirmation.measurement
    assert given.num_gpu_blocks == measured.num_gpu_blocks
    assert given.kv_cache_size_tokens == measured.kv_cache_size_tokens
    assert given.max_concurrency == measured.max_concurrency
    assert given.is_exact
    exact = [row for row in confirmation.rows if row.basis == "exact"]
    assert exact
    assert [row.name for row in exact if row.is_inside is False] == []
    # The CPU build's kernel of gated delta nets takes bfloat16 alone, and says so.
    is_told = any("CPU GDN attention requires BF16" in x for x in confirmation.notes)
    assert len(measured.generated_tokens) == 8 or is_told


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        ("dense", {"max_model_len": 1024}),
        ("windows", {"entrypoint": "llm", "env": {"VLLM_CPU_KVCACHE_SPACE": "1"}}),
        ("experts", {"max_num_seqs": 32, "max_num_batched_tokens": 4096}),
        # The kernel of processors with AMX takes no float32.
        ("latent", {"entrypoint": "llm", "attention_backend": "CPU_MLA"}),
        ("states", {}),
    ],
)
def test_blocks_tokens_and_concurrency_are_vllms(release, model, arguments) -> None:
    """Given the memory that vLLM measured, for each kind of cache."""
    check_exact(planner.confirm(a_plan(release, model, **arguments), is_stored=False))


def test_a_start_with_compilation_is_the_same(release) -> None:
    """The compiled model warms up with another peak; the arithmetic is the same."""
    check_exact(
        planner.confirm(a_plan(release, "dense", enforce_eager=None), is_stored=False)
    )


def test_a_start_that_must_fail_gives_the_predicted_error(release) -> None:
    """16 million tokens of 1.5 KiB in a fifth of this machine's memory do not fit."""
    plan = a_plan(
        release,
        max_model_len=16_000_000,
        max_num_seqs=8,
        env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"},
    )
    assert plan.error is not None
    assert plan.error.kind == "max_model_len"

    confirmation = planner.confirm(plan, is_stored=False)

    assert confirmation.measurement.is_started is False
    assert confirmation.outcome is Confirmed.CONFIRMED
    assert confirmation.given is not None
    assert confirmation.given.error in str(confirmation.measurement.error)
    assert confirmation.given.is_exact


@pytest.mark.parametrize("entrypoint", ["serve", "llm"])
@pytest.mark.parametrize(
    "stage",
    [StartStage.STARTING, StartStage.LOADING, StartStage.KV_CACHE, StartStage.READY],
)
def test_stop_within_a_second_leaves_no_process(release, stage, entrypoint) -> None:
    """By process group and by descent, at each stage.

    With a tenth of the memory: the system takes half a second to free 4 GiB of it.
    """
    reached = threading.Event()

    def listen(event: Event) -> None:
        if list(StartStage).index(event.stage) >= list(StartStage).index(stage):
            reached.set()

    run = Run(
        a_plan(release, entrypoint=entrypoint, gpu_memory_utilization=0.1),
        RunOptions(is_stored=False),
        listen,
    )
    answers: list[Confirmation] = []
    thread = threading.Thread(target=lambda: answers.append(run.execute()))
    thread.start()
    assert reached.wait(180)
    wait_until(lambda: bool(descendants(os.getpid())))
    below = descendants(os.getpid())
    shared = shared_memory(below)

    begin = time.monotonic()
    run.stop()
    wait_until(lambda: not any(map(is_alive, below)))
    seconds = time.monotonic() - begin
    thread.join(30)

    assert below
    assert seconds <= STOP_SECONDS
    assert [path for path in shared if path.exists()] == []
    assert answers[0].outcome in (Confirmed.OPEN, Confirmed.CONFIRMED)


KERNEL = """
import sys, planner
plan = planner.plan(sys.argv[1], gpu="CPU", vllm_version=sys.argv[2], dtype="float32",
                    gpu_memory_utilization=0.2, enforce_eager=True)
planner.confirm(plan, is_stored=False)
"""


def test_a_killed_kernel_leaves_no_process(release) -> None:
    """SIGKILL while the weights are loaded: nothing of vLLM goes on."""
    kernel = subprocess.Popen(
        [sys.executable, "-c", KERNEL, str(TINY / "dense"), release],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert kernel.stdout is not None
    for line in kernel.stdout:
        if StartStage.LOADING in line:
            break
    below = descendants(kernel.pid)
    assert below

    os.kill(kernel.pid, signal.SIGKILL)
    kernel.wait()
    kernel.stdout.close()

    wait_until(lambda: not any(map(is_alive, below)))


def test_a_load_beyond_the_predicted_concurrency_has_to_wait(release) -> None:
    """20 blocks of 128 tokens hold two requests of 1,024 tokens; six are sent.

    One block is vLLM's own: 19 are left, of which two requests take 16. The others
    wait, and all are answered in the end.
    """
    plan = a_plan(
        release,
        max_model_len=1024,
        max_num_batched_tokens=128,
        num_gpu_blocks_override=20,
    )

    load = planner.confirm(plan, load_requests=6, is_stored=False).measurement.load

    assert plan.max_concurrency == 20 / 8
    assert load is not None
    assert load.num_finished == 6
    assert load.prompt_tokens + load.output_tokens == 1024
    assert load.peak_running == 2
    assert load.peak_waiting > 0
    assert load.peak_kv_cache_usage == pytest.approx(16 / 19)


def test_the_command_line_says_the_same(release, capsys) -> None:
    """`planner confirm FOLDER ... --json`, with the release and device found out."""
    words = ["confirm", str(TINY / "dense"), "--dtype", "float32", "--json"]
    more = ["--gpu-memory-utilization", "0.2", "--enforce-eager", "--no-store"]

    status = main([*words, *more])

    told = json.loads(capsys.readouterr().out)
    assert status == 0
    assert told["measured"]["vllm_version"] == release
    assert told["given_memory"]["is_exact"]
