"""The machine that the documentation's samples run on: what is not here stands in.

An H100 is attached and vLLM is installed, a start measures what was planned, a dry run
reports what a real one did, a Ray cluster of one machine answers, and files that
commands read lie in the folder.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

import planner
from planner.confirming import installation
from planner.confirming.confirmation import Confirmation
from planner.confirming.differences import confirmation_of
from planner.confirming.dry import false_gpu
from planner.confirming.run import Run
from planner.confirming.start import StartedProcess
from planner.engine.releases import NEWEST
from planner.ray.bundles import Node, NodeType
from planner.ray.live import Cluster
from tests import confirmations
from tests.conftest import ROOT
from tests.fake_nvml import Board, FakeDriver
from tests.starts import LOG_OF_A_GPU, TINY

DRY_RUN = ROOT / "tests" / "data" / "dry_runs" / "Qwen3-0.6B-L4.txt"
"""What a real dry run wrote: `Qwen/Qwen3-0.6B`, L4, 4,096 tokens, eager."""
DRY_RUN_SECONDS = 43.0

CLUSTER = Cluster(
    address="10.0.0.7:6379",
    ray_version="2.60.0",
    nodes=(Node(name="a", cpus=16, gpus=8, accelerator_type="H100"),),
    autoscaler_node_types=(
        NodeType(name="h100x8", cpus=16, gpus=8, accelerator_type="H100"),
    ),
    is_autoscaled=True,
)


def set_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-ins into place, and go to the folder."""
    monkeypatch.chdir(folder)
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L4", max_model_len=8192)
    for name in ("plan.yaml", "today.yaml", "tomorrow.yaml"):
        Path(name).write_text(planner.export.yaml(plan), encoding="utf-8")
    Path("vllm.log").write_text(LOG_OF_A_GPU, encoding="utf-8")
    Path("MODEL").mkdir()
    Path("MODEL", "config.json").write_text(json.dumps(TINY), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO(LOG_OF_A_GPU))
    monkeypatch.setitem(sys.modules, "pynvml", FakeDriver([Board()]).module())
    monkeypatch.setattr(installation, "find", _find)
    monkeypatch.setattr(Run, "execute", _execute)
    monkeypatch.setattr(false_gpu, "built_for", lambda _found: folder)
    monkeypatch.setattr(StartedProcess, "run", _replay)
    monkeypatch.setattr(planner.ray, "cluster", lambda _address, **_: CLUSTER)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def _find(python: str | None = None) -> installation.Installation:
    return installation.Installation(
        python=python or "python", package="vllm", version=NEWEST, is_cpu_build=False
    )


def _execute(run: Any) -> Confirmation:
    return confirmation_of(run.plan, confirmations.measurement(run.plan), log_text="")


def _replay(started: StartedProcess, *_: object, **__: object) -> None:
    """Take the lines of a recorded dry run as those of the process."""
    for line in DRY_RUN.read_text(encoding="utf-8").splitlines():
        started._take(line)
    started.ready_seconds = DRY_RUN_SECONDS
