"""The patch of docs/upstream.md for vLLM, started on a GPU that is not there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.confirming import installation
from planner.units import MIB
from tests.conftest import ROOT

RELEASE = "0.33.0"
PATCH = ROOT / f"docs/upstream/startup-memory-{RELEASE}.patch"
START: dict[str, Any] = {
    "gpu": "H100",
    "max_model_len": 4096,
    "max_num_seqs": 8,
    "compilation_config": {
        "mode": 0,
        "cudagraph_mode": "FULL_DECODE_ONLY",
        "cudagraph_capture_sizes": [1, 2, 4, 8],
    },
}
"""Graphs are captured, and nothing is compiled."""
BUFFER = 150 * MIB
"""What vLLM keeps free in its hint: `redundancy_buffer_memory`."""


def patched(package: Path, into: Path) -> None:
    """Put a copy of vLLM into a folder: links, but for the files of the patch."""
    text = PATCH.read_text(encoding="utf-8")
    files = [Path(name) for name in re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE)]
    folders = {parent for file in files for parent in file.parents} - {Path()}
    for folder in sorted(folders, key=lambda one: len(one.parts)):
        (into / folder).mkdir()
        for entry in (package.parent / folder).iterdir():
            name = folder / entry.name
            if name in files:
                shutil.copy(entry, into / name)
            elif name not in folders:
                (into / name).symlink_to(entry)
    subprocess.run(["patch", "-p1", "-s", "-i", PATCH], cwd=into, check=True)


def hint(log: str) -> int:
    """Return the KV cache that vLLM's message advises for the same budget."""
    return int(re.findall(r"--kv-cache-memory=(\d+)", log)[0])


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[planner.DryRun, planner.DryRun]:
    """Start it without the patch, and with it."""
    python = installation.find().python
    find = "import importlib.util as u; print(u.find_spec('vllm').origin)"
    told = subprocess.run([python, "-c", find], capture_output=True, text=True)
    overlay = tmp_path_factory.mktemp("patched")
    patched(Path(told.stdout.strip()).parent, overlay)

    def start() -> planner.DryRun:
        run = planner.dry_run("Qwen/Qwen3-0.6B", listener=lambda _event: None, **START)
        assert run.started, run.refused
        return run

    with pytest.MonkeyPatch.context() as patch:
        before = start()
        patch.setenv("PYTHONPATH", str(overlay))
        return before, start()


def test_one_line_of_json_tells_a_workers_memory(runs, release) -> None:
    """Whole bytes that add up to the budget; those that the planner reads inside it."""
    assert release == RELEASE
    before, after = runs
    assert "Startup memory: " not in before.log_text
    (line,) = re.findall(r"Startup memory: (\{.*\})", after.log_text)
    told = json.loads(line)
    (worker,) = after.ranks

    assert told["requested"] == (
        told["consumed"]
        + told["peak_activation"]
        + told["cudagraphs_charged"]
        + told["kv_cache"]
    )
    assert (
        worker.total_memory_bytes,
        worker.weights_bytes,
        worker.consumed_bytes,
        worker.peak_activation_bytes,
        worker.cudagraph_estimate_bytes,
        worker.available_kv_cache_bytes,
    ) == (
        told["total"],
        told["weights"],
        told["consumed"],
        told["peak_activation"],
        told["cudagraphs_estimated"],
        told["kv_cache"],
    )


def test_the_hint_counts_the_graphs_once(runs) -> None:
    """What it gave away was the estimate, which the capture takes the place of."""
    before, after = runs
    (worker,) = after.ranks
    told = json.loads(re.findall(r"Startup memory: (\{.*\})", after.log_text)[0])

    assert worker.cudagraph_estimate_bytes == hint(after.log_text) - hint(
        before.log_text
    )
    assert hint(after.log_text) == (
        told["requested"]
        - told["consumed"]
        - told["peak_activation"]
        - told["cudagraphs_captured"]
        - BUFFER
    )


def test_nothing_else_changes(runs) -> None:
    """The same account, and the same KV cache."""
    before, after = runs

    assert before.ranks == after.ranks
