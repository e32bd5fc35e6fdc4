"""The options of a start of vLLM as controls, and its progress: stage, time and log."""

from __future__ import annotations

import re
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import traitlets

from planner.app.widgets.callbacks import Presence
from planner.app.widgets.controls import Controls, FieldGroup
from planner.app.widgets.fields import ChoiceField, EntryField, OwnEntry, read_all
from planner.app.widgets.page_widget import PageWidget
from planner.app.widgets.parsing import Notation
from planner.app.widgets.static_files import script, sheet
from planner.confirming.options import RunOptions
from planner.confirming.stages import StartStage
from planner.engine.environment_names import assignments
from planner.errors import PlannerError

if TYPE_CHECKING:
    from planner.confirming.dry.run import DryOptions
    from planner.confirming.options import Event
    from planner.planning.result import Plan

_WEIGHTS = (("dummy", "dummy"), ("real", "real"))
_CACHES = tuple((name, name) for name in ("shared", "cold", "both"))
DEFAULT_MINUTES = 30
_LONGEST = 9
"""The most digits of a number."""
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
"""The stages that a page lists: every run goes through most of them."""
DRY_STAGES = tuple(stage for stage in STAGES if stage is not StartStage.GENERATING)
"""Those of a start without a GPU, which computes no answer."""
IDLE, RUNNING, STOPPING, ENDED = "idle", "running", "stopping", "ended"
# Colours and cursor movements of a terminal. Source: ECMA-48, control sequences.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])"
)


class OptionEntry(OwnEntry):
    """An entry that is not an argument of vLLM; its default is the planner's."""

    def __init__(self, name: str, hint: str, entry: Notation, value: str) -> None:
        super().__init__(name, hint, entry)
        self.default = value
        self.value = value


class OptionsForm(Controls):
    """The controls of a start; `read` and `read_dry` gather those that apply to it."""

    def __init__(self) -> None:
        self.weights = ChoiceField(
            "weights", "dummy: right shapes, no download", _WEIGHTS
        )
        self.weights.term = "start weights"
        self.load_requests = OptionEntry(
            "load probe", "requests sent at once; 0: none", _whole(0), "0"
        )
        self.minutes = OptionEntry(
            "time limit", "in minutes", _whole(1), str(DEFAULT_MINUTES)
        )
        self.python = OptionEntry(
            "Python of vLLM",
            "empty: PLANNER_VLLM_PYTHON, else the Python of this page",
            Notation(kind="text", parse=lambda _name, text: text),
            "",
        )
        self.compile_cache = ChoiceField(
            "compile cache",
            "shared: as left by earlier starts; both: cold, then warm",
            _CACHES,
        )
        super().__init__(
            [
                FieldGroup("", [self.minutes, self.python]),
                FieldGroup("Run", [self.weights, self.load_requests]),
                FieldGroup("Ask vLLM", [self.compile_cache]),
            ]
        )
        self.add_class("planner-run-options")
        self.show(has_vllm=False)

    def show(self, *, has_vllm: bool) -> None:
        """Show the options of a start; without vLLM, only where it could be."""
        self.gone = (
            [] if has_vllm else [n for n in self.fields if n != self.python.name]
        )

    def read(self) -> RunOptions:
        """Return the options of a start on a device.

        Raises:
            FieldError: when a field's entry is invalid; the field shows it too.
        """
        self._check(self.load_requests)
        return RunOptions(
            weights=self.weights.value,
            python=self.python_path,
            time_limit_seconds=self._limit_seconds,
            load_requests=self.load_requests.read() or None,
        )

    def read_dry(self) -> DryOptions:
        """Return the options of a start without a GPU.

        Raises:
            FieldError: when a field's entry is invalid; the field shows it too.
        """
        from planner.confirming.dry.run import DryOptions  # noqa: PLC0415 - it starts vLLM

        self._check()
        return DryOptions(
            python=self.python_path,
            time_limit_seconds=self._limit_seconds,
            compile_cache=self.compile_cache.value,
        )

    def _check(self, *more: EntryField) -> None:
        """Refuse an invalid entry among those that apply to the start."""
        read_all({field.name: field for field in (self.minutes, self.python, *more)})

    @property
    def _limit_seconds(self) -> float:
        return 60.0 * (self.minutes.read() or DEFAULT_MINUTES)

    @property
    def python_path(self) -> str | None:
        """The Python that was entered; None without one."""
        typed = self.python.read()
        return None if typed is None else str(typed)


