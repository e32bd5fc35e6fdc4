"""Measure what dry runs cost: seconds and memory of each kind, as a table in Markdown.

    PLANNER_VLLM_PYTHON=... python benchmarks/dry_run.py [KIND ...]

PLANNER_VLLM_PYTHON names the Python of an environment with vLLM's CUDA build; no GPU is
needed. Without names all kinds are measured, one after another, about ten minutes in
all. Memory is that of the largest process; a compiled start is measured twice, without
compiled code and with that of the first.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import planner  # noqa: E402
from planner.confirming import installation  # noqa: E402
from planner.confirming.measurement import Measurement  # noqa: E402
from planner.errors import PlannerError  # noqa: E402
from planner.units import GIB  # noqa: E402

GPU = "H100"
EAGER = {"enforce_eager": True}
_KIB = 1024


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of dry run: a model and engine arguments that stand for it."""

    name: str
    text: str
    model: str
    arguments: Mapping[str, Any] = field(default_factory=lambda: EAGER)


KINDS = (
    Kind(name="eager", text="eager", model="Qwen/Qwen3-8B"),
    Kind(name="compiled", text="compiled", model="Qwen/Qwen3-8B", arguments={}),
    Kind(
        name="tp8",
        text="8 tensor-parallel ranks in one process, eager",
        model="meta-llama/Llama-3.1-70B-Instruct",
        arguments={**EAGER, "tensor_parallel_size": 8},
    ),
    Kind(name="moe", text="experts, eager", model="Qwen/Qwen3-30B-A3B"),
    Kind(name="images", text="images, eager", model="Qwen/Qwen2.5-VL-7B-Instruct"),
)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print a row for each start."""
    wanted = list(sys.argv[1:] if words is None else words)
    known = {kind.name for kind in KINDS}
    if unknown := set(wanted) - known:
        print(f"no kind of dry run: {unknown}; there are {', '.join(sorted(known))}")
        return 2
    found = installation.find()
    print(f"vLLM {found.version}, {os.cpu_count()} cores, {GPU}\n")
    print("| dry run | model | seconds | memory |\n| --- | --- | --- | --- |")
    for kind in KINDS:
        if kind.name in wanted or not wanted:
            print("\n".join(_rows(kind)), flush=True)
    return 0


def _rows(kind: Kind) -> Iterator[str]:
    # In a process of its own: the system counts the memory of ended processes together.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        seconds, largest, refused = pool.submit(_measure, kind).result()
    if refused:
        yield f"| {kind.text} | {kind.model} | not started: {refused} | |"
    for cache, time in seconds.items():
        text = f"{kind.text}{cache}"
        yield f"| {text} | {kind.model} | {time:.0f} | {largest / GIB:.1f} GiB |"


def _measure(kind: Kind) -> tuple[dict[str, float], int, str | None]:
    """Return seconds by compile cache, the largest process's bytes, and a refusal."""
    is_compiled = not kind.arguments.get("enforce_eager")
    try:
        run = planner.dry_run(
            kind.model,
            GPU,
            compile_cache="both" if is_compiled else "cold",
            listener=lambda _event: None,
            max_model_len=8192,
            **kind.arguments,
        )
    except PlannerError as error:
        return {}, 0, str(error)
    starts: dict[str, Measurement | None] = {"": run.measurement}
    if is_compiled:
        starts = {", cold": run.cold, ", warm": run.measurement}
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _KIB
    seconds = {name: one.seconds for name, one in starts.items() if one is not None}
    return seconds, largest, run.refused


if __name__ == "__main__":
    sys.exit(main())
