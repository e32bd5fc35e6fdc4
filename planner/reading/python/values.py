"""What an expression of Python stands for, with the code that it comes from."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from planner.reading.passage import Expansion, Passage
from planner.values import frozen

Place: TypeAlias = "tuple[int, int]"
"""Characters of the page."""
_LONGEST_SOURCE = 80


@frozen(eq=False)
class Value:
    """What an expression stands for: one of the following."""

    node: ast.expr | None = None
    """The code that a new value is written in the place of."""
    constant: Any = None
    """A number, a switch, a text or None."""
    text: Passage | None = None
    """A text or a number as it is put into a text, each piece where it is written."""
    items: list[Slot] | None = None
    """Of a list, which may grow."""
    fields: dict[str, Slot] | None = None
    """Of a table, of an object, of a class: what it has by name."""
    open: str = ""
    """The code of what is decided at run time."""
    body: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None = None
    """Of a function or a class."""
    scopes: tuple[dict[str, Slot], ...] = ()
    """What its code sees."""
    bound: Value | None = None
    """The object of a method."""
    around: tuple[Mapping[str, Slot], ...] = ()
    """What decorators say of a function: its GPU."""
    is_part: bool = False
    """Whether it is a text of which a part is open."""
    joined: Value | None = None
    """The list whose words a text is, with blanks between."""

    @property
    def is_text(self) -> bool:
        """Whether it is a text, all of it known or not."""
        return self.is_part or isinstance(self.constant, str)

    @property
    def is_known(self) -> bool:
        """Whether it is a plain value that is known."""
        known = (self.items, self.fields, self.body)
        return not self.open and all(one is None for one in known)


@frozen(eq=False)
class Slot:
    """A value where it is put: an item, an entry, an argument, a variable."""

    value: Value
    use: ast.expr | None = None
    """The expression that gives the value."""
    place: Place | None = None
    """The characters of the whole entry; None: it is taken out by hand."""
    owner: ast.expr | None = None
    """The list that is written with it."""
    condition: str = ""
    """When it is there: `if args.eager`; empty: always."""


Scope: TypeAlias = "dict[str, Slot]"


@frozen(eq=False)
class Call:
    """A call with what it is given."""

    node: ast.Call
    name: str
    """Of the function: `vllm.LLM`."""
    base: Value = field(default_factory=Value)
    """What it is called on."""
    several: Sequence[Slot]
    named: Scope

    @property
    def last(self) -> str:
        """The name without what stands before it."""
        return self.name.rpartition(".")[2]

    @property
    def first(self) -> Value:
        """What it is given first; nothing that is known without it."""
        return self.several[0].value if self.several else Value()

    @property
    def subject(self) -> Value:
        """What it changes: what it is called on, or is given first."""
        base = self.base
        is_known = base.is_text or base.items is not None or base.fields is not None
        return base if is_known else self.first

    @property
    def constants(self) -> list[Any] | None:
        """What it is given, where all of it is known."""
        values = [slot.value for slot in self.several]
        is_known = all(value.is_known for value in values)
        return [value.constant for value in values] if is_known else None

    def at(self, number: int, name: str = "") -> Slot | None:
        """Return what it is given at a place, or by a name."""
        if number < len(self.several):
            return self.several[number]
        return self.named.get(name)


def plain_of(slot: Slot, expansion: Expansion) -> tuple[Any, tuple[str, ...]]:
    """Return a plain value, and the code of what is not known in it."""
    value = slot.value
    expansion.add(1)  # a table can hold another one several times
    if slot.condition:
        shown, opened = plain_of(Slot(value=value), expansion)
        return None, opened or (f"{shown!r} {slot.condition}"[:_LONGEST_SOURCE],)
    if value.items is not None:
        several = [plain_of(one, expansion) for one in value.items]
        return [one for one, _ in several], _all(several)
    if value.fields is not None:
        pairs = value.fields.items()
        named = {name: plain_of(one, expansion) for name, one in pairs}
        return {name: one for name, (one, _) in named.items()}, _all([*named.values()])
    if value.open or value.body is not None:
        return None, (value.open or "a function",)
    try:
        json.dumps(value.constant)  # no argument is a set, bytes or complex
    except TypeError:
        return None, (repr(value.constant)[:_LONGEST_SOURCE],)
    return value.constant, ()


def _all(found: Sequence[tuple[Any, tuple[str, ...]]]) -> tuple[str, ...]:
    return tuple(name for _, names in found for name in names)
