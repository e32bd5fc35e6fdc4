"""Start vLLM for many cases on this machine's GPU, and keep what it measures.

    python tools/measure.py CASES.jsonl CONFIGS_DIR OUT_DIR [--python PYTHON]

A case is a line such as {"id": "llama-8b", "config": "org--name", "args": {...}} with
vLLM's engine arguments. OUT_DIR gets `results.jsonl`, from which an interrupted call
goes on, and `measured.jsonl`: rows for `planner/data/measured/`, in the form of the
published starts, so that `make accuracy` reports them too. Dummy weights; the plans
ask for the release that is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import planner  # noqa: E402
from planner.confirming import installation  # noqa: E402
from planner.confirming.many_file import SweepRow  # noqa: E402
from planner.engine.gpu import CPU  # noqa: E402
from planner.units import GIB  # noqa: E402


def main(words: list[str] | None = None) -> int:
    """Start every case, write both files."""
    options = _options(words)
    # The first start of a model must not colour the estimates of the others.
    os.environ["PLANNER_CALIBRATION"] = "off"
    found = installation.find(options.python)
    gpu = CPU if found.is_cpu_build else "attached"
    cases = [json.loads(line) for line in options.cases.read_text().splitlines()]
    plans = [
        planner.plan(
            options.configs / pathlib.Path(case["config"]).name,
            gpu=gpu,
            vllm_version=found.version,
            entrypoint=case.get("entrypoint", "llm"),
            **case["args"],
        )
        for case in cases
    ]
    sweep = planner.confirm_many(
        plans,
        options.out / "results.jsonl",
        logs=options.out / "logs",
        python=options.python,
        is_stored=False,
    )
    rows = list(records(cases, sweep.rows))
    text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
    (options.out / "measured.jsonl").write_text(text, encoding="utf-8")
    print(sweep)
    return 0 if rows else 1


def records(
    cases: list[dict[str, Any]], rows: tuple[SweepRow, ...]
) -> Iterator[dict[str, Any]]:
    """Yield a row of measured data for each start, in the form of published ones."""
    for case, row in zip(cases, rows, strict=True):
        if row.figures:
            yield record(case, row)


def record(case: Mapping[str, Any], row: SweepRow) -> dict[str, Any]:
    """Return one start; sizes in GiB, not rounded where a worker told them."""
    measured = row.figures["measured"]
    total = row.asked["total_memory_bytes"]
    return {
        "id": f"own-{case['id']}",
        "source": "started by planner.confirm_many with random weights",
        "date": measured["date"],
        "driver_version": measured["driver_version"],
        "device_name": measured["device_name"],
        "gpu": row.asked["gpu"],
        "gpu_count": row.figures["plan"]["gpus_total"],
        "total_gpu_gib": _total_bytes(measured, total) / GIB,
        "config": pathlib.Path(case["config"]).name,
        "model": case["config"],
        "model_certain": True,
        "args": dict(case["args"]),
        "args_complete": True,
        "entrypoint": row.asked["entrypoint"],
        "engine": "V1",
        "vllm_version": measured["vllm_version"],
        "scored": bool(measured["is_started"]),
        "error": measured["error"],
        "measured": _figures(measured),
        "notes": "",
        "quote": "",
    }


def _total_bytes(measured: Mapping[str, Any], planned_bytes: int) -> int:
    totals = [worker["total_memory_bytes"] for worker in measured["workers"]]
    return next((total for total in totals if total), planned_bytes)


def _figures(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the log's figures, with the workers' own where they tell more digits."""
    exact = {
        "weights_gib": _gib(measured["weights_bytes"]),
        "available_kv_gib": _gib(measured["available_kv_cache_bytes"]),
        "kv_tokens": measured["kv_cache_size_tokens"],
        "num_gpu_blocks": measured["num_gpu_blocks"],
        "max_concurrency": measured["max_concurrency"],
        "max_concurrency_len": measured["engine"]["max_model_len"],
        "started": measured["is_started"],
    }
    known = {name: value for name, value in exact.items() if value is not None}
    return {**measured["log"], **known}


def _gib(size_bytes: int | None) -> float | None:
    return None if size_bytes is None else size_bytes / GIB


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("configs", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--python", help="of the environment that holds vLLM")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
