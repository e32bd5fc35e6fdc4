"""One dry run for tools and benchmarks: vLLM's own start on a GPU that is not there."""

from __future__ import annotations

import json
import os
import re
import shutil
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
from planner.models.sources.load import load

CONFIRMING = Path(planner.__file__).parent / "confirming"
MARK = "@planner "
_SECONDS = 1200
_ENCODERS = {"vision_config", "audio_config", "thinker_config"}
"""Entries of config.json: vLLM asks such a model's processor for the largest inputs."""
_ERROR = re.compile(
    r"^(?:\(.*?\) )?(?:\[rank\d+\]: )?(?:ERROR .*\] )?([\w.]*(?:Error|Exception)\b.*)"
)


def dry_start(
    model: str | Path,
    *,
    gpu: GPU,
    vllm_python: str,
    cache: Path,
    **engine_args: Any,  # noqa: ANN401 - vLLM's
) -> dict[str, Any]:
    """Start vLLM without a GPU and return what `planner.dry_run(...).to_dict()` would.

    Args:
        model: a name of the catalogue, or a folder with config.json.
        gpu: the GPU that is reported to vLLM.
        vllm_python: the Python of vLLM's environment.
        cache: folder for compiled code; an empty one makes it a cold start.
        engine_args: vLLM's engine arguments.
    """
    found = find(vllm_python)
    libraries = false_gpu.built_for(found)
    log = cache.parent / f"{cache.name}.log"
    with tempfile.TemporaryDirectory(prefix="dry-") as name:
        task = _task(model, libraries, Path(name), engine_args)
        file = Path(name, "task.json")
        file.write_text(json.dumps(task), encoding="utf-8")
        begin = time.monotonic()
        variables = _environment(gpu, engine_args, libraries, cache)
        status = _run(found, file, log, variables)
        seconds = time.monotonic() - begin
    return {
        "started": status == 0,
        "seconds": round(seconds, 1),
        **_answer(found, log.read_text(encoding="utf-8", errors="replace")),
    }


def _task(
    model: str | Path, libraries: Path, scratch: Path, engine_args: Mapping[str, Any]
) -> dict[str, Any]:
    folder = scratch / "model" / str(model).rpartition("/")[2]
    _write_model(model, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    has_encoders = not _ENCODERS.isdisjoint(config)
    arguments = {
        "model": str(folder),
        "load_format": "dummy",
        "disable_log_stats": True,
        "worker_extension_cls": "planner_memory_probe.MemoryProbe",
        "skip_tokenizer_init": not has_encoders,
    }
    return {
        "arguments": arguments | dict(engine_args),
        "entrypoint": "serve",
        "libraries": str(libraries),
        "folder": str(scratch),
        "in_one_process": True,
        "stages": engine_args.get("pipeline_parallel_size", 1),
        # A processor needs its files; other models start without a tokenizer.
        "files": {} if has_encoders else None,
    }


def _write_model(model: str | Path, folder: Path) -> None:
    if Path(model).is_dir():
        shutil.copytree(model, folder)
        return
    found = load(str(model))
    files = {
        "config.json": found.config,
        "hf_quant_config.json": found.hf_quant_config,
        "preprocessor_config.json": found.preprocessor_config,
    }
    folder.mkdir(parents=True)
    for name, content in files.items():
        if content:
            (folder / name).write_text(json.dumps(dict(content)), encoding="utf-8")


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
