"""What functions of Python's own library and of a few others give back.

Source: Python 3.13 `os`, `shlex`, `json`; typer 0.20 options; dataclasses, pydantic 2
fields.
"""

from __future__ import annotations

import ast
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.reading.python.methods import NUMBERS, SAME, Methods
from planner.reading.python.values import Scope, Slot, Value, plain_of

_CALLED_BY = ("remote", "local", "spawn", "bind")
"""Attributes by which a function is called elsewhere."""
FUNCTIONS: Mapping[str, str] = {
    **dict.fromkeys("field Field Option Argument Query Parameter".split(), "default"),
    **dict.fromkeys(NUMBERS, "number"),
    **dict.fromkeys((*SAME, "from_pretrained", "Template"), "same"),
    **dict.fromkeys("list tuple copy deepcopy asdict vars DictConfig".split(), "copy"),
    **dict.fromkeys("cli parse HfArgumentParser".split(), "object"),
    **dict.fromkeys(("ArgumentParser", "FlexibleArgumentParser"), "parser"),
    **dict.fromkeys(("dict", "Namespace", "SimpleNamespace"), "table"),
    "getenv": "variable",
    "str": "text",
    "split": "words",
    "len": "length",
    "join": "path",
    "get": "default_of",
    "max": "extreme",
    "min": "extreme",
    "dumps": "json",
}
"""Functions of other modules by what they give back."""


class Calls(Methods):
    """Follows calls; what starts vLLM among them is the matter of a class below."""

    def _call(self, node: ast.Call) -> Value | None:
        several = list(self.items_of(node.args, None))
        named = self.named(node)
        below = node.func.value if isinstance(node.func, ast.Attribute) else None
        base = Value() if below is None else self.value(below)
        method = self.method(node, base, several, named)
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

    @abstractmethod
    def started(
        self, node: ast.Call, name: str, several: Sequence[Slot], named: Scope
    ) -> Value | None:
        """Take a call that starts vLLM; return what stands for its result."""

    def _known(
        self, node: ast.Call, name: str, several: Sequence[Slot], named: Scope
    ) -> Value | None:
        """Return what a function gives back that the text does not have."""
        last = name.rsplit(".", 1)[-1]
        read = FUNCTIONS.get(last)
        if read is not None:
            return getattr(self, f"_as_{read}")(node, several, named)  # type: ignore[no-any-return]
        if last[:1].isupper() and named:  # an object of a class from elsewhere
            return replace(self.unknown(node), fields=named, text=None)
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
        if first.text is None or first.constant is None:
            return first if first.text else None
        return replace(first, constant=str(first.constant))

    def _as_path(
        self, node: ast.Call, several: Sequence[Slot], _named: Scope
    ) -> Value | None:
        """Return the path of `os.path.join`."""
        path = several[0].value if several else Value()
        for slot in several[1:]:
            path = self.below(node, path, slot.value) or Value()
        return path if path.is_text else None

    def _as_number(
        self, node: ast.Call, several: Sequence[Slot], _named: Scope
    ) -> Value | None:
        kind = NUMBERS[self.dotted(node.func)]
        is_known = bool(several) and several[0].value.is_known
        return self.number_of(several[0].value, kind) if is_known else None

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
        return self.split(node, several[0].value) if is_text else None

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
