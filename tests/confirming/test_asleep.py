"""A confirmation on a machine that sleeps meanwhile, or whose processes are stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planner.confirming import awake
from planner.confirming.awake import Awake
from tests.starts import STAND_IN, descendants, wait_until

PAUSE_SECONDS = 4
ROOT = Path(__file__).parents[2]
CONFIRMS = """
import json, sys
from dataclasses import replace
from pathlib import Path
from planner.confirming import awake, devices, run
from planner.engine.devices.attached import processor_gpu
from planner.units import GIB
from tests.starts import a_plan

awake.LATE_SECONDS = 2.0
here = replace(processor_gpu(), total_memory_bytes=64 * GIB, free_memory_bytes=64 * GIB)
devices.processor_gpu = lambda: here
kept, rates = [], []
run.store = lambda plan, measured, moved_bytes: kept.append(measured) or kept_as
kept_as = type("Kept", (), {"record": type("Record", (), {"id": "r"})})
run.keep_speed = lambda plan, rate: rates.append(rate)
options = run.RunOptions(load_requests=2, time_limit_seconds=float(sys.argv[2]))
plan = a_plan(Path(sys.argv[1]))
done = run.Run(plan, options, lambda event: print(event.stage, flush=True)).execute()
print(json.dumps({
    "outcome": done.outcome.name,
    "notes": done.notes,
    "kept": [one.available_kv_cache_bytes > 0 for one in kept],
    "rates": len(rates),
}))
"""


def confirmed_asleep(folder: Path, limit_seconds: float, **environment: str) -> dict:
    """Confirm in a process that is stopped with all that it started, for a while."""
    started = subprocess.Popen(
        [sys.executable, "-c", CONFIRMS, str(folder), str(limit_seconds)],
        env=os.environ | {"PYTHONPATH": f"{STAND_IN}:{ROOT}"} | environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: len(descendants(started.pid)) >= 2 or bool(started.poll()))
    family = [started.pid, *descendants(started.pid)]
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(PAUSE_SECONDS)
    for pid in reversed(family):
        os.kill(pid, signal.SIGCONT)
    out, _ = started.communicate()
    return json.loads(out.splitlines()[-1])


@pytest.mark.server
def test_memory_is_kept_and_no_speed(tiny_folder) -> None:
    """vLLM measures its memory as before; what the load probe took is not known."""
    found = confirmed_asleep(tiny_folder, 600)

    assert found["outcome"] != "OPEN"
    assert found["kept"] == [True]
    assert found["rates"] == 0
    assert [note for note in found["notes"] if "slept" in note]


@pytest.mark.server
def test_a_time_limit_that_passed_meanwhile_ends_it_and_keeps_nothing(
    tiny_folder,
) -> None:
    """It says so, with what to do; no figure is recorded."""
    hangs = json.dumps({"hang": "Starting to load"})
    found = confirmed_asleep(tiny_folder, PAUSE_SECONDS / 2, FAKE_VLLM=hangs)

    assert found["outcome"] == "OPEN"
    assert (found["kept"], found["rates"]) == ([], 0)
    assert [note for note in found["notes"] if "time limit" in note]


@pytest.mark.parametrize(("late", "missed"), [(4.0, 0.0), (3_600.0, 3_600.0)])
def test_a_thread_that_waits_for_a_moment_is_no_sleep(
    monkeypatch, late, missed
) -> None:
    """A busy machine; and a lid that was closed for an hour."""
    moments = [0.0, 0.5, 0.5 + late]
    monkeypatch.setattr(
        awake, "_now", lambda: moments.pop(0) if moments[1:] else moments[0]
    )
    monkeypatch.setattr(awake, "_TICK_SECONDS", 0.01)
    with Awake() as watching:
        wait_until(lambda: not moments[1:])

    assert watching.missed_seconds == missed
