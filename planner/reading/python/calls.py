"""Calls: of functions of the code, and of those whose result is known.

A row of a table says which rule reads a name, by what it is called on.

Source: Python 3.13 `os`, `shlex`, `json`, `argparse`, `str`, `dict`, `list`,
`string.Template`; click 8.3, typer 0.20 options; dataclasses, pydantic 2 fields.
"""

from __future__ import annotations

import ast
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from planner.reading.python.expressions import NAMED
from planner.reading.python.functions import Functions
from planner.reading.python.values import Call, Scope, Slot, Value, plain_of

_CALLED_BY = ("remote", "local", "spawn", "bind")
"""Attributes by which a function is called elsewhere."""
_DECLARES = ("option", "argument")
_FLAGS = {"store_true": False, "store_false": True}
_LONGEST = 200
"""Characters of a text that is changed."""
_NUMBERS: Mapping[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
}


def _rows(**rows: str) -> Mapping[str, str]:
    """Return the rule of each name, from the names of each rule."""
    return {name: rule for rule, names in rows.items() for name in names.split()}


_OF_LIST = _rows(copy="copy", grown="append extend")
_OF_TABLE = _rows(
    copy="copy",
    same="parse_args parse_known_args parse_intermixed_args model_dump dict "
    "add_argument_group add_mutually_exclusive_group",
    set_entries="update setdefault set_defaults",
    entry="get pop",
    entries="items keys values",
    declared="add_argument",
)
_SAME = "strip lstrip rstrip dedent cleandoc Path expanduser realpath abspath "
"""What changes a text in nothing that matters to a command."""
_OF_TEXT = _rows(
    same=_SAME,
    words="split",
    formatted="format",
    substituted="substitute safe_substitute",
    joined="join",
    changed="replace lower upper removeprefix removesuffix",
)
FUNCTIONS = _rows(
    default="field Field Option Argument Query Parameter",
    number=" ".join(_NUMBERS),
    same=f"{_SAME} from_pretrained Template",
    copy="list tuple copy deepcopy asdict vars DictConfig",
    parser="ArgumentParser FlexibleArgumentParser",
    table="dict Namespace SimpleNamespace",
    variable="getenv",
    text="str",
    words="split",
    length="len",
    entry="get",
    json="dumps",
)
"""Functions of other modules by what they give back."""


