"""How long `import planner` and one plan take, against their limits.

    make bench

Each import runs in an interpreter of its own, whose own start is not counted.
The plan is warm: the model has been planned before, as when a slider moves, but every
call has another `max_model_len`, so no answer can be a remembered one. The exit status
is 1 when a figure is over its limit.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median

import planner

IMPORTS = 20
PLANS = 300
MODEL = "meta-llama/Llama-3.1-70B-Instruct"
NUM_LAYERS = 80

TIMED_IMPORT = """
import time
start = time.perf_counter()
import planner
print(time.perf_counter() - start)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured time and the limit it has to keep."""

    name: str
    seconds: float
    limit_seconds: float

    @property
    def is_kept(self) -> bool:
        """Whether the figure is under its limit."""
        return self.seconds < self.limit_seconds

    def __str__(self) -> str:
        """Say name, time, limit and outcome in one line."""
        outcome = "ok" if self.is_kept else "OVER"
        return (
            f"{self.name:<44} {self.seconds * 1000:8.3f} ms"
            f"   limit {self.limit_seconds * 1000:g} ms   {outcome}"
        )


def fresh_import_seconds() -> float:
    """Import the planner in a new interpreter and return what the import took."""
    done = subprocess.run(
        [sys.executable, "-c", TIMED_IMPORT],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def import_figure() -> Figure:
    """Return the median of the imports; one before them writes the byte code."""
    fresh_import_seconds()
    return Figure(
        name=f"import planner (median of {IMPORTS})",
        seconds=median(fresh_import_seconds() for _ in range(IMPORTS)),
        limit_seconds=0.080,
    )


def plan(max_model_len: int) -> planner.Plan:
    """Plan the model that is measured."""
    return planner.plan(
        MODEL, gpu="H100", tensor_parallel_size=4, max_model_len=max_model_len
    )


def plan_seconds(max_model_len: int) -> float:
    """Plan the model and return what the plan took."""
    start = time.perf_counter()
    plan(max_model_len)
    return time.perf_counter() - start


def plan_figure() -> Figure:
    """Return the median of the plans, each for another context length."""
    layers = sum(group["num_layers"] for group in plan(8192).to_dict()["kv_groups"])
    if layers != NUM_LAYERS:
        raise SystemExit(f"{MODEL} has {layers} layers, not {NUM_LAYERS}.")
    lengths = range(8192, 8192 + PLANS)
    return Figure(
        name=f"planner.plan, {layers} layers (median of {PLANS})",
        seconds=median(map(plan_seconds, lengths)),
        limit_seconds=0.001,
    )


def main() -> int:
    """Measure, print, and say with the exit status whether every limit is kept."""
    figures = [import_figure(), plan_figure()]
    for figure in figures:
        print(figure)
    return 0 if all(figure.is_kept for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
