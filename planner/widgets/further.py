"""What has no control of its own, such as environment variables: seen, taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.engine import flags
from planner.widgets.actions import ActionList, Row, action

_ENV = "env:"


class FurtherArguments(ActionList):
    """Lists variables and what else is given; `dropped` gets what stays."""

    def __init__(self, dropped: Callable[[dict[str, Any]], None]) -> None:
        super().__init__("Also given", self._press, shown=20)
        self.add_class("planner-further")
        self._dropped = dropped
        self._values: dict[str, Any] = {}

    def show(self, values: Mapping[str, Any]) -> None:
        """List engine arguments by name, and variables under `env`."""
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
