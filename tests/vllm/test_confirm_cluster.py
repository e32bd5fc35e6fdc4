"""Plans confirmed by vLLM's CPU build through Ray, one of them killed on the way."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import planner
from planner.confirming.options import ClusterEvent, Event
from planner.confirming.stages import StartStage
from tests.ray_clusters import cluster
from tests.starts import descendants
from tests.vllm.conftest import TINY


class Killer:
    """A listener that kills the worker of the first start, once, while vLLM loads."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.killed: list[int] = []

    def __call__(self, event: Event) -> None:
        assert isinstance(event, ClusterEvent)
        self.notes += [event.note] if event.note else []
        if event.stage.position >= StartStage.STARTING.position and not self.killed:
            self.killed = [pid for pid in descendants(os.getpid()) if _confirms(pid)]
            for pid in self.killed:
                os.kill(pid, signal.SIGKILL)


def _confirms(pid: int) -> bool:
    return b"ray::confirm" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_two_starts_of_which_one_is_killed(release, tmp_path) -> None:
    """Both are confirmed: a CPU start takes the whole machine, so one by one."""
    plans = [
        planner.plan(
            TINY / "dense",
            gpu="CPU",
            vllm_version=release,
            dtype="float32",
            gpu_memory_utilization=0.2,
            enforce_eager=True,
            max_model_len=length,
        )
        for length in (512, 1024)
    ]
    file, killer = tmp_path / "results.jsonl", Killer()

    with cluster(num_cpus=2) as made:
        sweep = planner.confirm_many(
            plans, file, address=made.address, listener=killer, is_stored=False
        )

    assert len(killer.killed) == 1
    assert killer.notes == ["It is started again: its worker process died."]
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted(row["asked"]["arguments"]["max_model_len"] for row in rows) == [
        512,
        1024,
    ]
    for row in sweep:
        assert row.problem == ""
        assert row.figures["measured"]["is_started"], row.figures
        assert row.figures["given_memory"]["is_exact"]
