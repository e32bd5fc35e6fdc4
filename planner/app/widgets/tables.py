"""Fields for the entries of an argument that is a table.

A part has no value of its own: what is entered into it is written into the table, and
it shows what the table has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from planner.app.widgets.fields import Callback, EntryField, Field
from planner.errors import PlannerError
from planner.values import frozen

Values = Mapping[str, Any]

_ALONE = "count"
"""The key that a value means in the place of a table: {"image": 2}."""


@frozen
class SubField:
    """A field, and the place of its value in the table."""

    field: Field
    path: tuple[str, ...]
    """Keys, from the outermost on."""
    is_switch: bool = False
    """Whether the rest of the table has no meaning without it."""
    starts: Mapping[str, Values] | None = None
    """For a value, what else is written where the table lacks it."""

    def found(self, table: Values) -> object:
        """Return its value in a table; None where the table lacks it."""
        node: object = table
        for key in self.path[:-1]:
            node = _entry(node, key)
        if not isinstance(node, Mapping):
            return node if self.path[-1] == _ALONE else None
        return _entry(node, self.path[-1])

    def placed(self, table: Values, value: object) -> dict[str, Any]:
        """Return the table with this value; None removes it."""
        if self.is_switch and value is None:
            return {}
        placed = self._placed(table, self.path, value)
        starts = (self.starts or {}).get(str(value), {})
        missing = {n: v for n, v in starts.items() if _entry(placed, n) is None}
        return placed | missing

    def _placed(
        self, table: Values, path: tuple[str, ...], value: object
    ) -> dict[str, Any]:
        key, *deeper = path
        made: Any = value
        if deeper:
            inside = _entry(table, key)
            if not isinstance(inside, Mapping):
                inside = {} if inside is None else {_ALONE: inside}
            made = self._placed(inside, tuple(deeper), value) or None
            if made is not None and set(made) == {_ALONE}:
                made = made[_ALONE]
        result: dict[str, Any] = {}
        for name, kept in table.items():
            if name.replace("-", "_") != key:
                result[name] = kept
            elif made is not None:
                result[key] = made
        return result if made is None else {**result, key: made}


def _entry(table: object, key: str) -> object:
    """Return an entry by its key, or by the key with hyphens."""
    if not isinstance(table, Mapping):
        return None
    return table.get(key, table.get(key.replace("_", "-")))


class FieldTable:
    """An argument that is a table, and fields for some of its entries."""

    def __init__(
        self, whole: EntryField, parts: Sequence[SubField], *, alone: str = ""
    ) -> None:
        self.whole = whole
        self.parts = tuple(parts)
        self._alone = alone
        """The key that a number means in the place of the table."""
        self._hint = whole.hint
        self._wrong: dict[str, str] = {}
        self._on_wrong: list[Callback] = []
        self._is_following = False
        self._is_composing = False
        whole.on_change(lambda _field: self._follow())
        for part in self.parts:
            part.field.on_change(partial(self._compose, part))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The parts' fields, then the field of the table."""
        return (*(part.field for part in self.parts), self.whole)

    @property
    def wrong(self) -> str:
        """The error of an entry that is not in the table; empty without one."""
        return next(iter(self._wrong.values()), "")

    def on_wrong(self, callback: Callback) -> None:
        """Call `callback` when a part changes and the table stays as it is."""
        self._on_wrong.append(callback)

    def value(self, name: str) -> object:
        """Return the value of the field with this name; None where it is empty."""
        table = self._table() or {}
        return next(p.found(table) for p in self.parts if p.field.name == name)

    def _table(self) -> Values | None:
        """Return the table; None where the entry is not one."""
        text = str(self.whole.value).strip()
        try:
            found = json.loads(text) if text else {}
        except (ValueError, RecursionError):
            return None
        if type(found) is int and self._alone:
            return {self._alone: found}
        return found if isinstance(found, dict) else None

    def _read_table(self) -> Values:
        table = self._table()
        if table is None:
            raise PlannerError(
                f"{self.whole.name} is not a valid table. Correct it first."
            )
        return table

    def _follow(self) -> None:
        """Show in each part what the table has now."""
        table = self._table()
        if not self._is_composing:
            self._wrong.clear()
        self._is_following = True
        try:
            for part in self.parts:
                if part.field.name in self._wrong:
                    continue
                part.field.show_error("")
                if table is not None:
                    part.field.put(part.found(table))
        finally:
            self._is_following = False
        hints = (self._hint, self._beyond(table or {}))
        self.whole.say(hint="; ".join(words for words in hints if words))

    def _beyond(self, table: Values) -> str:
        """Return a hint about entries of the table that no field shows."""
        shown = {part.path for part in self.parts}
        names = [
            ".".join(path)
            for path in _paths(table)
            if path not in shown and (*path, _ALONE) not in shown
        ]
        if not names:
            return ""
        return f"also holds {', '.join(names)}, which no field above shows"

    def _compose(self, part: SubField, field: Field) -> None:
        """Write a part's entry into the table."""
        if self._is_following:
            return
        before = self.whole.value
        try:
            table = part.placed(self._read_table(), field.read())
        except PlannerError as error:
            self._wrong[field.name] = str(error)
            field.show_error(str(error))
        else:
            self._wrong.pop(field.name, None)
            field.show_error("")
            self._write(table)
        if self.whole.value == before:
            for callback in self._on_wrong:
                callback(field)

    def _write(self, table: Values) -> None:
        self._is_composing = True
        try:
            self.whole.put(table or None)
        finally:
            self._is_composing = False


def _paths(table: Values) -> Iterator[tuple[str, ...]]:
    """Yield the path of each entry that is not itself a table."""
    for key, value in table.items():
        name = key.replace("-", "_")
        if isinstance(value, Mapping) and value:
            yield from ((name, *rest) for rest in _paths(value))
        else:
            yield (name,)
