"""Measure what dry runs cost: seconds and memory of each kind, as a table in Markdown.

    PLANNER_VLLM_PYTHON=... python benchmarks/dry_run.py [KIND ...]

PLANNER_VLLM_PYTHON names the Python of an environment with vLLM's CUDA build; no GPU is
needed. Without names all kinds are measured, one after another, about ten minutes in
all. Memory is that of the largest process.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from planner.confirming import installation  # noqa: E402
from planner.engine.gpu import GPU  # noqa: E402
from planner.errors import PlannerError  # noqa: E402
from planner.units import GIB  # noqa: E402
from tools.dry_runs import dry_start  # noqa: E402

EAGER = {"enforce_eager": True}
_KIB = 1024


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of dry run: a model, a GPU and engine arguments that stand for it."""

    name: str
    text: str
    model: str
    gpu: str = "H100"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cache: str = ""
    """Name of its compile cache; kinds of one name share it."""


KINDS = (
    Kind(name="eager", text="eager", model="Qwen/Qwen3-8B", arguments=EAGER),
    Kind(name="cold", text="compiled, cold", model="Qwen/Qwen3-8B", cache="compiled"),
    Kind(name="warm", text="compiled, warm", model="Qwen/Qwen3-8B", cache="compiled"),
    Kind(
        name="tp8",
        text="8 tensor-parallel ranks in one process, eager",
        model="meta-llama/Llama-3.3-70B-Instruct",
        arguments={**EAGER, "tensor_parallel_size": 8},
    ),
    Kind(
        name="moe",
        text="experts, eager",
        model="Qwen/Qwen3-30B-A3B",
        arguments=EAGER,
    ),
    Kind(
        name="images",
        text="images and videos, eager",
        model="Qwen/Qwen2.5-VL-7B-Instruct",
        arguments=EAGER,
    ),
)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print a row for each kind."""
    wanted = list(sys.argv[1:] if words is None else words)
    known = {kind.name for kind in KINDS}
    if unknown := set(wanted) - known:
        print(f"no kind of dry run: {unknown}; there are {', '.join(sorted(known))}")
        return 2
    found = installation.find()
    print(f"vLLM {found.version}, {os.cpu_count()} cores\n")
    print("| dry run | model | seconds | memory |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="dry-run-") as name:
        for kind in KINDS:
            if kind.name in wanted or not wanted:
                print(_row(kind, found.python, Path(name)), flush=True)
    return 0


def _row(kind: Kind, python: str, folder: Path) -> str:
    # In a process of its own: the system counts the memory of ended processes together.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        answer, largest = pool.submit(_measure, kind, python, folder).result()
    begin = f"| {kind.text} | {kind.model} on {kind.gpu} |"
    if not answer["started"]:
        return f"{begin} not started: {answer['refused']} | |"
    return f"{begin} {answer['seconds']:.0f} | {largest / GIB:.1f} GiB |"


def _measure(kind: Kind, python: str, folder: Path) -> tuple[dict[str, Any], int]:
    """Return the run's answer, and the bytes of its largest process."""
    try:
        answer = dry_start(
            kind.model,
            gpu=GPU.named(kind.gpu),
            vllm_python=python,
            cache=folder / (kind.cache or kind.name),
            max_model_len=8192,
            **kind.arguments,
        )
    except PlannerError as error:
        answer = {"started": False, "refused": str(error)}
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _KIB
    return answer, largest


if __name__ == "__main__":
    sys.exit(main())
