"""What a pasted text does: it fills the controls, says so, and is given back changed.

The text is read in a thread. What it does not tell stays as the controls have it: the
GPU, the release. Nothing of it is run, logged or put into a link.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import ipywidgets as w

import planner
from planner.app.widgets.background import Reader
from planner.app.widgets.callbacks import UNEXPECTED, alert_html
from planner.app.widgets.controls import Controls, Group
from planner.app.widgets.fields import Field, FieldError
from planner.app.widgets.paste_box import (
    PasteBox,
    ReadingView,
    button,
    buttons,
    changes,
    explained_html,
    is_address,
    model_named,
    own_text_html,
    reading_html,
    searched,
    set_by,
    taken_for,
)
from planner.errors import PlannerError
from planner.planning.inputs import Inputs
from planner.show.html import Content, Html, fragment, tag
from planner.surroundings import is_published
from planner.values import frozen

if TYPE_CHECKING:
    from planner.app.widgets.form import Form
    from planner.export.texts import Reading
    from planner.export.texts.explaining import Explanation

log = logging.getLogger(__name__)

MARK = "pasted"
"""Shown beside each control that the text set."""
_MOST_STARTS = 12
_NOT_PUBLISHED = (
    "Addresses are not asked by a published planner. Paste the server's start-up log, "
    "or its command; a planner on your own machine asks the server."
)


class Host(Protocol):
    """What the section needs of the explorer around it."""

    form: Form

    def take(self, inputs: Inputs) -> None:
        """Set every control, and plan."""

    def remember(self) -> object:
        """Return the state of all controls."""

    def bring_back(self, before: Any) -> None:  # noqa: ANN401 - what it remembered
        """Return to a state, and plan."""

    def request(self) -> dict[str, Any]:
        """Return what the controls ask for."""

    def give_back(self, write: Callable[[], Html] | None) -> None:
        """Offer the user's own text among the exports; None: no longer."""


@frozen
class Found:
    """What the thread read."""

    reading: Reading
    starts: tuple[str, ...] = ()
    """What the text calls its starts, where it has several."""
    explanation: Explanation | None = None
    refusal: str = ""
    """Why there is no explanation of a log or an error."""


