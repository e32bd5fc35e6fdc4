"""The film of a start on a GPU: what the driver says of its memory while vLLM starts.

NVML knows the sum alone. What memory is used for follows from the stage in which it was
allocated; the log says when a stage begins. Weights that are repacked are not told from
weights that are loaded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

from planner.confirming.film import (
    LONGEST_LINE,
    RECORDED,
    Film,
    FilmStage,
    Frame,
    Use,
    placed,
)
from planner.confirming.log.lines import lines_of
from planner.confirming.options import Event
from planner.confirming.stages import StartStage, stage_of
from planner.errors import PlannerError

_EVERY_SECONDS = 0.05
_STAGES = {
    StartStage.CHECKING: FilmStage.STARTING,
    StartStage.COMPILING: FilmStage.PROFILING,
}
"""Stages of a start that a film calls otherwise."""
_USES = {
    FilmStage.STARTING: Use.OUTSIDE,
    FilmStage.LOADING: Use.WEIGHTS,
    FilmStage.PROFILING: Use.TEMPORARY,
    FilmStage.KV_CACHE: Use.KV_CACHE,
    FilmStage.CAPTURING: Use.GRAPHS,
    FilmStage.READY: Use.BUFFERS,
}
"""What memory is used for that a stage allocates."""

Sample: TypeAlias = tuple[float, FilmStage, int]
"""Seconds, stage, and the bytes that are taken from the device."""


class Camera:
    """Samples the used memory of a GPU in a thread, from `with` to its end.

    Args:
        uuid: of the GPU.
        nvml: the binding to use; None for the installed pynvml.
        every_seconds: between two samples.

    Raises:
        PlannerError: on entry, where the driver does not answer.
    """

    def __init__(
        self,
        uuid: str,
        nvml: ModuleType | None = None,
        every_seconds: float = _EVERY_SECONDS,
    ) -> None:
        self.samples: list[Sample] = []
        self.total_bytes = 0
        self._lines: list[tuple[float, str]] = []
        self._uuid, self._given, self._every = uuid, nvml, every_seconds
        self._stage = FilmStage.STARTING
        self._begin = time.monotonic()
        self._is_over = threading.Event()
        self._one_at_a_time = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="film", daemon=True)

    def __enter__(self) -> Camera:
        """Take the first sample, and begin."""
        try:
            self._nvml = self._given or import_module("pynvml")
            self._nvml.nvmlInit()
            self._handle = self._nvml.nvmlDeviceGetHandleByUUID(self._uuid)
            self.take()
        except Exception as error:
            raise PlannerError(
                f"Nothing to film: NVML does not answer for GPU {self._uuid} ({error})."
            ) from error
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """End it."""
        self._is_over.set()
        self._thread.join()
        self._nvml.nvmlShutdown()

    def hear(self, event: Event) -> None:
        """Follow the stages and lines of the start."""
        if event.stage.position > StartStage.READY.position:
            self._is_over.set()
            return
        stage = _STAGES.get(event.stage) or FilmStage(str(event.stage))
        if stage.position > self._stage.position:
            self.take()  # the end of the stage before
            self._stage = stage
        told = (line for line in event.lines if stage_of(line) is not None)
        texts = (part.text.strip() for line in told for part in lines_of(line))
        now = self._seconds()
        self._lines += [(now, text[:LONGEST_LINE]) for text in texts if text]

    def take(self) -> None:
        """Take a sample now; a driver that no longer answers ends the film."""
        with self._one_at_a_time:
            try:
                memory = self._nvml.nvmlDeviceGetMemoryInfo(self._handle)
            except self._nvml.NVMLError:
                self._is_over.set()
                if not self.samples:
                    raise
                return
            self.total_bytes = int(memory.total)
            self.samples.append((self._seconds(), self._stage, int(memory.used)))

    def film(self, **facts: Any) -> Film:  # noqa: ANN401 - of Film's fields
        """Return the film of what was sampled."""
        frames = tuple(_frames(self.samples))
        return Film(
            source=RECORDED,
            total_bytes=self.total_bytes,
            frames=frames,
            lines=placed(frames, self._lines),
            **facts,
        ).thinned()

    def _seconds(self) -> float:
        return round(time.monotonic() - self._begin, 3)

    def _run(self) -> None:
        while not self._is_over.wait(self._every):
            self.take()


def _frames(samples: Sequence[Sample]) -> Iterator[Frame]:
    """Yield a frame for each sample.

    A stage's growth is its own, and is given back first. What is left of the profile
    run stays: buffers, kernels, workspaces.
    """
    ends = {stage: size for _seconds, stage, size in samples}
    before = ends.get(FilmStage.LOADING, ends[FilmStage.STARTING])
    stays = max(ends.get(FilmStage.PROFILING, before) - before, 0)
    used = dict.fromkeys(Use, 0)
    for seconds, stage, size in samples:
        change = size - sum(used.values())
        own = _USES[stage]
        for use in (own, *reversed(Use)):
            part = max(change if use is own else min(change, 0), -used[use])
            used[use] += part
            change -= part
        kept = min(stays, used[Use.TEMPORARY])
        shown = used | {
            Use.TEMPORARY: used[Use.TEMPORARY] - kept,
            Use.BUFFERS: used[Use.BUFFERS] + kept,
        }
        sizes = tuple(shown[use] for use in Use)
        yield Frame(seconds=seconds, stage=stage, used=sizes)
