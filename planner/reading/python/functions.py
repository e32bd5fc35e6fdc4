"""Functions and classes of Python: what they give back, with what they are given."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from planner.reading.passage import Passage
from planner.reading.python.interpreter import Running
from planner.reading.python.values import Scope, Slot, Value

_DEEPEST = 12
_Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"


class Functions(Running):
    """Follows functions where they are called, and each other one at the end."""

    def __init__(self, page: Passage) -> None:
        """Store the code."""
        super().__init__(page)
        self.returned: list[Value] = []
        self.around: tuple[Mapping[str, Slot], ...] = ()
        self.depth = 0
        self.functions: list[Value] = []
        self.done: set[ast.AST] = set()

    def run_all(self, tree: ast.Module) -> None:
        """Follow a module, then each function that nothing in it calls."""
        self.run(tree.body)
        for value in self.functions:  # it grows by the functions inside of them
            if value.body not in self.done and value.body is not None:
                self.call(value, [], {}, None)

    def _return(self, node: ast.Return) -> bool:
        if node.value is not None:
            self.returned.append(self.value(node.value))
        return True

    def _functiondef(self, node: _Function) -> None:
        around = self._decorated(node)
        value = Value(body=node, scopes=self.scopes, around=around)
        self.functions.append(value)
        self.put(self.scopes[-1], node.name, Slot(value=value))

    _asyncfunctiondef = _functiondef

    def _decorated(
        self, node: _Function | ast.ClassDef
    ) -> tuple[Mapping[str, Slot], ...]:
        """Return what decorators are given by name."""
        found = []
        for one in node.decorator_list:
            if isinstance(one, ast.Call):
                self.value(one)
                found.append(
                    {
                        word.arg: self.slot(word.value)
                        for word in one.keywords
                        if word.arg
                    }
                )
        return (*self.around, *found)

    def _classdef(self, node: ast.ClassDef) -> None:
        fields: Scope = {}
        for base in node.bases:
            fields |= self.value(base).fields or {}
        before = len(self.functions)
        outer, around = (self.scopes, self.around), self._decorated(node)
        self.scopes, self.around = (*self.scopes, fields), around
        self.run(node.body)
        self.scopes, self.around = outer
        value = Value(body=node, fields=fields, scopes=self.scopes, around=around)
        self.put(self.scopes[-1], node.name, Slot(value=value))
        self.functions[before:] = [
            one if one.bound else replace(one, bound=value)
            for one in self.functions[before:]
        ]

    def made(
        self, kind: Value, several: Sequence[Slot], named: Scope, node: ast.expr | None
    ) -> Value:
        """Return an object of a class, after what makes it was followed."""
        fields = dict(kind.fields or {})
        found = Value(node=node, fields=fields)
        begin = fields.get("__init__")
        if begin is not None and begin.value.body is not None:
            self.call(replace(begin.value, bound=found), several, named, node)
            return found
        names = [name for name, slot in fields.items() if slot.value.body is None]
        for name, slot in (*zip(names, several, strict=False), *named.items()):
            fields[name] = slot
        return found

    def call(
        self,
        function: Value,
        several: Sequence[Slot],
        named: Scope,
        node: ast.expr | None,
    ) -> Value | None:
        """Return what a function gives back; None where that is not known."""
        body = function.body
        if isinstance(body, ast.ClassDef):
            return self.made(function, several, named, node)
        lines = (
            0 if body is None else (body.end_lineno or body.lineno) - body.lineno + 1
        )
        if body is None or self.depth >= _DEEPEST or lines > self.left:
            return None
        self.left -= lines + 1 if body in self.done else 0
        self.done.add(body)
        outer = self.scopes, self.around, self.returned
        bound = function.bound
        if bound is not None and bound.body is not None and self._is_method(body):
            is_made = body.name == "__init__"
            fields = dict(bound.fields or {})
            bound = Value(fields=fields) if is_made else self.made(bound, [], {}, None)
        self.scopes = function.scopes
        local = dict(self._parameters(body, several, named, bound))
        self.scopes = (*function.scopes, local)
        self.around, self.returned = (*self.around, *function.around), []
        self.depth += 1
        self.run(body.body)
        self.depth -= 1
        returned = self.returned
        self.scopes, self.around, self.returned = outer
        told = [one for one in returned if not one.is_known or one.constant is not None]
        return told[0] if len(told) == 1 else None

    def _is_method(self, body: _Function) -> bool:
        return "staticmethod" not in {self.dotted(one) for one in body.decorator_list}

    def _parameters(
        self,
        body: _Function,
        several: Sequence[Slot],
        named: Scope,
        bound: Value | None,
    ) -> Iterator[tuple[str, Slot]]:
        """Yield what the parameters of a function stand for."""
        args = body.args
        plain = [one.arg for one in (*args.posonlyargs, *args.args)]
        by_name = [one.arg for one in args.kwonlyargs]
        defaults: dict[str, ast.expr | None] = {
            **dict(zip(reversed(plain), reversed(args.defaults), strict=False)),
            **dict(zip(by_name, args.kw_defaults, strict=True)),
        }
        if bound is not None and plain and self._is_method(body):
            yield plain.pop(0), Slot(value=bound)
        given = {
            **self.options_of(body),
            **named,
            **dict(zip(plain, several, strict=False)),
        }
        for name in (*plain, *by_name):
            default = defaults.get(name)
            if name in given:
                yield name, given[name]
            elif default is not None:
                yield name, self.slot(default)
        rest = {n: slot for n, slot in named.items() if n not in (*plain, *by_name)}
        for parameter, value in (
            (args.kwarg, Value(fields=rest)),
            (args.vararg, Value(items=[*several[len(plain) :]])),
        ):
            if parameter is not None:
                yield parameter.arg, Slot(value=value)

    @abstractmethod
    def options_of(self, body: _Function) -> Scope:
        """Return the defaults of options that decorators declare."""
