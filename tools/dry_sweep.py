"""Let vLLM itself answer many cases without a GPU, and keep them as test data.

usage: PLANNER_VLLM_PYTHON=... python -m tools.dry_sweep [--cases FILE] [--out FILE]
           [--gpu NAME] [--limit N] [--seconds N]

A case is a line of JSON: {"model": ..., "gpu": ..., "args": {...}}. A model is a name,
or that of a folder of tests/data/configs. Without a file: a model of each architecture
of the catalogue, then the others, on as many GPUs as they need. Cases that the output
holds are left out, so that a sweep can be continued.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from planner.confirming import installation
from planner.confirming.beside_vllm.offline import MARK
from planner.confirming.dry import false_gpu
from planner.confirming.dry.prepared import Prepared, estimate_of, launch
from planner.confirming.figures import worker_from
from planner.confirming.from_log import measurement_of
from planner.engine.devices import gpu_named
from planner.engine.settings import settings_from
from planner.errors import PlannerError
from planner.models.catalogue import entries
from planner.planning.inputs import Inputs
from planner.surroundings import cache_folder
from tools.configs import named

RANKS = (1, 2, 4, 8)
OUT = Path("tests/data/dry")
NO_FIGURE = "no figure"
"""In place of a refusal, where a start wrote neither figures nor an error."""
_FOLDER = re.compile(r"/(?:[\w.-]+/)+models/[0-9a-f]{16}/[\w.-]*\w")
"""Where a dry run keeps the files of a model, which vLLM takes for its name."""
USUAL = {"max_model_len": 4096, "enforce_eager": True}


def main() -> None:
    """Run the cases and write a row for each."""
    options = _options()
    found = installation.find()
    out = options.out or OUT / f"vllm-{found.version}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    done = {_key(row) for row in rows(out)}
    given = rows(options.cases) if options.cases else cases(options.gpu, found.version)
    wanted = [case for case in given if _key(case) not in done][: options.limit]
    with out.open("a", encoding="utf-8") as file:
        for _gpu, group in groupby(wanted, key=lambda case: str(case["gpu"])):
            for row in swept(list(group), found, options.seconds):
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(row["model"], row["args"], row.get("peak", row))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--gpu", default="H200")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--seconds", type=float, default=300.0)
    return parser.parse_args()


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file; none where there is no file."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _key(case: dict[str, Any]) -> str:
    return json.dumps([case[name] for name in ("model", "gpu", "args")], sort_keys=True)


def cases(gpu: str, version: str) -> Iterator[dict[str, Any]]:
    """Yield a case for each model of the catalogue, one of each architecture first."""
    seen: set[str] = set()
    later: list[dict[str, Any]] = []
    for name in sorted(entry.name for entry in entries()):
        case, architecture = _case(name, gpu, version)
        if case is None:
            continue
        if architecture in seen:
            later.append(case)
            continue
        seen.add(architecture)
        yield case
    yield from later


def _case(name: str, gpu: str, version: str) -> tuple[dict[str, Any] | None, str]:
    for ranks in RANKS:
        args: dict[str, Any] = dict(USUAL)
        if ranks > 1:
            args["tensor_parallel_size"] = ranks
        inputs = Inputs(model=name, gpu=gpu, vllm_version=version, engine_args=args)
        try:
            plan = inputs.plan()
        except PlannerError:
            return None, ""
        if plan.fits and plan.model is not None:
            case = {"model": name, "gpu": gpu, "args": args}
            return case, f"{plan.model.architecture} {plan.model.quantization}"
    return None, ""


def swept(  # noqa: PLR0913 - the parts of a sweep
    group: list[dict[str, Any]],
    found: installation.Installation,
    seconds: float,
    worker: str = "dry_worker.py",
    read: Callable[[Iterable[str]], dict[str, Any]] | None = None,
    caches: Path | None = None,
    *,
    is_watched: bool = False,
) -> Iterator[dict[str, Any]]:
    """Run cases of one GPU in one process of vLLM's Python; yield their rows.

    `read` makes a row of what a case wrote; None: `row_of`. `caches`: the folder of
    compiled models; None: that of all dry runs. `is_watched`: what they write says
    which lines of vLLM ran.
    """
    libraries = false_gpu.built_for(found)
    with tempfile.TemporaryDirectory(prefix="sweep-") as text:
        scratch = Path(text)
        tasks: list[dict[str, Any]] = []
        variables: dict[str, str] = {}
        for number, case in enumerate(group):
            task, variables = _task(
                case, found, libraries, scratch / str(number), caches
            )
            tasks.append({**task, "is_watched": is_watched})
        listed = scratch / "tasks.jsonl"
        listed.write_text("\n".join(map(json.dumps, tasks)), encoding="utf-8")
        here = Path(__file__).parent
        variables["PYTHONPATH"] += f"{os.pathsep}{here}"  # nothing else adds it
        process = subprocess.Popen(
            [found.python, str(here / worker), str(listed), str(seconds)],
            env={**os.environ, **variables, "PLANNER_GPU_DEVICES": "16"},
            stdout=subprocess.DEVNULL,
            stderr=sys.stderr,
        )
        yield from _results(process, group, tasks, read or row_of)


def _task(
    case: dict[str, Any],
    found: installation.Installation,
    libraries: Path,
    folder: Path,
    caches: Path | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    folder.mkdir()
    gpu = gpu_named(case["gpu"])
    inputs = Inputs(
        model=named(case["model"]),
        gpu=gpu,
        vllm_version=found.version,
        engine_args=case["args"],
    )
    estimate, unplanned = estimate_of(inputs)
    prepared = Prepared(
        found=found,
        inputs=inputs,
        gpu=gpu,
        settings=settings_from(case["args"]),
        libraries=libraries,
        estimate=estimate,
        unplanned=unplanned,
        driver=(),
    )
    if caches is None:
        caches = cache_folder("dry-run") / f"compiled-{found.version}"
    command, variables, _notes = launch(prepared, folder, caches)
    task = json.loads(Path(command[-1]).read_text(encoding="utf-8"))
    return {**task, "file": command[-1], "log": str(folder / "log")}, variables


def _results(
    process: subprocess.Popen[bytes],
    group: list[dict[str, Any]],
    tasks: list[dict[str, Any]],
    read: Callable[[Iterable[str]], dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Yield each row as soon as the next start has begun."""
    for number, (case, task) in enumerate(zip(group, tasks, strict=True)):
        later = Path(tasks[number + 1]["log"]) if number + 1 < len(tasks) else None
        while process.poll() is None and not (later and later.exists()):
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
        log = Path(task["log"])
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        shutil.rmtree(log.parent, ignore_errors=True)
        said = read(text.splitlines())
        yield {**case, **{name: _named(case, value) for name, value in said.items()}}


