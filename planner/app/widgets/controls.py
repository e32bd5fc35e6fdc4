"""Native controls for fields on a page: one widget for all of them.

With an ipywidgets control for each field, a field took five models in every visitor's
kernel, and a step of a slider three messages. Here a step is one message to the kernel
and one back, with the changes of the controls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets

from planner.app.widgets.callbacks import running_loop
from planner.app.widgets.fields import Field
from planner.app.widgets.models import Find, hub_rows
from planner.app.widgets.page_widget import PageWidget
from planner.app.widgets.static_files import script, sheet
from planner.models.sources.hub_models import HubGroup
from planner.show import glossary
from planner.values import frozen

LONGEST_SEARCH = 100


@frozen(kw_only=False)
class FieldGroup:
    """Fields under one heading; an empty title shows no heading."""

    title: str
    fields: Sequence[Field]
    is_folded: bool = False
    """Whether only its title is shown until it is opened."""


def _full_state(_value: object, widget: Controls) -> dict[str, Any]:
    """Return what all fields show now, for a new page."""
    return {name: field.state() for name, field in widget.fields.items()}


class Controls(PageWidget):
    """Shows groups of fields; the fields check what a page sends.

    The page sends `{"set": name, "value": value, "n": number}` and is answered by
    `{"ack": number, "show": changes}` once everything has been planned.
    """

    _esm = script("controls.js")
    _css = sheet("controls.css")
    called = "controls"

    groups: Any = traitlets.List().tag(sync=True)
    """Title, names of fields, and whether it is folded, for each group."""
    gone: Any = traitlets.List().tag(sync=True)
    """Names of the hidden fields; a group with only hidden fields is hidden too."""
    finder = traitlets.Unicode().tag(sync=True)
    """Label of the box that filters the fields; empty: no box, and all groups open."""
    is_disabled = traitlets.Bool(False).tag(sync=True)
    state: Any = traitlets.Dict().tag(sync=True, to_json=_full_state)
    """Only its serialised form is used, with what each field shows."""

    def __init__(self, groups: Sequence[FieldGroup], *, finder: str = "") -> None:
        self.fields = {field.name: field for group in groups for field in group.fields}
        self.find: Find | None = None
        """Searches for models that are not in the list."""
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

    def hear(self, message: Any) -> bool:  # noqa: ANN401 - what a page sent
        """Answer a message."""
        self._is_answering = True
        try:
            return self._answer(message)
        finally:
            self._is_answering = False
            self._flush(_number_of(message))

    def _answer(self, content: object) -> bool:
        match content:
            case {"set": str(name), "value": value}:
                field = self.fields.get(name)
                if self.is_disabled or field is None:
                    return False
                return field.receive(value)
            case {"ready": True}:
                self._catch_up()
                return True
            case {"explain": str(name)}:
                return self._explain(name)
            case {"find": str(text)} if self.find and len(text) <= LONGEST_SEARCH:
                self.find(text, lambda found, why: self._found(text, found, why))
                return True
            case _:
                return False

    def _catch_up(self) -> None:
        """Send a page the changes since the widget was created.

        In JupyterLab the first plan is made before the page can receive messages.
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

    def _found(self, text: str, found: Sequence[HubGroup], why: str) -> None:
        self.send({"found": text, "rows": hub_rows(found), "remark": why})

    def _touched(self, field: Field) -> None:
        self._waiting[field.name] = field
        if self._is_answering or self._is_due:
            return
        loop = running_loop()
        if loop is None:
            self._flush()
        else:
            # Many fields may change together, such as when advice is applied.
            self._is_due = True
            loop.call_soon(self._flush)

    def _flush(self, number: int | None = None) -> None:
        """Send pages the changes since the last message."""
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
    """Return the entries that changed, with an empty text for those removed.

    Where Python runs inside the page, a None would not be passed on.
    """
    return {
        key: new.get(key, "")
        for key in {**old, **new}
        if old.get(key) is not new.get(key) and old.get(key) != new.get(key)
    }


def _number_of(content: object) -> int | None:
    number = content.get("n") if isinstance(content, dict) else None
    return number if type(number) is int else None
