"""What `vllm bench serve` measured: its result file, or what it printed.

Source: vLLM 0.33.0 `benchmarks/serve.py` benchmark, and the same in 0.10.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from planner.errors import PlannerError
from planner.planning.load import Load
from planner.values import frozen

_PRINTED = {
    "completed": "Successful requests",
    "max_concurrency": "Maximum request concurrency",
    "duration": "Benchmark duration (s)",
    "total_input_tokens": "Total input tokens",
    "total_output_tokens": "Total generated tokens",
    "output_throughput": "Output token throughput (tok/s)",
    "median_ttft_ms": "Median TTFT (ms)",
    "mean_ttft_ms": "Mean TTFT (ms)",
    "median_tpot_ms": "Median TPOT (ms)",
    "mean_tpot_ms": "Mean TPOT (ms)",
}
"""Keys of the result file, and what is printed for each."""
_NEEDED = ("completed", "duration", "total_input_tokens", "total_output_tokens")
_LINE = re.compile(r"^[ \t]*([^:\n]+?):[ \t]+([0-9.]+)[ \t]*$", re.MULTILINE)


@frozen
class MeasuredSpeed:
    """Times and rates that were measured under a load; None: not measured."""

    load: Load
    next_token_seconds: float | None = None
    first_token_seconds: float | None = None
    total_tokens_per_second: float | None = None

    def figures(self) -> dict[str, float]:
        """Return what was measured, by the names of the forecast's figures."""
        found = {
            "next_token": self.next_token_seconds,
            "first_token": self.first_token_seconds,
            "total": self.total_tokens_per_second,
        }
        return {name: value for name, value in found.items() if value}


def read_bench(text: str) -> MeasuredSpeed:
    """Read the result of `vllm bench serve`, as a file or as printed.

    Medians count where there are any. Requests at once are the maximum concurrency, or
    without one the mean number in the benchmark (Little's law).

    Raises:
        PlannerError: where the text is neither, naming what is missing.
    """
    found = _figures(text)
    missing = [name for name in _NEEDED if not found.get(name)]
    if missing:
        names = ", ".join(f"{name} ({_PRINTED[name]!r})" for name in missing)
        raise PlannerError(
            f"This is not a result of `vllm bench serve`: it lacks {names}. Give the "
            "file of --result-filename, or all that was printed."
        )
    completed = found["completed"]
    output = max(1, round(found["total_output_tokens"] / completed))
    token = _milliseconds(found, "median_tpot_ms", "mean_tpot_ms")
    first = _milliseconds(found, "median_ttft_ms", "mean_ttft_ms")
    at_once = found.get("max_concurrency") or (
        completed / found["duration"] * ((first or 0) + (token or 0) * (output - 1))
    )
    load = Load(
        prompt_tokens=max(1, round(found["total_input_tokens"] / completed)),
        output_tokens=output,
        requests=max(1, round(min(at_once, completed))),
    )
    return MeasuredSpeed(
        load=load,
        next_token_seconds=token,
        first_token_seconds=first,
        total_tokens_per_second=found["total_output_tokens"] / found["duration"],
    )


def _figures(text: str) -> Mapping[str, float]:
    if text.lstrip().startswith("{"):
        return _of_file(text)
    printed = {name: float(value) for name, value in _LINE.findall(text) if _is(value)}
    return {key: printed[name] for key, name in _PRINTED.items() if name in printed}


def _is(value: str) -> bool:
    return value.count(".") <= 1 and value != "."


def _of_file(text: str) -> Mapping[str, float]:
    """Return the numbers of a result file; of appended results the last."""
    found: Any = None
    for line in (text, *reversed(text.strip().splitlines())):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        break
    if not isinstance(found, dict):
        return {}
    return {
        key: float(value)
        for key in _PRINTED
        if isinstance(value := found.get(key), int | float)
        and not isinstance(value, bool)
    }


def _milliseconds(found: Mapping[str, float], *names: str) -> float | None:
    value = next((found[name] for name in names if found.get(name)), None)
    return None if value is None else value / 1000
