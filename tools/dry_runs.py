"""One dry run for tools and benchmarks: vLLM's own start on a GPU that is not there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import planner
from planner.confirming.dry import false_gpu
from planner.confirming.installation import Installation, find
from planner.engine.gpu import GPU

CONFIRMING = Path(planner.__file__).parent / "confirming"
MARK = "@planner "
_SECONDS = 1200
_ERROR = re.compile(r"^(?:\(.*?\) )?(?:ERROR .*\] )?([\w.]*(?:Error|Exception)\b.*)")


def dry_start(
    model: Path,
    gpu: GPU,
    vllm_python: str,
    cache: Path,
    **engine_args: Any,  # noqa: ANN401 - vLLM's
) -> dict[str, Any]:
    """Start vLLM without a GPU and return what `planner.dry_run(...).to_dict()` would.

    Args:
        model: a folder with config.json.
        gpu: the GPU that is reported to vLLM.
        vllm_python: the Python of vLLM's environment.
        cache: folder for compiled code; an empty one makes it a cold start.
        engine_args: vLLM's engine arguments.
    """
    found = find(vllm_python)
    with tempfile.TemporaryDirectory(prefix="dry-") as name:
        scratch = Path(name)
        libraries = false_gpu.built_for(found)
        task = scratch / "task.json"
        task.write_text(json.dumps(_task(model, libraries, scratch, engine_args)))
        log = cache.parent / f"{cache.name}.log"
        begin = time.monotonic()
        status = _run(
            found, task, log, _environment(gpu, engine_args, libraries, cache)
        )
        seconds = time.monotonic() - begin
    return _answer(found, log.read_text(encoding="utf-8", errors="replace")) | {
        "started": status == 0,
        "seconds": round(seconds, 1),
    }


def _task(
    model: Path, libraries: Path, scratch: Path, engine_args: Mapping[str, Any]
) -> dict[str, Any]:
    arguments = {
        "model": str(model),
        "load_format": "dummy",
        "disable_log_stats": True,
        "worker_extension_cls": "planner_memory_probe.MemoryProbe",
    }
    if not (model / "tokenizer_config.json").is_file():
        arguments["skip_tokenizer_init"] = True
    return {
        "arguments": arguments | dict(engine_args),
        "entrypoint": "serve",
        "libraries": str(libraries),
        "folder": str(scratch),
        "in_one_process": True,
        "stages": engine_args.get("pipeline_parallel_size", 1),
        "files": None,
    }


def _environment(
    gpu: GPU, engine_args: Mapping[str, Any], libraries: Path, cache: Path
) -> dict[str, str]:
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    devices = 1
    for size in sizes:
        devices *= int(engine_args.get(size) or 1)
    folders = {
        "VLLM_CACHE_ROOT": cache,
        "TRITON_CACHE_DIR": cache / "triton",
        "TORCHINDUCTOR_CACHE_DIR": cache / "inductor",
        "FLASHINFER_WORKSPACE_BASE": cache,
        "PLANNER_GPU_LIBRARIES": libraries,
        "TRITON_LIBCUDA_PATH": libraries,
    }
    return {
        **os.environ,
        **false_gpu.variables(gpu, devices=devices),
        **{name: str(folder) for name, folder in folders.items()},
        "PYTHONPATH": f"{CONFIRMING / 'dry' / 'alone'}:{CONFIRMING / 'alone'}",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    }


def _run(
    found: Installation, task: Path, log: Path, environment: Mapping[str, str]
) -> int:
    program = CONFIRMING / "dry" / "alone" / "dry_start.py"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as lines:
        try:
            return subprocess.run(
                [found.python, str(program), str(task)],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=lines,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=_SECONDS,
            ).returncode
        except subprocess.TimeoutExpired:
            return 124


def _answer(found: Installation, log: str) -> dict[str, Any]:
    events = [
        json.loads(line.removeprefix(MARK))
        for line in log.splitlines()
        if line.startswith(MARK)
    ]
    profiled = {one["rank"]: one for one in events if one["event"] == "profiled"}
    ended: dict[str, Any] = next(
        (one for one in events if one["event"] == "figures"), {}
    )
    engine = ended.get("engine", {})
    return {
        "vllm_version": found.version,
        "refused": None if ended else _refusal(log),
        "ranks": [_rank(profiled[number]) for number in sorted(profiled)],
        "num_gpu_blocks": engine.get("num_gpu_blocks"),
        "kv_cache_size_tokens": engine.get("kv_cache_size_tokens"),
        "max_concurrency": engine.get("kv_cache_max_concurrency"),
    }


def _rank(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "rank": figures["rank"],
        "weights_bytes": figures.get("weights"),
        "peak_activation_bytes": figures.get("peak_activation"),
        "available_kv_cache_bytes": figures.get("available_kv_cache"),
    }


def _refusal(log: str) -> str:
    """Return the last error of a log: what vLLM said when it gave up."""
    found = [match[1] for line in log.splitlines() if (match := _ERROR.match(line))]
    return found[-1][:400] if found else "no error in the log"
