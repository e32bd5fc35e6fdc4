"""confirm(): start vLLM for a plan and lay what it measured over the estimate."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TextIO

from planner.confirming.confirmation import Confirmation
from planner.confirming.events import Event, Listener
from planner.confirming.options import RunOptions
from planner.confirming.run import Run
from planner.confirming.stages import StartStage
from planner.result import Plan


def confirm(
    plan: Plan,
    *,
    listener: Listener | None = None,
    **options: Any,  # noqa: ANN401 - those of RunOptions
) -> Confirmation:
    """Start vLLM with exactly the plan's arguments and compare.

    vLLM runs as a process of its own and is ended before this returns, also when it is
    interrupted. Without a `listener` a line for each stage is written.

    Args:
        plan: what to start.
        listener: is told of stages and lines of the log.
        options: weights ("dummy" or "real"), python, time_limit_seconds,
            load_requests, port, is_stored; see `RunOptions`.

    Raises:
        PlannerError: where vLLM cannot be started: it is missing or of another
            release, the GPU is not there or not free, the port is taken. A vLLM that
            starts and fails is a result, not an error.
    """
    told = stage_lines(sys.stdout) if listener is None else listener
    return Run(plan, RunOptions(**options), told).execute()


def stage_lines(out: TextIO) -> Callable[[Event], None]:
    """Return a listener that writes one line for each stage, with the seconds."""
    seen: set[StartStage] = set()

    def write(event: Event) -> None:
        if event.stage not in seen:
            seen.add(event.stage)
            out.write(f"{event.seconds:6.1f} s  {event.stage}\n")
            out.flush()

    return write
