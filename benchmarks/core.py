"""How long `import planner`, plans, commands and a refusal take, against limits.

    make bench

Each import runs in an interpreter of its own, whose own start is not counted.
The plan is warm: the model has been planned before, as when a slider moves, but every
call has another `max_model_len`, so no answer can be a remembered one. The forecast of
speed is too, of a plan with another prompt each time. A command is cold: a process of
its own, whose processor time, the interpreter's start included, is the least of its
runs, because what else a machine does adds to it. The exit status is 1 when a figure is
over its limit.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import planner
from planner.models import catalogue

IMPORTS = 20
COMMANDS = 20
PLANS = 300
MODEL = "meta-llama/Llama-3.1-70B-Instruct"
NUM_LAYERS = 80
HYBRID = "deepseek-ai/DeepSeek-V4-Pro"
"""The bundled model whose plan takes longest: seven kinds of cache in packed groups."""
LARGE_CONFIG_BYTES = 3_000_000

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
            f"{self.name:<52} {self.seconds * 1000:8.3f} ms"
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


def command_seconds(words: tuple[str, ...], env: dict[str, str]) -> float:
    """Run a command of the planner and return the processor time of its process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "planner", *words],
        check=True,
        stdout=subprocess.DEVNULL,
        env=env,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user = after.ru_utime - before.ru_utime
    return user + after.ru_stime - before.ru_stime


def command_figure(limit_seconds: float, *words: str) -> Figure:
    """Return the least processor time of a command; one run writes the byte code."""
    with TemporaryDirectory() as folder:
        env = os.environ | {"PYTHONPYCACHEPREFIX": folder}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        command_seconds(words, env)
        least = min(command_seconds(words, env) for _ in range(COMMANDS))
    return Figure(
        name=f"planner {' '.join(words)} (least of {COMMANDS})",
        seconds=least,
        limit_seconds=limit_seconds,
    )


def plan(model: str, max_model_len: int) -> planner.Plan:
    """Plan a model that is measured."""
    return planner.plan(
        model, gpu="H200", tensor_parallel_size=4, max_model_len=max_model_len
    )


def plan_seconds(model: str, max_model_len: int) -> float:
    """Plan a model and return what the plan took."""
    start = time.perf_counter()
    plan(model, max_model_len)
    return time.perf_counter() - start


def plan_figure(model: str, name: str, limit_seconds: float) -> Figure:
    """Return the median of a model's plans, each for another context length."""
    plan(model, 8192)
    lengths = range(8192, 8192 + PLANS)
    return Figure(
        name=f"planner.plan, {name} (median of {PLANS})",
        seconds=median(plan_seconds(model, length) for length in lengths),
        limit_seconds=limit_seconds,
    )


def dense_figure() -> Figure:
    """Return the time of a model whose layers are all alike."""
    layers = sum(g["num_layers"] for g in plan(MODEL, 8192).to_dict()["kv_groups"])
    if layers != NUM_LAYERS:
        raise SystemExit(f"{MODEL} has {layers} layers, not {NUM_LAYERS}.")
    return plan_figure(MODEL, f"{layers} layers", 0.001)


def hybrid_figure() -> Figure:
    """Return the time of the largest hybrid, quantised."""
    return plan_figure(HYBRID, "largest hybrid", 0.002)


def forecast_seconds(planned: planner.Plan, prompt_tokens: int) -> float:
    """Forecast the speed of a plan, and return what that took."""
    load = planner.Load(prompt_tokens=prompt_tokens, output_tokens=300, requests=40)
    start = time.perf_counter()
    planner.speed_forecast(planned, load)
    return time.perf_counter() - start


def forecast_figure() -> Figure:
    """Return the median of forecasts of a plan, each for another prompt."""
    planned = plan(MODEL, 8192)
    forecast_seconds(planned, 1000)
    return Figure(
        name=f"planner.speed_forecast (median of {PLANS})",
        seconds=median(forecast_seconds(planned, 1001 + n) for n in range(PLANS)),
        limit_seconds=0.001,
    )


def refusal_seconds(path: Path) -> float:
    """Return how long it takes to name the field of a config that is wrong.

    Raises:
        SystemExit: when the field is not named.
    """
    start = time.perf_counter()
    try:
        planner.plan(path)
    except planner.PlannerError as error:
        if "num_hidden_layers" in str(error):
            return time.perf_counter() - start
    raise SystemExit("a negative num_hidden_layers was not refused by name")


def bad_config_figure() -> Figure:
    """Return the slowest refusal of a config of 3 MB with a negative layer count."""
    files = catalogue.find(MODEL)
    if files is None:
        raise SystemExit(f"{MODEL} is not bundled.")
    padding = {f"foreign_{i}": "x" * 100 for i in range(LARGE_CONFIG_BYTES // 100)}
    config = {**files.config, **padding, "num_hidden_layers": -1}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        seconds = []
        for attempt in range(10):  # another file each time, so that none is remembered
            path.write_text(json.dumps(config | {"attempt": attempt}))
            seconds.append(refusal_seconds(path))
    return Figure(
        name="a wrong config of 3 MB is refused (slowest of 10)",
        seconds=max(seconds),
        limit_seconds=0.100,
    )


def main() -> int:
    """Measure, print, and say with the exit status whether every limit is kept."""
    os.environ["PLANNER_CALIBRATION"] = "off"  # plans as where nothing was measured
    figures = [
        import_figure(),
        command_figure(0.150, "plan", "Qwen/Qwen3-8B", "--gpu", "H100"),
        command_figure(0.080, "--help"),
        dense_figure(),
        hybrid_figure(),
        forecast_figure(),
        bad_config_figure(),
    ]
    for figure in figures:
        print(figure)
    return 0 if all(figure.is_kept for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
