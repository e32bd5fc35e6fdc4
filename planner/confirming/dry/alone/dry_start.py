"""Start vLLM's engine core on the false GPU, once for each pipeline stage, and report.

usage: dry_start.py TASK.json [STAGE]

Without a stage this program starts itself for each one: the stages before the last stop
after their profile run and leave their KV cache specifications for the last, which goes
on to the end. Results are lines of standard output, as those of `offline.py`.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

MARK = "@planner "
_USAGES = {
    "serve": "OPENAI_API_SERVER",
    "llm": "LLM_CLASS",
    "engine": "ENGINE_CONTEXT",
}


def load_false_gpu(folder: str) -> None:
    """Load the stand-ins for CUDA's libraries before anything that needs CUDA.

    The dynamic linker finds a loaded library by its name, and its symbols first, so
    nothing has to be set for other processes.
    """
    order = Path(folder, "load-order").read_text(encoding="utf-8").split()
    for name in order:
        ctypes.CDLL(str(Path(folder, name)), mode=ctypes.RTLD_GLOBAL)


def report(event: str, **values: object) -> None:
    """Write an event as one line of its own."""
    line = json.dumps({"event": event, **values}, default=str)
    sys.stdout.write(f"\n{MARK}{line}\n")
    sys.stdout.flush()


def main(task: dict[str, Any], stage: int | None, file: str) -> int:
    """Run all stages, or one."""
    stages = range(task["stages"])
    if stage is None and len(stages) > 1:
        for number in reversed(stages):
            # The first stage is the last to start: vLLM's own rank 0.
            words = [sys.executable, __file__, file, str(number)]
            status = subprocess.run(words, check=False).returncode
            if status:
                return status
        return 0
    _start(task, stage or 0)
    return 0


def _start(task: dict[str, Any], stage: int) -> None:
    load_false_gpu(task["libraries"])
    import dry_hooks  # noqa: PLC0415 - after the libraries
    import dry_releases  # noqa: F401, PLC0415 - registers its hooks

    dry_hooks.install()
    if task["files"] is not None:
        import dry_files  # noqa: PLC0415 - Transformers is slow to import

        dry_files.write(Path(task["arguments"]["model"]), task["files"])
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415 - heavy
    from vllm.usage.usage_lib import UsageContext  # noqa: PLC0415

    usage = UsageContext[_USAGES[task["entrypoint"]]]
    config = EngineArgs(**task["arguments"]).create_engine_config(usage)
    _engine(task, config, stage)


def _engine(task: dict[str, Any], config: Any, stage: int) -> None:  # noqa: ANN401
    import dry_ranks  # noqa: PLC0415 - imports vLLM
    from vllm.v1.engine.core import EngineCore  # noqa: PLC0415
    from vllm.v1.executor.abstract import Executor  # noqa: PLC0415

    if task["in_one_process"]:
        executor = dry_ranks.one_process_executor(
            config, stage, Path(task["folder"]), is_last=stage == 0
        )
    else:
        executor = Executor.get_class(config)
    try:
        core = EngineCore(config, executor, log_stats=False)
    except dry_ranks.StageIsDone:
        return
    workers = core.model_executor.collective_rpc("planner_figures")
    report("figures", workers=_distinct(workers), engine=_engine_figures(config))
    core.shutdown()


def _distinct(workers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry for each rank that ran."""
    return list({worker["rank"]: worker for worker in workers}.values())


def _engine_figures(config: Any) -> dict[str, Any]:  # noqa: ANN401 - vLLM's
    places = {
        "cache_config": (
            *("num_gpu_blocks", "block_size", "gpu_memory_utilization"),
            *("kv_cache_size_tokens", "kv_cache_max_concurrency"),
        ),
        "model_config": ("max_model_len",),
        "scheduler_config": ("max_num_seqs", "max_num_batched_tokens"),
    }
    found = {
        name: getattr(getattr(config, place), name, None)
        for place, names in places.items()
        for name in names
    }
    return {name: value for name, value in found.items() if value is not None}


def read(path: Path) -> Any:  # noqa: ANN401 - vLLM's values
    """Return what another stage has left, written by this program itself."""
    return pickle.loads(path.read_bytes())  # noqa: S301


# Workers are spawned, which imports this file again by another name.
if __name__ == "__main__":
    given = sys.argv[1]
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else None
    sys.exit(main(json.loads(Path(given).read_text(encoding="utf-8")), wanted, given))
elif __name__ == "__mp_main__":
    load_false_gpu(os.environ["PLANNER_GPU_LIBRARIES"])
    import dry_hooks
    import dry_releases  # noqa: F401 - registers its hooks

    dry_hooks.install()
