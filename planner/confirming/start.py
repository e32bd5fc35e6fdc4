"""One start of vLLM: its process, its stages, its log and what its workers report.

`confirming.run` starts vLLM on a device, `confirming.dry` on a GPU that is not there.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from planner.confirming.beside_vllm.offline import MARK
from planner.confirming.beside_vllm.supervisor import TIME_IS_OVER
from planner.confirming.figures import engine_from, worker_from
from planner.confirming.from_log import measurement_of
from planner.confirming.measurement import Measurement
from planner.confirming.options import Event, Listener
from planner.confirming.process import Process
from planner.confirming.stages import StageTracker, StartStage


def stage_lines(out: TextIO) -> Callable[[Event], None]:
    """Return a listener that writes one line for each stage, with the seconds."""
    seen: set[StartStage] = set()

    def write(event: Event) -> None:
        if event.stage not in seen:
            seen.add(event.stage)
            out.write(f"{event.seconds:6.1f} s  {event.stage}\n")
            out.flush()

    return write


class StartedProcess:
    """A command that starts vLLM: `stop` ends it from any thread.

    What its programs report as events is in `results` and `profiled`, everything else
    they write in `lines`.
    """

    def __init__(self, listener: Listener | None, limit_seconds: float) -> None:
        self.lines: list[str] = []
        self.results: dict[str, Any] = {}
        self.profiled: list[dict[str, Any]] = []
        self.tracker = StageTracker()
        self.is_stopped = threading.Event()
        self.begin = time.monotonic()
        self.ready_seconds: float | None = None
        self.process: Process | None = None
        self._listener = listener
        self._limit_seconds = limit_seconds

    def stop(self) -> None:
        """End it; returns at once."""
        self.is_stopped.set()
        if self.process is not None:
            self.process.ask_to_stop()

    def run(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        scratch: Path,
        wait: Callable[[Process], None] | None = None,
    ) -> None:
        """Run the command until its end; none of its processes is left after this.

        Args:
            command: the words.
            environment: all its variables.
            scratch: a folder that is removed with it.
            wait: returns when the command has done its work; None waits for its exit.
        """
        if self.is_stopped.is_set():
            return
        self.reach(StartStage.STARTING)
        self.process = process = Process(
            command,
            environment=environment,
            limit_seconds=self._limit_seconds,
            scratch=scratch,
            on_line=self._take,
        )
        try:
            if self.is_stopped.is_set():
                process.ask_to_stop()
            if wait is None:
                process.wait()
            else:
                wait(process)
        except BaseException:
            process.stop()
            raise
        finally:
            if process.status is None and not self.is_stopped.is_set():
                self.reach(StartStage.STOPPING)
                process.quit()
            process.stop()
        if process.failure is not None:
            raise process.failure

    @property
    def was_ended(self) -> bool:
        """Whether it was stopped or took too long: its outcome is then unknown."""
        status = None if self.process is None else self.process.status
        return self.is_stopped.is_set() or status == TIME_IS_OVER

    @property
    def seconds(self) -> float:
        """Time since it began."""
        return time.monotonic() - self.begin

    def measured(self, **facts: Any) -> Measurement:  # noqa: ANN401 - of its fields
        """Return what was measured, with facts that only the caller knows."""
        logged = measurement_of("\n".join(self.lines))
        figures: Mapping[str, Any] = self.results.get("figures") or {}
        workers = _all_workers(figures.get("workers") or [], self.profiled)
        is_up = self.ready_seconds is not None
        return replace(
            logged,
            date=datetime.now(UTC).date().isoformat(),
            workers=tuple(map(worker_from, workers)),
            engine=engine_from(workers, figures.get("engine", {})),
            error=None if is_up else logged.error,
            is_started=True if is_up else None if self.was_ended else False,
            seconds=self.ready_seconds or self.seconds,
            **facts,
        )

    def end_notes(self) -> tuple[str, ...]:
        """Return that it was stopped, or took too long."""
        stage = self.tracker.stage
        if self.is_stopped.is_set():
            return (f"Stopped after {self.seconds:.0f} s, {stage}.",)
        if self.was_ended:
            return (
                f"Ended after the time limit of {self._limit_seconds:g} s, {stage}. "
                "Give a longer time_limit_seconds.",
            )
        return ()

    def on_event(self, name: str) -> None:
        """Do what an event of the programs beside vLLM asks for."""

    def take_ready(self) -> None:
        """Note that vLLM is ready."""
        self.ready_seconds = self.seconds
        self.reach(StartStage.READY)

    def reach(self, stage: StartStage) -> None:
        """Move forward to a stage, and notify the listener."""
        self._notify(self.tracker.reach(stage))

    def _take(self, line: str) -> None:
        """Store a line of the log, in the thread that reads it."""
        event = _event_in(line)
        if event is not None:
            self._take_event(event)
            return
        self.lines.append(line)
        if self.tracker.stage is not StartStage.STOPPING:
            # Lines of the shutdown would hide the answer.
            self._notify(self.tracker.advance(line), (line,))

    def _take_event(self, event: dict[str, Any]) -> None:
        name = event.pop("event")
        if name == "profiled":
            self.profiled.append(event)
            return
        self.results[name] = event
        self.on_event(name)

    def _notify(self, stage: StartStage, lines: tuple[str, ...] = ()) -> None:
        if self._listener is not None:
            self._listener(
                Event(
                    stage=stage,
                    fraction=self.tracker.fraction,
                    lines=lines,
                    seconds=self.seconds,
                    reached=tuple(self.tracker.reached),
                )
            )


def _all_workers(
    ready: Sequence[dict[str, Any]], profiled: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the figures of workers that are ready, and of others that only profiled.

    A dry run's pipeline stages before the last end with their profile run.
    """
    ranks = {worker.get("rank") for worker in ready}
    return [*ready, *(one for one in profiled if one.get("rank") not in ranks)]


def _event_in(line: str) -> dict[str, Any] | None:
    """Return the event of a program beside vLLM; None for a line of vLLM's log."""
    _before, mark, text = line.partition(MARK)
    try:
        event = json.loads(text) if mark else None
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None