class Calls(Functions):
    """Follows calls; what starts vLLM among them is the matter of a class below."""

    def _call(self, node: ast.Call) -> Value | None:
        several = list(self.items_of(node.args, None))
        named = self.named(node)
        below = node.func.value if isinstance(node.func, ast.Attribute) else None
        base = Value() if below is None else self.value(below)
        name = self.dotted(node.func)
        call = Call(node=node, name=name, base=base, several=several, named=named)
        method = self._known(call, _rows_of(base))
        if method is not None:
            return method
        function = self._function(node.func, base)
        if function is not None:
            return self.call(function, several, named, node)
        found = self.started(call) or self._known(call, FUNCTIONS)
        if found is None and call.last[:1].isupper() and named:
            # an object of a class from elsewhere
            return replace(self.unknown(node), fields=named, text=None)
        return found

    def _known(self, call: Call, rows: Mapping[str, str]) -> Value | None:
        """Return what the rule of a name gives back; None without one."""
        rule = rows.get(call.last)
        return None if rule is None else getattr(self, f"_as_{rule}")(call)

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

    def _function(self, node: ast.expr, base: Value) -> Value | None:
        """Return a function or a class of this code, of `serve.remote` too."""
        if isinstance(node, ast.Attribute):
            is_called = node.attr in _CALLED_BY
            found = base if is_called else self.attribute(node, base)
        else:
            found = self.value(node)
        return None if found.body is None else found

    @abstractmethod
    def started(self, call: Call) -> Value | None:
        """Take a call that starts vLLM; return what stands for its result."""

    def _as_same(self, call: Call) -> Value | None:
        """Return a text that is changed in nothing, or its model's name for a model."""
        found = call.subject
        if found.fields is not None:
            return Value(node=call.node, fields=found.fields)
        return found if found.is_text else None

    def _as_copy(self, call: Call) -> Value | None:
        found = call.subject
        if found.items is not None:
            return Value(node=call.node, items=list(found.items))
        if found.fields is None:
            return None
        return Value(node=call.node, fields={**found.fields})

    def _as_grown(self, call: Call) -> Value | None:
        items, first = call.base.items, call.at(0)
        if items is None or first is None:
            return None
        if call.last == "append":
            self.grow(items, [replace(first, place=None, owner=None)])
        else:
            self.grow(items, self.all_of(first.value, call.node.args[0]))
        return self.calculated(call.node, None)

    def _as_set_entries(self, call: Call) -> Value:
        fields = call.base.fields or {}
        more, second = dict(call.first.fields or {}), call.at(1)
        if call.last == "setdefault" and call.first.constant not in fields and second:
            more = {str(call.first.constant): second}
        for entry, slot in {**more, **call.named}.items():
            self.put(fields, entry, replace(slot, place=None))
        return self.calculated(call.node, None)

    def _as_entry(self, call: Call) -> Value | None:
        """Return an entry of a table; of one that is not known, the default."""
        found = (call.base.fields or {}).get(str(call.first.constant)) or call.at(1)
        return None if found is None else self.one(found)

    def _as_entries(self, call: Call) -> Value:
        fields, node = call.base.fields or {}, call.node
        self.page.expansion.add(len(fields))
        items = list(fields.values())
        if call.last != "values":
            keys = [Slot(value=self.calculated(node, n), use=node) for n in fields]
            pairs = zip(keys, items, strict=True)
            both = [Value(node=node, items=[*pair]) for pair in pairs]
            is_keys = call.last == "keys"
            items = keys if is_keys else [Slot(value=one, use=node) for one in both]
        return Value(node=node, items=items)

    def _as_declared(self, call: Call) -> Value:
        self._option(call.base, call)
        return self.calculated(call.node, None)

    def _as_formatted(self, call: Call) -> Value | None:
        return self.formatted(call.node, call.base, call.several, call.named)

    def _as_substituted(self, call: Call) -> Value | None:
        table = {**(call.first.fields or {}), **call.named}
        return self.filled(call.node, call.base, NAMED, (), table)

    def _as_joined(self, call: Call) -> Value | None:
        """Return the text of a list; a command of it can be read as the list."""
        between = str(call.base.constant)
        if call.first.items is None:
            return None
        values = [slot.value for slot in call.first.items]
        made = self.together(call.node, values, between)
        joined = None if between.strip() else call.first
        return made and replace(made, joined=joined)

    def _as_changed(self, call: Call) -> Value | None:
        """Return what a method makes of a text that is known."""
        text, given = call.base.constant, call.constants
        parts = [text, *given] if isinstance(text, str) and given is not None else []
        if not parts or any(len(str(part)) > _LONGEST for part in parts):
            return None
        try:
            return self.calculated(call.node, getattr(text, call.last)(*parts[1:]))
        except TypeError:
            return None

    def _as_words(self, call: Call) -> Value | None:
        """Return the words of a text, each where it is written."""
        text = call.subject
        if text.open or text.text is None:
            return replace(text, node=call.node, joined=None) if text.is_text else None
        plain = replace(text.text, text=text.text.text.replace("\n", " "))
        return Value(node=call.node, constant=plain.text, text=plain)

    def _as_default(self, call: Call) -> Value | None:
        default = call.at(0, "default")
        return None if default is None else self.one(default)

    def _as_table(self, call: Call) -> Value | None:
        base = call.first.fields if call.several else {}
        if base is None:
            return None
        return Value(node=call.node, fields={**base, **call.named})

    def _as_parser(self, call: Call) -> Value:
        return Value(node=call.node, fields={})

    def _as_variable(self, call: Call) -> Value | None:
        """Return a variable of the environment: as the text sets it, or its default."""
        found = (self.environ.fields or {}).get(str(call.first.constant))
        chosen = found or call.at(1, "default")
        return None if chosen is None else self.one(chosen)

    def _as_text(self, call: Call) -> Value | None:
        first = call.first
        if first.text is None or first.constant is None:
            return first if first.text else None
        return replace(first, constant=str(first.constant))

    def _as_number(self, call: Call) -> Value | None:
        is_known = bool(call.several) and call.first.is_known
        return _number(call.first, _NUMBERS[call.last]) if is_known else None

    def _as_length(self, call: Call) -> Value | None:
        items = call.first.items
        return None if items is None else self.calculated(call.node, len(items))

    def _as_json(self, call: Call) -> Value | None:
        plain, opened = plain_of(call.several[0], self.page.expansion)
        return None if opened else self.calculated(call.node, json.dumps(plain))

    def _option(self, parser: Value, call: Call) -> None:
        """Declare an option of a program: its default is what it stands for."""
        flags = [str(slot.value.constant) for slot in call.several] or [""]
        longest = next((flag for flag in flags if flag.startswith("--")), flags[0])
        given = call.named.get("dest")
        name = longest.lstrip("-").replace("-", "_")
        name = str(given.value.constant) if given else name
        if parser.fields is not None:
            self.put(parser.fields, name, self._default(call, longest))

    def _default(self, call: Call, flag: str) -> Slot:
        action, default = call.named.get("action"), call.named.get("default")
        is_set = _FLAGS.get(str(action.value.constant)) if action else None
        if default is None and is_set is None:
            return Slot(
                value=replace(self.unknown(call.node), open=flag), use=call.node
            )
        if default is None:
            return Slot(value=self.calculated(call.node, is_set), use=call.node)
        kind = call.named.get("type")
        by = None if kind is None else kind.use
        convert = None if by is None else _NUMBERS.get(self.dotted(by))
        value = default.value
        if convert is not None and isinstance(value.constant, str):
            value = _number(value, convert) or value
        return replace(default, value=value)

    def options_of(self, body: ast.FunctionDef | ast.AsyncFunctionDef) -> Scope:
        """Return the defaults of options that decorators declare."""
        found: Scope = {}
        for one in body.decorator_list:
            name = self.dotted(one.func) if isinstance(one, ast.Call) else ""
            if isinstance(one, ast.Call) and name.rpartition(".")[2] in _DECLARES:
                several, named = list(self.items_of(one.args, None)), self.named(one)
                call = Call(node=one, name=name, several=several, named=named)
                self._option(Value(fields=found), call)
        return found


def _rows_of(base: Value) -> Mapping[str, str]:
    if base.items is not None:
        return _OF_LIST
    if base.fields is not None:
        return _OF_TABLE
    return _OF_TEXT if base.is_text else {}


def _number(value: Value, kind: Callable[[Any], Any]) -> Value | None:
    """Return a value as a number; None where it is none."""
    try:
        return replace(value, constant=kind(value.constant))
    except (TypeError, ValueError, OverflowError):
        return None
