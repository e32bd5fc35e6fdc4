"""Methods of lists, tables and texts, and the options that programs declare.

Source: Python 3.13 `argparse`, `str`, `dict`, `list`, `string.Template`; click 8.3.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.reading.python.expressions import NAMED
from planner.reading.python.functions import Functions
from planner.reading.python.values import Scope, Slot, Value

_CHANGES = ("replace", "lower", "upper", "removeprefix", "removesuffix")
_LONGEST = 200
"""Characters of a text that is changed."""
_DECLARES = ("option", "argument")
SAME = "strip lstrip rstrip dedent cleandoc Path expanduser realpath abspath".split()
"""What changes a text in nothing that matters to a command."""
_OF_TABLES = (
    "copy parse_args parse_known_args parse_intermixed_args model_dump dict "
    "add_argument_group add_mutually_exclusive_group"
).split()
"""Methods of a table, of a program's options or of an object that give it back."""
NUMBERS: Mapping[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
}
_ITEMS = ("items", "keys", "values")
_FLAGS = {"store_true": False, "store_false": True}


class Methods(Functions):
    """Follows what is called on a value of this code."""

    def method(
        self, node: ast.Call, base: Value, several: Sequence[Slot], named: Scope
    ) -> Value | None:
        """Return what a method of a list, a table or a text gives back."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if base.items is not None:
            return self._of_list(node, base.items, name, several)
        if base.fields is not None:
            return self._of_table(node, base, name, several, named)
        if base.is_text:
            return self._of_text(node, base, name, several, named)
        return None

    def named(self, node: ast.Call) -> Scope:
        """Return the arguments that are given by name."""
        named: Scope = {}
        for word in node.keywords:
            if word.arg is None:
                named |= self.spread(word.value)
                continue
            slot = self.slot(word.value)
            place = (self.at(word.lineno, word.col_offset), self.span(word.value)[1])
            named[word.arg] = replace(slot, place=place)
        return named

    def _of_list(
        self, node: ast.Call, items: list[Slot], name: str, several: Sequence[Slot]
    ) -> Value | None:
        if not several:
            return Value(node=node, items=list(items)) if name == "copy" else None
        if name == "append":
            self.grow(items, [replace(several[0], place=None, owner=None)])
        elif name == "extend":
            self.grow(items, self.all_of(several[0].value, node.args[0]))
        elif name == "insert" and len(several) > 1:
            at = several[0].value.constant
            more = [replace(several[1], place=None, owner=None)]
            self.grow(items, more, at if isinstance(at, int) else None)
        else:
            return None
        return self.calculated(node, None)

    def _of_table(
        self,
        node: ast.Call,
        base: Value,
        name: str,
        several: Sequence[Slot],
        named: Scope,
    ) -> Value | None:
        fields = base.fields if base.fields is not None else {}
        key = several[0].value.constant if several else None
        if name in ("update", "setdefault", "set_defaults"):
            more = dict(several[0].value.fields or {}) if several else {}
            if name == "setdefault" and key not in fields:
                more = {str(key): slot for slot in several[1:]}
            for entry, slot in {**more, **named}.items():
                self.put(fields, entry, replace(slot, place=None))
            return self.calculated(node, None)
        if name in ("get", "pop") and several:
            found = fields.get(str(key)) or (several[1] if len(several) > 1 else None)
            return None if found is None else self.one(found)
        if name in _ITEMS:
            self.page.expansion.add(len(fields))
            return Value(
                node=node,
                items=[self._item(node, name, *one) for one in fields.items()],
            )
        if name == "add_argument":
            self._option(base, node, several, named)
            return self.calculated(node, None)
        if name in _OF_TABLES:
            return Value(node=node, fields=dict(fields) if name == "copy" else fields)
        return None

    def _item(self, node: ast.expr, kind: str, name: str, slot: Slot) -> Slot:
        key = Slot(value=self.calculated(node, name), use=node)
        if kind != "items":
            return key if kind == "keys" else slot
        return Slot(value=Value(node=node, items=[key, slot]), use=node)

    def _of_text(
        self,
        node: ast.Call,
        base: Value,
        name: str,
        several: Sequence[Slot],
        named: Scope,
    ) -> Value | None:
        if name in SAME:
            return base
        if name == "split":
            return self.split(node, base)
        if name == "format":
            return self.formatted(node, base, several, named)
        if name in ("substitute", "safe_substitute"):
            table = several[0].value.fields if several else None
            return self.filled(node, base, NAMED, (), {**(table or {}), **named})
        if name == "join" and several and several[0].value.items is not None:
            return self._joined(node, base, several[0].value)
        return self._changed(node, base.constant, name, several)

    def _joined(self, node: ast.Call, base: Value, words: Value) -> Value | None:
        """Return the text of a list; a command of it can be read as the list."""
        values = [slot.value for slot in words.items or ()]
        made = self.together(node, values, str(base.constant))
        is_blank = not str(base.constant).strip()
        return made and replace(made, joined=words if is_blank else None)

    def _changed(
        self, node: ast.Call, text: object, name: str, several: Sequence[Slot]
    ) -> Value | None:
        """Return what a method makes of a text that is known."""
        if name not in _CHANGES or not isinstance(text, str):
            return None
        given = [slot.value.constant for slot in several if slot.value.is_known]
        is_short = len(text) <= _LONGEST and len("".join(map(str, given))) <= _LONGEST
        if len(given) != len(several) or not is_short:
            return None
        try:
            return self.calculated(node, getattr(text, name)(*given))
        except TypeError:
            return None

    def split(self, node: ast.Call, text: Value) -> Value:
        """Return the words of a text as a list: each stands where it is written."""
        if text.open or text.text is None:
            return replace(text, node=node, joined=None)
        plain = replace(text.text, text=text.text.text.replace("\n", " "))
        return Value(node=node, constant=plain.text, text=plain)

    def number_of(self, value: Value, kind: Callable[[Any], Any]) -> Value | None:
        """Return a value as a number; None where it is none."""
        try:
            return replace(value, constant=kind(value.constant))
        except (TypeError, ValueError, OverflowError):
            return None

    def _option(
        self, parser: Value, node: ast.Call, several: Sequence[Slot], named: Scope
    ) -> None:
        """Declare an option of a program: its default is what it stands for."""
        flags = [str(slot.value.constant) for slot in several] or [""]
        longest = next((flag for flag in flags if flag.startswith("--")), flags[0])
        given = named.get("dest")
        name = longest.lstrip("-").replace("-", "_")
        name = str(given.value.constant) if given else name
        if parser.fields is not None:
            self.put(parser.fields, name, self._default(node, longest, named))

    def _default(self, node: ast.Call, flag: str, named: Scope) -> Slot:
        action = named.get("action")
        is_set = _FLAGS.get(str(action.value.constant)) if action else None
        default = named.get("default")
        if default is None and is_set is None:
            opened = self.unknown(node)
            return Slot(value=replace(opened, open=flag), use=node)
        if default is None:
            return Slot(value=self.calculated(node, is_set), use=node)
        kind = named.get("type")
        by = None if kind is None else kind.use
        convert = None if by is None else NUMBERS.get(self.dotted(by))
        value = default.value
        if convert is not None and isinstance(value.constant, str):
            value = self.number_of(value, convert) or value
        return replace(default, value=value)

    def options_of(self, body: ast.FunctionDef | ast.AsyncFunctionDef) -> Scope:
        """Return the defaults of options that decorators declare."""
        found: Scope = {}
        for one in body.decorator_list:
            if not isinstance(one, ast.Call):
                continue
            if self.dotted(one.func).rsplit(".", 1)[-1] in _DECLARES:
                several = list(self.items_of(one.args, None))
                self._option(Value(fields=found), one, several, self.named(one))
        return found
