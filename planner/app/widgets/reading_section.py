"""What a pasted text does: it fills the controls, says so, and is given back changed.

The text is read in a thread. What it does not tell stays as the controls have it; but
a model or a GPU that neither the text nor the user named is asked for, and until then
no plan is shown. Nothing of the text is run, logged or put into a link.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ipywidgets as w

from planner.app.widgets.background import Reader
from planner.app.widgets.callbacks import UNEXPECTED, alert_html
from planner.app.widgets.controls import Controls, FieldGroup
from planner.app.widgets.fields import Field, FieldError
from planner.app.widgets.paste_box import (
    NOT_PUBLISHED,
    PasteBox,
    ReadingView,
    is_address,
    model_named,
    searched,
)
from planner.app.widgets.pasted import (
    LISTED,
    WHICH,
    Host,
    ReadText,
    arguments_left_open,
    found_in,
    list_asked_for,
    open_place,
    still_open,
    tells_of_a_start,
)
from planner.app.widgets.read_html import (
    button,
    buttons,
    changes,
    own_text_html,
    read_text_html,
    set_by,
    taken_for,
)
from planner.errors import PlannerError
from planner.planning.inputs import Inputs
from planner.show.html import Html, tag
from planner.surroundings import is_published

if TYPE_CHECKING:
    from planner.reading import Reading

log = logging.getLogger(__name__)

MARK = "pasted"
"""Shown beside each control that the text set."""
_NOT_UNDERSTOOD = (
    "No plan is shown: the text in the box was not understood. Empty the box, or move "
    "a control, to plan without it."
)
_OPEN_ONE = "Each of these serves what was asked. Open one to see its memory."
_ADDED = ("model", "gpu", "vllm_version")


class ReadingSection(w.VBox):
    """The box, and below it what is still open; fills the controls of its host."""

    def __init__(self, host: Host) -> None:
        self.box = PasteBox(self._given)
        self.view = ReadingView(self._pressed)
        self._questions = w.VBox([])
        self._host = host
        self._reader = Reader()
        self._found: ReadText | None = None
        self._text = ""
        self._start = 1
        self._before: Any = None
        self._asked: dict[str, Any] = {}
        self._marked: set[str] = set()
        self._open: dict[str, str] = {}
        self._controls_of: dict[frozenset[str], Controls] = {}
        super().__init__([self.box, self._questions, self.view])
        self.add_class("planner-reading")

    @property
    def reading(self) -> Reading | None:
        """The last reading that filled the controls."""
        return None if self._found is None else self._found.reading

    @property
    def question(self) -> str:
        """What must be said before there is a plan of the text; empty: nothing."""
        fields = self._host.form.fields
        return " ".join(
            why for name, why in self._open.items() if not fields[name].value
        )

    def changed(self, field: object) -> None:
        """Take the mark off a control that the user moved; explain a log again."""
        if not isinstance(field, Field):
            return
        field.say(mark="")
        if not self.question:
            self._asked = self._asked or self._request()
        if self._found is not None and self._found.answer:
            self._found = replace(self._found, answer=())  # of other controls
            self.view.html = self._html(self._found)
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
            self._refuse(NOT_PUBLISHED)
        else:
            self._take_name_or_read(stripped)

    def _take_name_or_read(self, stripped: str) -> None:
        name = model_named(stripped)
        if name:
            self._guarded(lambda: self._take_model(name))
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
            self._guarded(lambda: self._apply(int(number[:3])), self._alert)

    def _read(self, text: str, start: int, *, is_again: bool = False) -> None:
        asked = self._asked_for()
        self.box.is_busy = True

        def done(found: object) -> None:
            assert isinstance(found, ReadText)
            self.box.is_busy = False
            self._guarded(lambda: self._take(found, is_again=is_again))

        def failed(error: Exception) -> None:
            self.box.is_busy = False
            self._guarded(lambda: self._fail(error))

        self._reader.start(lambda: found_in(text, start, asked), done, failed)

    def _fail(self, error: Exception) -> None:
        """Take a few words for a search of the catalogue; else say what is wrong."""
        name = searched(self._text.strip())
        if not isinstance(error, PlannerError) or not name:
            raise error
        self._take_model(name)

    def _guarded(
        self, action: Callable[[], None], say: Callable[[str], None] | None = None
    ) -> None:
        """Run an action; errors are shown in the box, and the text is not logged."""
        say = say or self._refuse
        try:
            action()
        except PlannerError as error:
            say(str(error))
        except Exception as error:  # noqa: BLE001 - shown and logged
            # The message and the traceback might quote the text.
            log.error("a pasted text was not read: %s", type(error).__name__)  # noqa: TRY400
            say(UNEXPECTED)

    def _refuse(self, message: str) -> None:
        """Say why a text is not read; the plan on the screen is not for it."""
        self._host.hold(_NOT_UNDERSTOOD)
        self._alert(message)

    def _alert(self, message: str) -> None:
        self._reader.cancel()
        self.box.is_busy = False
        self._say("", alert_html(message))

    def _say(self, said: str, html: str) -> None:
        self.box.said = tag("p", said) if said else ""
        self.view.html = html

    def _clear(self) -> None:
        """Forget the text; the controls stay as they are, unless some are empty."""
        self._reader.cancel()
        before = self._before if self.question else None
        self._forget()
        self._ask()
        self.box.is_busy = False
        self._say("", "")
        if before is None:
            self._host.resume()
        else:
            self._host.bring_back(before)

    def _forget(self) -> None:
        self._unmark()
        self._found, self._before, self._open = None, None, {}
        self._host.results.export.give_back(None)

    # The controls

    def _take_model(self, name: str) -> None:
        self._reader.cancel()
        self._begin({} if "gpu" in self._host.named else {"gpu": WHICH["gpu"]})
        self._host.named.add("model")
        self._host.hold()
        self._host.take(None, model=name, **self._unnamed())
        self._mark({"model"})
        self._ask()
        self._say(f"A model: {name}", buttons(button("undo", "Undo")))

    def _take_config(self, config: dict[str, Any]) -> None:
        """Plan the model of a config.json, whose sizes are then under By hand."""
        self._begin({} if "gpu" in self._host.named else {"gpu": WHICH["gpu"]})
        self._host.named.add("model")
        self._host.hold()
        hand = self._host.form.hand
        hand.bring(config)
        self._host.take(None, **self._unnamed())
        self._mark({hand.architecture.name})
        self._ask()
        said = f"The config.json of a model, {hand.architecture.value}; see By hand."
        self._say(said, buttons(button("undo", "Undo")))

    def _begin(self, left_open: dict[str, str], text: str = "") -> None:
        """Forget the text before, and the plan on the screen, which is not of this."""
        before = self._before
        is_same = self.reading is not None and self.reading.given == text
        if before is None or not (is_same or self.question):
            before = self._host.remember()
        self._forget()
        self._before, self._open = before, left_open

    def _unnamed(self) -> dict[str, None]:
        """Return what neither the text nor the user named, to be chosen."""
        return dict.fromkeys(self._open.keys() - self._host.named)

    def _take(self, found: ReadText, *, is_again: bool) -> None:
        reading = found.reading
        name = reading.model or ""
        if str(reading.kind) == "model" and not name:
            self._take_config(json.loads(reading.given))
            return
        if str(reading.kind) == "model" and name != self._text.strip():
            self._take_model(name)  # that its words name
            return
        listed = list_asked_for(reading)
        if listed and not is_again:
            self._search(reading, listed)
        elif not is_again:
            self._begin(still_open(reading), reading.given)
            self._fill(reading)
            open_place(self._host.results, reading)
        self._found = found
        self._ask()
        self._say(taken_for(reading), self._html(found))
        if reading.start is not None:
            self._host.results.export.give_back(self._own_text)

    def _fill(self, reading: Reading) -> None:
        """Set the controls to a start; an error alone tells of a GPU at most."""
        if reading.refused_gpu:  # the chosen one is not meant
            self._host.named.discard("gpu")
        unnamed = self._unnamed()
        self._host.named &= self._open.keys()
        if tells_of_a_start(reading):
            self._host.hold()
            self._host.take(self._inputs(reading), **unnamed)
        elif reading.gpu is not None or unnamed:
            self._host.hold()
            named = {} if reading.gpu is None else {"gpu": reading.gpu}
            self._host.take(None, **named, **unnamed)
        self._mark(set_by(reading))
        self._asked = self._request()

    def _search(self, reading: Reading, name: str) -> None:
        """List what a question asks for: of another model or GPU there is no plan."""
        from planner.reading.questions.searching import searched_from  # noqa: PLC0415 - slow

        self._begin({}, reading.given)
        open_name = LISTED[name]
        self._host.named.discard(open_name)
        value = self._host.form.fields[open_name].value
        self._host.take(self._inputs(searched_from(reading, open_name, value)))
        self._mark(set_by(reading))
        self._asked = self._request()
        self._host.results.search(name, _OPEN_ONE)

    def _inputs(self, reading: Reading) -> Inputs:
        """Return the inputs of a start; of what it leaves open, the controls'."""
        values = {name: field.value for name, field in self._host.form.fields.items()}
        told = replace(
            reading, unknown=(), model=reading.model or values["model"] or "-"
        )
        version = reading.vllm_version or values["vllm_version"]
        return told.inputs(reading.gpu or values["gpu"] or "H100", vllm_version=version)

    def _ask(self) -> None:
        """Show the controls of what the text leaves open, here too."""
        fields = self._host.form.fields
        told = () if self.reading is None else arguments_left_open(self.reading)
        names = frozenset([*self._open, *(name for name in told if name in fields)])
        if names not in self._controls_of:
            asked = [fields[name] for name in sorted(names)]
            made = Controls([FieldGroup("Still to be said", asked)])
            made.add_class("planner-open")
            self._controls_of[names] = made
        shown = [self._controls_of[names]] if names else []
        if shown != list(self._questions.children):
            self._questions.children = shown

    def _mark(self, names: set[str]) -> None:
        form = self._host.form
        parts = form.features.parts
        for name, field in {**form.fields, **parts}.items():
            if name.partition(".")[0] in names and (name in names or field.is_set):
                field.say(mark=MARK)
                self._marked.add(name)

    def _unmark(self) -> None:
        form = self._host.form
        fields = {**form.fields, **form.features.parts}
        for name in self._marked:
            fields[name].say(mark="")
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

    def _asked_for(self) -> dict[str, Any]:
        """Return what the controls add to a log: no model or GPU that nobody named."""
        fields = self._host.form.fields
        asked = self._request() or {name: fields[name].value for name in _ADDED}
        kept = asked.keys() - (WHICH.keys() - self._host.named)
        return {name: asked[name] for name in kept if asked[name]}

    def _request(self) -> dict[str, Any]:
        try:
            return self._host.request()
        except FieldError:
            return {}

    # The text, given back

    def _html(self, found: ReadText) -> Html:
        form = self._host.form
        fields = {**form.fields, **form.features.parts}.values()
        wrong = next((f.error for f in fields if f.error and not self.question), "")
        return read_text_html(found, self._start, self._names(), wrong)

    def _own_text(self) -> Html:
        """Write the user's text with what changed in the controls since."""
        assert self.reading is not None
        return own_text_html(self.reading, changes(self._asked, self._host.request()))
