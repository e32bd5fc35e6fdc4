"""Runs vLLM in a thread, so that the page stays responsive; reports in batches.

What runs is a start on a device (`new_run`) or one without a GPU (`new_dry_run`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from threading import Lock, Thread
from typing import TYPE_CHECKING, Protocol, TypeAlias

from planner.app.widgets.callbacks import running_loop
from planner.confirming.options import Event, Listener

if TYPE_CHECKING:
    from planner.confirming.confirmation import Confirmation
    from planner.confirming.dry.result import DryRun
    from planner.confirming.dry.run import DryOptions
    from planner.confirming.options import RunOptions
    from planner.planning.inputs import Inputs
    from planner.planning.result import Plan

BATCH_SECONDS = 0.2
"""At most five messages a second go to the page, however fast vLLM logs."""


class Engine(Protocol):
    """One start of vLLM, as `confirming.run.Run` and `confirming.dry.run.DryStart`."""

    def execute(self) -> Confirmation | DryRun:
        """Start vLLM, measure, end it; returns when that is done."""
        ...

    def stop(self) -> None:
        """End it early; returns at once, from any thread."""
        ...


NewEngine: TypeAlias = Callable[[Listener], Engine]
"""Prepares a start, whose events the listener gets; nothing runs yet."""


def new_run(plan: Plan, options: RunOptions, listener: Listener) -> Engine:
    """Prepare a start of vLLM; nothing runs yet."""
    from planner.confirming.run import Run  # noqa: PLC0415 - it starts vLLM

    return Run(plan, options, listener)


def new_dry_run(inputs: Inputs, options: DryOptions, listener: Listener) -> Engine:
    """Prepare a start of vLLM without a GPU; nothing runs yet."""
    from planner.confirming.dry.run import DryStart  # noqa: PLC0415 - it starts vLLM

    return DryStart(inputs, options, listener)


class RunThread:
    """One run in a thread of its own.

    `on_event` and `on_end` are called on the page's event loop; `on_end` gets what the
    start returned, or the exception that it raised.
    """

    def __init__(
        self,
        new_engine: NewEngine,
        *,
        on_event: Callable[[Event], None],
        on_end: Callable[[object], None],
    ) -> None:
        self._on_end = on_end
        self._loop = running_loop()
        self._batches = Batches(on_event, self._loop)
        self._engine = new_engine(self._batches.add)
        self._thread = Thread(target=self._execute, daemon=True, name="planner-run")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the run early; `on_end` is called when it has."""
        self._engine.stop()

    def wait(self, seconds: float) -> None:
        """Wait until the run has ended."""
        self._thread.join(seconds)

    def _execute(self) -> None:
        answer: object
        try:
            answer = self._engine.execute()
        except Exception as error:  # noqa: BLE001 - passed to the caller's guard
            answer = error
        _post(self._loop, lambda: self._finish(answer))

    def _finish(self, answer: object) -> None:
        self._batches.flush()
        self._on_end(answer)


class Batches:
    """Collects the events of another thread and passes them on in batches."""

    def __init__(
        self, take: Callable[[Event], None], loop: asyncio.AbstractEventLoop | None
    ) -> None:
        self._take = take
        self._loop = loop
        self._lock = Lock()
        self._events: list[Event] = []
        self._is_scheduled = False

    def add(self, event: Event) -> None:
        """Keep an event for the next batch."""
        with self._lock:
            self._events.append(event)
            if self._is_scheduled:
                return
            self._is_scheduled = True
        _post(self._loop, self._schedule)

    def flush(self) -> None:
        """Pass on the collected events as one."""
        with self._lock:
            events, self._events = self._events, []
            self._is_scheduled = False
        if not events:
            return
        lines = tuple(line for event in events for line in event.lines)
        last = events[-1]
        self._take(replace(last, lines=lines))

    def _schedule(self) -> None:
        if self._loop is None:
            self.flush()
        else:
            self._loop.call_later(BATCH_SECONDS, self.flush)


def later(seconds: float, call: Callable[[], None]) -> None:
    """Call on the page's event loop after a while; not at all without a loop."""
    loop = running_loop()
    if loop is not None:
        loop.call_later(seconds, call)


def _post(loop: asyncio.AbstractEventLoop | None, call: Callable[[], None]) -> None:
    if loop is None:
        call()
        return
    with suppress(RuntimeError):  # the loop is closed: the kernel is ending
        loop.call_soon_threadsafe(call)