class ReadingSection(w.VBox):
    """The box, and below it what is still open; fills the controls of its host."""

    def __init__(self, host: Host) -> None:
        self.box = PasteBox(self._given)
        self.view = ReadingView(self._pressed)
        self._questions = w.VBox([])
        self._host = host
        self._reader = Reader()
        self._found: Found | None = None
        self._text = ""
        self._start = 1
        self._before: object = None
        self._asked: dict[str, Any] = {}
        self._marked: set[str] = set()
        self._open: frozenset[str] = frozenset()
        self._controls_of: dict[frozenset[str], Controls] = {}
        super().__init__([self.box, self._questions, self.view])
        self.add_class("planner-reading")

    @property
    def reading(self) -> Reading | None:
        """The last reading that filled the controls."""
        return None if self._found is None else self._found.reading

    def changed(self, field: object) -> None:
        """Take the mark off a control that the user moved; explain a log again."""
        if not isinstance(field, Field):
            return
        field.show_mark("")
        if field.name in self._open and self._found is not None:
            self._read(self._found.reading.given, self._start, is_again=True)

    def wait(self, seconds: float) -> None:
        """Wait until the text has been read."""
        self._reader.wait(seconds)

    # What the page sends

    def _given(self, text: str, is_whole: bool) -> None:
        """Read a text; a name, a path or an address only once it is typed whole."""
        stripped = text.strip()
        is_one_word = len(stripped.split(maxsplit=1)) <= 1
        if stripped and is_one_word and not is_whole:
            return
        self._text, self._start = text, 1
        if not stripped:
            self._clear()
        elif len(text) > self.box.most:
            self._refuse(
                f"The text holds more than {self.box.most:,} characters. Paste a part: "
                "the command, or vLLM's first and last lines."
            )
        elif is_published() and is_address(stripped):
            self._refuse(_NOT_PUBLISHED)
        else:
            self._take_name_or_read(stripped)

    def _take_name_or_read(self, stripped: str) -> None:
        name = model_named(stripped)
        if name:
            self._take_model(name)
        else:
            self._read(self._text, 1)

    def _pressed(self, name: str) -> None:
        word, _, number = name.partition(" ")
        if word == "undo":
            self._undo()
        elif word == "start" and number.isdecimal():
            self._start = int(number[:3])
            self._read(self._text, self._start)
        elif word == "apply" and number.isdecimal():
            self._guarded(lambda: self._apply(int(number[:3])))

    # Reading

    def _read(self, text: str, start: int, *, is_again: bool = False) -> None:
        asked = self._request() or _controls(self._host)
        self.box.is_busy = True

        def done(found: object) -> None:
            assert isinstance(found, Found)
            self.box.is_busy = False
            self._guarded(lambda: self._take(found, is_again=is_again))

        def failed(error: Exception) -> None:
            self.box.is_busy = False
            self._guarded(lambda: self._fail(error))

        self._reader.start(lambda: _found(text, start, asked), done, failed)

    def _fail(self, error: Exception) -> None:
        """Take a few words for a search of the catalogue; else say what is wrong."""
        name = searched(self._text.strip())
        if not isinstance(error, PlannerError) or not name:
            raise error
        self._take_model(name)

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run an action; errors are shown in the box, and the text is not logged."""
        try:
            action()
        except PlannerError as error:
            self._refuse(str(error))
        except Exception as error:  # noqa: BLE001 - shown and logged
            # The message and the traceback might quote the text.
            log.error("a pasted text was not read: %s", type(error).__name__)  # noqa: TRY400
            self._refuse(UNEXPECTED)

    def _refuse(self, message: str) -> None:
        self._reader.cancel()
        self.box.is_busy = False
        self._say("", alert_html(message))

    def _say(self, said: str, html: str) -> None:
        self.box.said = tag("p", said) if said else ""
        self.view.html = html

    def _clear(self) -> None:
        """Forget the text; the controls stay as they are."""
        self._reader.cancel()
        self._forget()
        self._ask()
        self.box.is_busy = False
        self._say("", "")

    def _forget(self) -> None:
        self._unmark()
        self._found, self._before, self._open = None, None, frozenset()
        self._host.give_back(None)

    # The controls

    def _take_model(self, name: str) -> None:
        self._reader.cancel()
        self._forget()
        self._ask()
        self._before = self._host.remember()
        self._host.form.model.value = name
        self._mark({"model"})
        self._say(f"A model: {name}", buttons(button("undo", "Undo")))

    def _take(self, found: Found, *, is_again: bool) -> None:
        reading = found.reading
        name = reading.model or ""
        if str(reading.kind) == "model" and name != self._text.strip():
            self._take_model(name)  # that its words name
            return
        if not is_again:
            before = self._remembered(reading)
            self._forget()
            self._before = before
            self._fill(reading)
        self._found = found
        self._open = _still_open(reading)
        self._ask()
        self._say(taken_for(reading), self._html(found))
        if reading.start is not None:
            self._host.give_back(self._own_text)

    def _remembered(self, reading: Reading) -> object:
        """Return the state before this text: also where another start of it is read."""
        if self.reading is not None and self.reading.given == reading.given:
            return self._before
        return self._host.remember()

    def _fill(self, reading: Reading) -> None:
        """Set the controls to a start; an error alone tells of none."""
        if not _tells_of_a_start(reading):
            return
        asked = _controls(self._host)
        told = replace(reading, unknown=(), model=reading.model or asked["model"])
        version = reading.vllm_version or asked["vllm_version"]
        self._host.take(told.inputs(reading.gpu or asked["gpu"], vllm_version=version))
        self._mark(set_by(reading))
        self._asked = self._request()

    def _ask(self) -> None:
        """Show the controls of what the text leaves open, here too."""
        if self._open not in self._controls_of:
            fields = [self._host.form.fields[name] for name in sorted(self._open)]
            made = Controls([Group("The text does not say", fields)])
            made.add_class("planner-open")
            self._controls_of[self._open] = made
        shown = [self._controls_of[self._open]] if self._open else []
        if shown != list(self._questions.children):
            self._questions.children = shown

    def _mark(self, names: set[str]) -> None:
        form = self._host.form
        parts = form.features.parts
        for name, field in {**form.fields, **parts}.items():
            if name.partition(".")[0] in names and (name in names or field.is_set):
                field.show_mark(MARK)
                self._marked.add(name)

    def _unmark(self) -> None:
        form = self._host.form
        fields = {**form.fields, **form.features.parts}
        for name in self._marked:
            fields[name].show_mark("")
        self._marked.clear()

    def _names(self) -> list[str]:
        return [name for name in self._host.form.fields if name in self._marked]

    def _undo(self) -> None:
        before = self._before
        if before is None:
            return
        self._reader.cancel()
        self._forget()
        self._ask()
        self._host.bring_back(before)
        self._say("Undone: the controls are as they were.", "")

    def _apply(self, index: int) -> None:
        """Apply the changes of a fix to the controls."""
        found = self._found
        explained = None if found is None else found.explanation
        fixes = () if explained is None else explained.fixes
        if index < len(fixes):
            asked = self._host.request() | dict(fixes[index].changes)
            self._host.take(Inputs(model=asked["model"]).changed(**asked))

    def _request(self) -> dict[str, Any]:
        try:
            return self._host.request()
        except FieldError:
            return {}

    # The text, given back

    def _html(self, found: Found) -> Html:
        starts = [
            button(f"start {number}", label, is_pressed=number == self._start)
            for number, label in enumerate(found.starts, 1)
        ]
        form = self._host.form
        fields = {**form.fields, **form.features.parts}.values()
        wrong = next((field.error for field in fields if field.error), "")
        first: list[Content] = [
            buttons(*starts) if starts else None,
            alert_html(f"There is no plan yet. {wrong}") if wrong else None,
            alert_html(found.refusal) if found.refusal else None,
            explained_html(found.explanation) if found.explanation else None,
        ]
        last = buttons(button("undo", "Undo"))
        return fragment(reading_html(found.reading, self._names(), first), last)

    def _own_text(self) -> Html:
        """Write the user's text with what changed in the controls since."""
        assert self.reading is not None
        return own_text_html(self.reading, changes(self._asked, self._host.request()))


