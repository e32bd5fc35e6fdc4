"""Native controls for fields on a page: one widget for all of them.

Each field as an ipywidgets control of its own took five models in every visitor's
kernel and three messages for a step of a slider. Here a step is one message up, and one
down that says what of the controls has changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anywidget
import traitlets

from planner.presentation import glossary
from planner.widgets.fields import Field
from planner.widgets.models import Find
from planner.widgets.static_files import script, sheet

log = logging.getLogger(__name__)

_PARTS = ("controls_parts.js", "controls_model.js", "controls_field.js", "controls.js")
LONGEST_SEARCH = 100


@dataclass(frozen=True, slots=True)
class Group:
    """Fields under one heading; a heading of nothing shows none."""

    title: str
    fields: Sequence[Field]
    is_folded: bool = False
    """Whether it is its title alone until it is opened."""


def _full_state(_value: object, widget: Controls) -> dict[str, Any]:
    """Return what all fields show now, for a page that has just come."""
    return {name: field.state() for name, field in widget.fields.items()}


class Controls(anywidget.AnyWidget):
    """Show groups of fields; what a page sends is untrusted and checked by the field.

    The page sends `{"set": name, "value": value, "n": number}` and is answered by
    `{"ack": number, "show": changes}` once everything has been planned.
    """

    _esm = script(*_PARTS)
    _css = sheet("controls.css")

    groups: Any = traitlets.List().tag(sync=True)
    """Titles, names of fields, and whether they are folded."""
    gone: Any = traitlets.List().tag(sync=True)
    """Names of the fields that are not on the page; a group of none is not either."""
    finder = traitlets.Unicode().tag(sync=True)
    """Label of the box that filters the fields; empty: none, and all groups open."""
    is_disabled = traitlets.Bool(False).tag(sync=True)
    state: Any = traitlets.Dict().tag(sync=True, to_json=_full_state)
    """Only its serialised form is used: what each field shows."""

    def __init__(self, groups: Sequence[Group], *, finder: str = "") -> None:
        self.fields = {field.name: field for group in groups for field in group.fields}
        self.find: Find | None = None
        """Looks up names of models that are not in the list."""
        self._sent = _full_state(None, self)
        self._opened = dict(self._sent)
        self._waiting: dict[str, Field] = {}
        self._is_answering = False
        self._is_due = False
        titles = [
            [group.title, [one.name for one in group.fields], group.is_folded]
            for group in groups
        ]
        super().__init__(groups=titles, finder=finder)
        self.add_class("pc-controls")
        for field in self.fields.values():
            field.on_touch(self._touched)
        self.on_msg(self._heard)

    def set_state(self, sync_data: object) -> None:
        """Ignore what a page says about the state: a page only sends messages."""
        log.warning("a page sent a state to the controls: %.80r", sync_data)

    def _heard(self, _widget: object, content: object, _buffers: object) -> None:
        """Answer a message; one of any other shape comes from no page of ours."""
        self._is_answering = True
        try:
            is_known = self._answer(content)
        finally:
            self._is_answering = False
            self._flush(_number_of(content))
        if not is_known:
            log.warning("a page sent what is no message of the controls")

    def _answer(self, content: object) -> bool:
        match content:
            case {"set": str(name), "value": value}:
                field = self.fields.get(name)
                return not self.is_disabled and field is not None and field.hear(value)
            case {"ready": True}:
                self._catch_up()
                return True
            case {"explain": str(name)}:
                return self._explain(name)
            case {"find": str(text)} if self.find and len(text) <= LONGEST_SEARCH:
                self.find(text, lambda names: self._found(text, names))
                return True
            case _:
                return False

    def _catch_up(self) -> None:
        """Tell a page what has changed since the widget was opened.

        In JupyterLab the first plan is made before the page can listen.
        """
        shown = {
            name: changes
            for name, field in self.fields.items()
            if (changes := _changes(self._opened[name], field.state()))
        }
        if shown:
            self.send({"show": shown})

    def _explain(self, name: str) -> bool:
        field = self.fields.get(name)
        if field is None:
            return False
        self.send({"explained": name, "text": glossary.explained(field.term)})
        return True

    def _found(self, text: str, names: Sequence[str] | None) -> None:
        is_reached = names is not None
        self.send({"found": text, "names": list(names or ()), "is_reached": is_reached})

    def _touched(self, field: Field) -> None:
        self._waiting[field.name] = field
        if self._is_answering or self._is_due:
            return
        loop = _running_loop()
        if loop is None:
            self._flush()
        else:
            # Many fields change together, such as when an advice is applied.
            self._is_due = True
            loop.call_soon(self._flush)

    def _flush(self, number: int | None = None) -> None:
        """Tell pages what has changed since they were told last."""
        self._is_due = False
        shown = {}
        for name, field in self._waiting.items():
            state = field.state()
            changes = _changes(self._sent[name], state)
            if changes:
                self._sent[name] = state
                shown[name] = changes
        self._waiting.clear()
        message: dict[str, object] = {"show": shown} if shown else {}
        if number is not None:
            message["ack"] = number
        if message:
            self.send(message)


def _changes(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return what is new, with an empty text for what is gone.

    A web page that holds this Python would not hear of a None.
    """
    return {
        key: new.get(key, "")
        for key in {**old, **new}
        if old.get(key) is not new.get(key) and old.get(key) != new.get(key)
    }


def _number_of(content: object) -> int | None:
    number = content.get("n") if isinstance(content, dict) else None
    return number if type(number) is int else None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
