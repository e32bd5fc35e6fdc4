"""Run many dry starts one after the other: vLLM is imported once, each start is a fork.

usage: VLLM_PYTHON tools/dry_worker.py TASKS.jsonl SECONDS

Runs in vLLM's Python with the folders of the planner's programs on PYTHONPATH; each
task names a file for its log, and may ask which lines of vLLM it runs
(`is_watched`). `tools/dry_sweep.py` starts it.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dry_start
import dry_watch


def main(
    tasks: list[dict[str, Any]],
    seconds: float,
    answer: Callable[[dict[str, Any]], object] | None = None,
) -> None:
    """Run every task in a process of its own, which is ended after so many seconds.

    `answer` takes the place of a start.
    """
    dry_start.put_in_place(tasks[0])
    import vllm.engine.arg_utils
    import vllm.v1.engine.core
    import vllm.v1.worker.gpu_worker  # noqa: F401 - imported for the forks

    for task in tasks:
        child = _fork()
        if not child:
            _run(task, answer or _start)
        _wait(child, seconds)


def _fork() -> int:
    """Fork without PyTorch's handlers, which then refuse CUDA.

    They are right about a real driver. The false one's state is plain memory.
    """
    number = {"x86_64": 57}[platform.machine()]  # Linux: fork
    return int(ctypes.CDLL(None).syscall(number))


def _start(task: dict[str, Any]) -> None:
    dry_start.main(task, 0 if task["stages"] == 1 else None, task["file"])


def _run(task: dict[str, Any], answer: Callable[[dict[str, Any]], object]) -> None:
    """Run one task in this process, and end it."""
    os.setpgrp()
    with Path(task["log"]).open("wb") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    try:
        with dry_watch.watched() if task["is_watched"] else nullcontext():
            answer(task)
    except BaseException:  # noqa: BLE001 - what vLLM raises is the result
        traceback.print_exc()
        sys.stdout.flush()
        os._exit(1)
    os._exit(0)


def _wait(child: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.05)


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    main([json.loads(line) for line in lines], float(sys.argv[2]))
