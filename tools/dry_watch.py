"""Which lines of vLLM a start runs: on these alone its answer can depend.

Runs in vLLM's Python, in the process of one start. A line counts when it first runs, so
that later ones cost nothing (before Python 3.12 each costs a little).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

from offline import report

Ran = set[tuple[str, int]]
"""File and line."""


@contextmanager
def watched() -> Iterator[None]:
    """Report the lines of each file of the package `vllm` that run inside.

    A start that is up ends its process itself, and reports before.
    """
    import vllm

    package = Path(vllm.__file__).parent
    ran: Ran = set()
    begin = _by_line if hasattr(sys, "monitoring") else _by_frame
    end, leave, process = begin(ran, f"{package}/"), os._exit, os.getpid()

    def reported() -> None:
        end()
        files: dict[str, list[int]] = {}
        for file, line in sorted(ran):
            name = Path(file).relative_to(package).as_posix()
            files.setdefault(name, []).append(line)
        report("ran", lines=files)

    def exit_(status: int) -> None:
        if os.getpid() == process:
            reported()
        leave(status)

    os._exit = exit_  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = leave
        reported()


def _by_line(ran: Ran, package: str) -> Callable[[], object]:
    """Watch the lines of vLLM's functions, from each one's first call on."""
    monitor: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    tool, events = monitor.COVERAGE_ID, monitor.events

    def started(code: CodeType, _offset: int) -> object:
        if code.co_filename.startswith(package):
            monitor.set_local_events(tool, code, events.LINE)
        return monitor.DISABLE

    def line(code: CodeType, number: int) -> object:
        ran.add((code.co_filename, number))
        return monitor.DISABLE

    monitor.use_tool_id(tool, "planner")
    monitor.restart_events()
    monitor.register_callback(tool, events.PY_START, started)
    monitor.register_callback(tool, events.LINE, line)
    monitor.set_events(tool, events.PY_START)
    return lambda: monitor.free_tool_id(tool)


def _by_frame(ran: Ran, package: str) -> Callable[[], object]:
    def line(frame: Any, event: str, _given: object) -> Any:
        if event == "line":
            ran.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    def called(frame: Any, _event: str, _given: object) -> Any:
        return line if frame.f_code.co_filename.startswith(package) else None

    sys.settrace(called)
    return lambda: sys.settrace(None)
