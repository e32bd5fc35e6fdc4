"""What functions of Python's own library give back, and the options of programs.

Source: Python 3.13 `argparse`, `os`, `shlex`, `subprocess`; click 8.3, typer 0.20
options; dataclasses, pydantic 2 fields.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.reading.code_expressions import NAMED
from planner.reading.code_functions import Functions
from planner.reading.code_values import Piece, Scope, Slot, Value, plain_of

_CALLED_BY = ("remote", "local", "spawn", "bind")
"""Attributes by which a function is called elsewhere."""
_DECLARES = ("option", "argument")
_SAME = "strip lstrip rstrip dedent cleandoc Path expanduser realpath abspath".split()
"""What changes a text in nothing that matters to a command."""
_OF_TABLES = (
    "copy parse_args parse_known_args parse_intermixed_args model_dump dict "
    "add_argument_group add_mutually_exclusive_group"
).split()
"""Methods of a table, of a program's options or of an object that give it back."""
_NUMBERS: Mapping[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
}
FUNCTIONS: Mapping[str, str] = {
    **dict.fromkeys("field Field Option Argument Query Parameter".split(), "default"),
    **dict.fromkeys(_NUMBERS, "number"),
    **dict.fromkeys((*_SAME, "from_pretrained", "Template"), "same"),
    **dict.fromkeys("list tuple copy deepcopy asdict vars DictConfig".split(), "copy"),
    **dict.fromkeys("cli parse HfArgumentParser".split(), "object"),
    **dict.fromkeys(("ArgumentParser", "FlexibleArgumentParser"), "parser"),
    **dict.fromkeys(("dict", "Namespace", "SimpleNamespace"), "table"),
    "getenv": "variable",
    "str": "text",
    "split": "words",
    "len": "length",
    "get": "default_of",
    "max": "extreme",
    "min": "extreme",
    "dumps": "json",
}
"""Functions of other modules by what they give back."""
_ITEMS = ("items", "keys", "values")
_FLAGS = {"store_true": False, "store_false": True}


