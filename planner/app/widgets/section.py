"""Sections that a button opens, and the list of arguments without a control."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import ipywidgets as w
import traitlets

from planner.app.widgets.actions import ActionList, Row, action
from planner.app.widgets.static_files import script
from planner.engine.settings import flags

_ENV = "env:"


class Toggle(anywidget.AnyWidget):
    """A heading with a button; `value` is whether it is open."""

    _esm = script("toggle.js")

    description = traitlets.Unicode().tag(sync=True)
    value = traitlets.Bool(False).tag(sync=True)


class Section(w.VBox):
    """A button, and below it what it opens; shown only while it is open."""

    def __init__(self, title: str, name: str) -> None:
        self.toggle = Toggle(description=title)
        super().__init__([self.toggle])
        self.add_class("planner-section")
        self.add_class(f"planner-{name}")
        self.toggle.observe(self._toggled, names="value")

    @property
    def is_open(self) -> bool:
        """Whether the contents are on the page."""
        return bool(self.toggle.value)

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the contents below the button; called when it is opened."""
        return ()

    def refresh(self) -> None:
        """Update the contents; called when it is opened."""

    def _toggled(self, change: dict[str, bool]) -> None:
        inside = self.inside() if change["new"] else ()
        self.children = (self.toggle, *inside)
        if change["new"]:
            self.refresh()


class FurtherArguments(ActionList):
    """Lists arguments and variables without a control; `dropped` gets what remains.

    Each can be removed, such as an environment variable of the opened plan.
    """

    def __init__(self, dropped: Callable[[dict[str, Any]], None]) -> None:
        super().__init__("Also given", self._press, shown=20)
        self.add_class("planner-further")
        self._dropped = dropped
        self._values: dict[str, Any] = {}

    def show(self, values: Mapping[str, Any]) -> None:
        """List engine arguments, and the environment variables under `env`."""
        self._values = dict(values)
        arguments = [
            _row(name, " ".join(flags({name: value})))
            for name, value in values.items()
            if name != "env"
        ]
        env = values.get("env") or {}
        self.rows = [
            *arguments,
            *(_row(_ENV + name, f"{name}={value}") for name, value in env.items()),
        ]

    def _press(self, _action: str, key: str) -> None:
        if key.startswith(_ENV):
            env = dict(self._values.get("env") or {})
            env.pop(key.removeprefix(_ENV), None)
            self._dropped(self._values | {"env": env})
        else:
            self._dropped({n: v for n, v in self._values.items() if n != key})


def _row(key: str, text: str) -> Row:
    return {"key": key, "title": text, "actions": [action("remove", "Remove")]}