def _controls(host: Host) -> dict[str, Any]:
    """Return what the controls say of what a text may leave open."""
    fields = host.form.fields
    return {name: fields[name].value for name in ("model", "gpu", "vllm_version")}


def _found(text: str, start: int, asked: Mapping[str, Any]) -> Found:
    """Read a text; runs in a thread."""
    reading = planner.read(text, start=start)
    starts = _labels(text, reading)
    if reading.log is None:
        return Found(reading=reading, starts=starts)
    gpu = asked["gpu"] if reading.gpu is None else None
    try:
        explanation = reading.explain(gpu, **_missing(reading, asked))
    except PlannerError as error:
        return Found(reading=reading, starts=starts, refusal=str(error))
    return Found(reading=reading, starts=starts, explanation=explanation)


def _missing(reading: Reading, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the controls add: all they say to an error alone, else the model."""
    if _tells_of_a_start(reading):
        return {} if reading.model else {"model": asked["model"]}
    return {name: value for name, value in asked.items() if name != "gpu"}


def _tells_of_a_start(reading: Reading) -> bool:
    return bool(reading.model or reading.engine_args or reading.start)


def _labels(text: str, reading: Reading) -> tuple[str, ...]:
    """Return a label for each start of a text; none for a single one."""
    if reading.num_starts < 2:  # noqa: PLR2004 - one start needs no choice
        return ()
    numbers = range(1, min(reading.num_starts, _MOST_STARTS) + 1)
    starts = [planner.read(text, start=number) for number in numbers]
    return tuple(
        f"{number}: {one.shown or one.model or 'start'}"
        for number, one in zip(numbers, starts, strict=True)
    )


def _still_open(reading: Reading) -> frozenset[str]:
    """Return the controls on which the answer depends, and which the text leaves open.

    A model or a GPU that is not told: the release, where it is not, is the newest.
    """
    told = {"model": reading.model, "gpu": reading.gpu}
    return frozenset(name for name, value in told.items() if value is None)
