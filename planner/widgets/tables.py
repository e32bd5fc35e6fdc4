"""Fields for what stands in an argument that is a table: one truth, seen twice.

A part has no value of its own. What is entered into it is written into the table, and
what somebody writes into the table, it shows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from planner.errors import PlannerError
from planner.widgets.fields import EntryField, Field, Told

Values = Mapping[str, Any]

_ALONE = "count"
"""What a value stands for in the place of a table: {"image": 2}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A field, and where its value stands in the table."""

    field: Field
    path: tuple[str, ...]
    """Names from the outermost on."""
    is_switch: bool = False
    """Whether nothing else means anything without it."""
    starts: Mapping[str, Values] | None = None
    """What else is written for a value, where the table has none of it."""

    def found(self, table: Values) -> object:
        """Return its value in a table; None where it has none."""
        node: object = table
        for key in self.path[:-1]:
            node = _entry(node, key)
        if not isinstance(node, Mapping):
            return node if self.path[-1] == _ALONE else None
        return _entry(node, self.path[-1])

    def placed(self, table: Values, value: object) -> dict[str, Any]:
        """Return the table with this value; None takes it out."""
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
    """Return an entry under its name, or under that with hyphens."""
    if not isinstance(table, Mapping):
        return None
    return table.get(key, table.get(key.replace("_", "-")))


class Table:
    """An argument that is a table, and fields for some of what stands in it."""

    def __init__(
        self, whole: EntryField, parts: Sequence[Part], *, alone: str = ""
    ) -> None:
        self.whole = whole
        self.parts = tuple(parts)
        self._alone = alone
        """What a number in the table's place stands for."""
        self._hint = whole.hint
        self._wrong: dict[str, str] = {}
        self._told: list[Told] = []
        self._is_following = False
        self._is_composing = False
        whole.on_change(lambda _field: self._follow())
        for part in self.parts:
            part.field.on_change(partial(self._compose, part))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The parts' fields, and that of the whole."""
        return (*(part.field for part in self.parts), self.whole)

    @property
    def wrong(self) -> str:
        """What is wrong with an entry that has not reached the table; or nothing."""
        return next(iter(self._wrong.values()), "")

    def on_wrong(self, callback: Told) -> None:
        """Call `callback` when a part changes and the table does not."""
        self._told.append(callback)

    def value(self, name: str) -> object:
        """Return what the field of this name shows; None where it shows nothing."""
        table = self._table() or {}
        return next(p.found(table) for p in self.parts if p.field.name == name)

    def _table(self) -> Values | None:
        """Return what the whole holds; None where that is no table."""
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
                f"{self.whole.name} is no table at present. Put that right first."
            )
        return table

    def _follow(self) -> None:
        """Show in each part what stands in the table now."""
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
        said = (self._hint, self._beyond(table or {}))
        self.whole.show_hint("; ".join(words for words in said if words))

    def _beyond(self, table: Values) -> str:
        """Name what stands in the table and in no field."""
        shown = {part.path for part in self.parts}
        names = [
            ".".join(path)
            for path in _paths(table)
            if path not in shown and (*path, _ALONE) not in shown
        ]
        if not names:
            return ""
        return f"also holds {', '.join(names)}, which no field above shows"

    def _compose(self, part: Part, field: Field) -> None:
        """Write what was entered into the table."""
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
            for callback in self._told:
                callback(field)

    def _write(self, table: Values) -> None:
        self._is_composing = True
        try:
            self.whole.put(table or None)
        finally:
            self._is_composing = False


def _paths(table: Values) -> Iterator[tuple[str, ...]]:
    """Yield the path of each entry that is no table."""
    for key, value in table.items():
        name = key.replace("-", "_")
        if isinstance(value, Mapping) and value:
            yield from ((name, *rest) for rest in _paths(value))
        else:
            yield (name,)
