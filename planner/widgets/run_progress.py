"""How far a run is: stage, bar, elapsed time and log; hears whether a page looks."""

from __future__ import annotations

import re
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from planner.confirming.stages import StartStage
from planner.widgets.presence import Presence
from planner.widgets.static_files import script, sheet

if TYPE_CHECKING:
    from planner.confirming.events import Event

KEPT_LINES = 2000
STAGES = (
    StartStage.CHECKING,
    StartStage.STARTING,
    StartStage.LOADING,
    StartStage.COMPILING,
    StartStage.PROFILING,
    StartStage.KV_CACHE,
    StartStage.CAPTURING,
    StartStage.READY,
    StartStage.GENERATING,
)
"""Those that a page lists: every run goes through most of them."""
IDLE, RUNNING, STOPPING, ENDED = "idle", "running", "stopping", "ended"

# Colours and cursor moves of a terminal. Source: ECMA-48, control sequences.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])"
)


class RunProgress(anywidget.AnyWidget):
    """Shows one run at a time.

    The log goes to the page in messages, not in a trait: a trait would send all of it
    with each new line. A page that comes later asks for what it missed.
    """

    _esm = script("shortcuts.js", "run.js")
    _css = sheet("run.css")

    state = traitlets.Unicode(IDLE).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    """What is run."""
    stage = traitlets.Unicode().tag(sync=True)
    """Where the run is, in words; at its end how it ended."""
    stages = traitlets.List(traitlets.Unicode()).tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)
    """How many of `stages` lie behind."""
    skipped = traitlets.List(traitlets.Unicode()).tag(sync=True)
    """Those behind that this start did not have."""
    fraction = traitlets.Float(0.0).tag(sync=True)
    seconds = traitlets.Float(0.0).tag(sync=True)
    """Since the run began, as of the last message; the page counts on by itself."""

    def __init__(self, **traits: object) -> None:
        super().__init__(stages=[str(stage) for stage in STAGES], **traits)
        self.presence = Presence()
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._count = 0
        self._began = 0.0
        self.on_msg(self._heard)

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines of the log."""
        return tuple(self._lines)

    def begin(self, title: str) -> None:
        """Show a run that begins."""
        self._lines.clear()
        self._count = 0
        self._began = time.monotonic()
        self.presence.begin()
        self.send({"kind": "clear"})
        with self.hold_sync():
            self.title = title
            self.stage = "beginning"
            self.position = 0
            self.skipped = []
            self.fraction = 0.0
            self.seconds = 0.0
            self.state = RUNNING

    def tell(self, event: Event) -> None:
        """Show a stage and new lines."""
        lines = [cleaned(line) for line in event.lines]
        if lines:
            first = self._count
            self._lines.extend(lines)
            self._count += len(lines)
            self._send_lines(first, lines[-KEPT_LINES:])
        if self.state not in (RUNNING, STOPPING):
            return
        with self.hold_sync():
            self.seconds = self._elapsed()
            if self.state == RUNNING:
                self.stage = str(event.stage)
                self.fraction = event.fraction
                self.position = _position(event.stage)
                self.skipped = _skipped(event)

    def stopping(self) -> None:
        """Show that the run is asked to end."""
        with self.hold_sync():
            self.state = STOPPING
            self.stage = "stopping"

    def end(self, words: str, *, is_whole: bool) -> None:
        """Show how the run ended, and whether it got to its end."""
        with self.hold_sync():
            self.seconds = self._elapsed()
            self.state = ENDED
            self.stage = words
            if is_whole:
                self.fraction = 1.0
                self.position = len(STAGES)

    def _elapsed(self) -> float:
        return round(time.monotonic() - self._began, 1)

    def _heard(self, _widget: object, content: Any, _buffers: object) -> None:  # noqa: ANN401
        """Take what a page says: that it is new, that it is there, that it leaves."""
        if not isinstance(content, dict):
            return
        kind, view = content.get("kind"), str(content.get("view", ""))[:64]
        if kind == "leaving":
            self.presence.leave(view)
        elif kind in ("hello", "here"):
            self.presence.hear(view)
        if kind == "hello":
            if self.state in (RUNNING, STOPPING):
                self.seconds = self._elapsed()
            self._send_lines(self._count - len(self._lines), list(self._lines))

    def _send_lines(self, first: int, lines: list[str]) -> None:
        self.send({"kind": "log", "first": first, "lines": lines})


def _position(stage: StartStage) -> int:
    """Return how many of the listed stages lie behind."""
    every = list(StartStage)
    return sum(every.index(listed) < every.index(stage) for listed in STAGES)


def _skipped(event: Event) -> list[str]:
    """Return the listed stages behind that the start did not have."""
    if not event.reached:
        return []
    behind = STAGES[: _position(event.stage)]
    return [str(stage) for stage in behind if stage not in event.reached]


def cleaned(line: str) -> str:
    r"""Take out what only a terminal understands; keep a bar's last state.

    >>> cleaned("\x1b[36mloading\x1b[0m:  0%\rloading: 50%\n")
    'loading: 50%'
    """
    plain = _ESCAPES.sub("", line).rstrip("\r\n")
    return plain.rpartition("\r")[2]