def _named(case: dict[str, Any], value: Any) -> Any:  # noqa: ANN401 - of JSON
    """Return words of vLLM's with the model's name instead of its folder."""
    return _FOLDER.sub(case["model"], value) if isinstance(value, str) else value


def row_of(lines: Iterable[str]) -> dict[str, Any]:
    """Return what vLLM said of itself in one start, in whole bytes."""
    log = list(lines)
    events = [json.loads(line[len(MARK) :]) for line in log if line.startswith(MARK)]
    named = {event["event"]: event for event in events}
    profiled = [event for event in events if event["event"] == "profiled"]
    fault = {"fault": named["fault"]["text"]} if "fault" in named else {}
    error = None if "figures" in named else measurement_of("\n".join(log)).error
    if not profiled:
        return fault or {"refused": error or NO_FIGURE}
    first = min(profiled, key=lambda event: event["rank"])
    engine = named.get("figures", {}).get("engine", {})
    notes = [event["text"] for event in events if event["event"] == "note"]
    return {
        **({"notes": notes} if notes else {}),
        **(fault or ({"error": error} if error else {})),
        "weights": first.get("weights"),
        "peak": worker_from(first).peak_activation_bytes,
        "consumed": first.get("total_consumed"),
        "non_torch": first.get("non_torch"),
        "requested": first.get("requested_memory"),
        "available": first.get("available_kv_cache"),
        "blocks": engine.get("num_gpu_blocks"),
        "tokens": engine.get("kv_cache_size_tokens"),
        "started": "figures" in named,
    }


if __name__ == "__main__":
    main()