class RunProgress(PageWidget):
    """Shows the progress of one run, and records whether a page shows it.

    The log is sent in messages, not in a trait: a trait would send all of it with each
    new line. A page that is opened later requests what it missed.
    """

    _esm = script("run.js")
    _css = sheet("run.css")
    called = "progress"

    state = traitlets.Unicode(IDLE).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    """The model and the command."""
    stage = traitlets.Unicode().tag(sync=True)
    """The current stage in words; at the end, the outcome."""
    stages = traitlets.List(traitlets.Unicode()).tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)
    """How many of `stages` have passed."""
    skipped = traitlets.List(traitlets.Unicode()).tag(sync=True)
    """Those of them that this start did not have."""
    fraction = traitlets.Float(0.0).tag(sync=True)
    seconds = traitlets.Float(0.0).tag(sync=True)
    """Time since the run began, at the last message; the page counts on by itself."""

    def __init__(self, **traits: object) -> None:
        super().__init__(stages=[str(stage) for stage in STAGES], **traits)
        self.presence = Presence()
        self._listed: tuple[StartStage, ...] = STAGES
        self._is_sought = False
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._count = 0
        self._began = 0.0

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines of the log."""
        return tuple(self._lines)

    def begin(self, title: str, stages: tuple[StartStage, ...] = STAGES) -> None:
        """Show the beginning of a run through these stages."""
        self._lines.clear()
        self._count = 0
        self._began = time.monotonic()
        self.presence.begin()
        self.send({"kind": "clear"})
        with self.hold_sync():
            self._listed = stages
            self.stages = [str(stage) for stage in stages]
            self.title = title
            self.stage = "beginning"
            self.position = 0
            self.skipped = []
            self.fraction = 0.0
            self.seconds = 0.0
            self.state = RUNNING

    def seek(self) -> None:
        """Move the page to the progress; one that does not show it yet, later."""
        self._is_sought = True
        self.send({"kind": "seek"})

    def tell(self, event: Event) -> None:
        """Show a stage and new lines of the log."""
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
                self.position = self._position(event.stage)
                self.skipped = self._skipped(event)

    def stopping(self) -> None:
        """Show that the run is being stopped."""
        with self.hold_sync():
            self.state = STOPPING
            self.stage = "stopping"

    def end(self, words: str, *, is_whole: bool) -> None:
        """Show how the run ended, and whether it was complete."""
        self._is_sought = False
        with self.hold_sync():
            self.seconds = self._elapsed()
            self.state = ENDED
            self.stage = words
            if is_whole:
                self.fraction = 1.0
                self.position = len(self._listed)

    def give_up(self) -> None:
        """Show that there is no measurement; nothing, where nothing had started."""
        if self.position == 0:
            self.state = IDLE
        else:
            self.end("ended without a measurement", is_whole=False)

    def _position(self, stage: StartStage) -> int:
        """Return how many of the listed stages have passed."""
        return sum(listed.position < stage.position for listed in self._listed)

    def _skipped(self, event: Event) -> list[str]:
        """Return the stages before the current one that the start did not have."""
        if not event.reached:
            return []
        behind = self._listed[: self._position(event.stage)]
        return [str(stage) for stage in behind if stage not in event.reached]

    def _elapsed(self) -> float:
        return round(time.monotonic() - self._began, 1)

    def hear(self, message: Any) -> bool:  # noqa: ANN401 - what a page sent
        """Handle a page's messages: it is new, it is present, it leaves."""
        if not isinstance(message, dict):
            return False
        kind, view = message.get("kind"), str(message.get("view", ""))[:64]
        if kind == "leaving":
            self.presence.leave(view)
        elif kind in ("hello", "here"):
            self.presence.receive(view)
        if kind == "hello":
            if self.state in (RUNNING, STOPPING):
                self.seconds = self._elapsed()
            self._send_lines(self._count - len(self._lines), list(self._lines))
            if self._is_sought:
                self.send({"kind": "seek"})
                self._is_sought = False
        return kind in ("leaving", "hello", "here")

    def _send_lines(self, first: int, lines: list[str]) -> None:
        self.send({"kind": "log", "first": first, "lines": lines})


def cleaned(line: str) -> str:
    r"""Remove a terminal's control sequences; keep the last state of a progress bar.

    >>> cleaned("\x1b[36mloading\x1b[0m:  0%\rloading: 50%\n")
    'loading: 50%'
    """
    plain = _ESCAPES.sub("", line).rstrip("\r\n")
    return plain.rpartition("\r")[2]


def command_of(plan: Plan) -> str:
    """Return the command, with environment variables and the entry point."""
    by_class = " (by the LLM class)" if plan.entrypoint != "serve" else ""
    return " ".join([*assignments(plan.env), f"{plan.command()}{by_class}"])


def _whole(smallest: int) -> Notation:
    return Notation(kind="number", parse=partial(_at_least, smallest))


def _at_least(smallest: int, name: str, text: str) -> int:
    is_whole = text.isascii() and text.isdecimal() and len(text) <= _LONGEST
    if not is_whole or int(text) < smallest:
        raise PlannerError(
            f"{name} is {text[:40]}. Give a whole number of at least {smallest}."
        )
    return int(text)