class Calls(Functions):
    """Follows calls; what starts vLLM among them is the matter of a class below."""

    def _call(self, node: ast.Call) -> Value | None:
        several = list(self.items_of(node.args, None))
        named = self._named(node)
        below = node.func.value if isinstance(node.func, ast.Attribute) else None
        base = Value() if below is None else self.value(below)
        method = self._method(node, base, several, named)
        if method is not None:
            return method
        name = self.dotted(node.func)
        function = self._function(node.func, base)
        if function is not None:
            return self.call(function, several, named, node)
        found = self.started(node, name, several, named)
        if found is not None:
            return found
        return self._known(node, name, several, named)

    def attribute(self, node: ast.Attribute, base: Value) -> Value:
        """Return what an object has by a name; of a property, what it gives back."""
        found = super().attribute(node, base)
        if isinstance(found.body, ast.FunctionDef):
            names = {self.dotted(one) for one in found.body.decorator_list}
            if names & {"property", "functools.cached_property", "cached_property"}:
                return self.call(found, [], {}, node) or self.unknown(node)
        return found

    def _function(self, node: ast.expr, base: Value) -> Value | None:
        """Return a function or a class of this code, of `serve.remote` too."""
        if isinstance(node, ast.Attribute):
            is_called = node.attr in _CALLED_BY
            found = base if is_called else self.attribute(node, base)
        else:
            found = self.value(node)
        return None if found.body is None else found

    def started(
        self, node: ast.Call, name: str, several: Sequence[Slot], named: Scope
    ) -> Value | None:
        """Take a call that starts vLLM; return what stands for its result."""
        raise NotImplementedError

    def _named(self, node: ast.Call) -> Scope:
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

    def _method(
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
        if name in _SAME:
            return base
        if name == "split":
            return self._split(node, base)
        if name == "format":
            return self.formatted(node, base, several, named)
        if name in ("substitute", "safe_substitute"):
            table = several[0].value.fields if several else None
            return self.filled(node, base, NAMED, (), {**(table or {}), **named})
        if name == "join" and several and several[0].value.items is not None:
            words = several[0].value.items
            pieces: list[Piece] = []
            for slot in words:
                between = base.pieces if pieces else ()
                pieces += [replace(one, token=-1) for one in between]
                pieces += self._term(slot.value)
            made = self.made_of(node, pieces)
            is_blank = not str(base.constant).strip()
            return replace(made, joined=several[0].value if is_blank else None)
        return None

    def _split(self, node: ast.Call, text: Value) -> Value | None:
        """Return the words of a text as a list: each stands where it is written."""
        (first, *others) = text.pieces
        if text.open or others or first.is_whole:
            return replace(text, node=node, joined=None)
        plain = first.text.replace("\n", " ")
        passage = replace(first.passage, text=plain)
        pieces = (replace(first, text=plain, passage=passage),)
        return Value(node=node, constant=plain, pieces=pieces)

    def _known(
        self, node: ast.Call, name: str, several: Sequence[Slot], named: Scope
    ) -> Value | None:
        """Return what a function gives back that the text does not have."""
        last = name.rsplit(".", 1)[-1]
        read = FUNCTIONS.get(last)
        if read is not None:
            return getattr(self, f"_as_{read}")(node, several, named)  # type: ignore[no-any-return]
        if last[:1].isupper() and named:  # an object of a class from elsewhere
            return replace(self.unknown(node), fields=named, pieces=())
        return None

    def _as_default(
        self, _node: ast.Call, several: Sequence[Slot], named: Scope
    ) -> Value | None:
        default = named.get("default") or next(iter(several), None)
        made = named.get("default_factory")
        if default is None and made and isinstance(made.use, ast.Lambda):
            return self.value(made.use.body)
        return None if default is None else self.one(default)

    def _as_default_of(
        self, _node: ast.Call, several: Sequence[Slot], _named: Scope
    ) -> Value | None:
        """Return the default of `settings.get("name", default)`."""
        return self.one(several[1]) if len(several) > 1 else None

    def _as_extreme(
        self, node: ast.Call, several: Sequence[Slot], _named: Scope
    ) -> Value | None:
        numbers = [slot.value.constant for slot in several if slot.value.is_known]
        is_sure = len(numbers) == len(several) > 1 and all(
            isinstance(one, int | float) for one in numbers
        )
        pick = max if self.dotted(node.func) == "max" else min
        return self.calculated(node, pick(numbers)) if is_sure else None

    def _as_table(
        self, node: ast.Call, several: Sequence[Slot], named: Scope
    ) -> Value | None:
        base = several[0].value.fields if several else {}
        return None if base is None else Value(node=node, fields={**base, **named})

    def _as_parser(
        self, node: ast.Call, _several: Sequence[Slot], _named: Scope
    ) -> Value:
        return Value(node=node, fields={})

    def _as_variable(
        self, _node: ast.Call, several: Sequence[Slot], named: Scope
    ) -> Value | None:
        """Return a variable of the environment: as the text sets it, or its default."""
        key = several[0].value.constant if several else None
        found = (self.environ.fields or {}).get(str(key))
        chosen = found or (several[1] if len(several) > 1 else named.get("default"))
        return None if chosen is None else self.one(chosen)

    def _as_text(
        self, _node: ast.Call, several: Sequence[Slot], _named: Scope
    ) -> Value | None:
        first = several[0].value if several else Value()
        if not first.pieces or first.constant is None:
            return first if first.pieces else None
        return replace(first, constant=str(first.constant))

    def _as_number(
        self, node: ast.Call, several: Sequence[Slot], _named: Scope
    ) -> Value | None:
        kind = _NUMBERS[self.dotted(node.func)]
        is_known = bool(several) and several[0].value.is_known
        return self._number_of(several[0].value, kind) if is_known else None

    def _as_same(
        self, _node: ast.Call, several: Sequence[Slot], _named: Scope
    ) -> Value | None:
        """Return a text that is changed in nothing, or its model's name for a model."""
        return several[0].value if several and several[0].value.is_text else None

    def _as_copy(
        self, node: ast.Call, several: Sequence[Slot], _named: Scope
    ) -> Value | None:
        first = several[0].value if several else Value()
        if first.items is not None:
            return Value(node=node, items=list(first.items))
        return (
            None if first.fields is None else Value(node=node, fields={**first.fields})
        )

    def _as_words(
        self, node: ast.Call, several: Sequence[Slot], _named: Scope
    ) -> Value | None:
        is_text = bool(several) and several[0].value.is_text
        return self._split(node, several[0].value) if is_text else None

    def _as_length(
        self, node: ast.Call, several: Sequence[Slot], _named: Scope
    ) -> Value | None:
        items = several[0].value.items if several else None
        return None if items is None else self.calculated(node, len(items))

    def _as_json(
        self, node: ast.Call, several: Sequence[Slot], _named: Scope
    ) -> Value | None:
        plain, opened = plain_of(several[0], self.page.expansion)
        return None if opened else self.calculated(node, json.dumps(plain))

    def _as_object(
        self, node: ast.Call, several: Sequence[Slot], _named: Scope
    ) -> Value | None:
        """Return the object of a class whose fields are a program's options."""
        kind = several[0].value if several else Value()
        return None if kind.body is None else self.call(kind, [], {}, node)

    def _number_of(self, value: Value, kind: Callable[[Any], Any]) -> Value | None:
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
        convert = None if by is None else _NUMBERS.get(self.dotted(by))
        value = default.value
        if convert is not None and isinstance(value.constant, str):
            value = self._number_of(value, convert) or value
        return replace(default, value=value)

    def options_of(self, body: ast.FunctionDef | ast.AsyncFunctionDef) -> Scope:
        """Return the defaults of options that decorators declare."""
        found: Scope = {}
        for one in body.decorator_list:
            if not isinstance(one, ast.Call):
                continue
            if self.dotted(one.func).rsplit(".", 1)[-1] in _DECLARES:
                several = list(self.items_of(one.args, None))
                self._option(Value(fields=found), one, several, self._named(one))
        return found
