"""Expressions of Python by what they stand for, never run.

Each value keeps the code that it is written in; what run time decides is open.
"""

from __future__ import annotations

import ast
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.reading.passage import Composer
from planner.reading.python.texts import Texts, string_of
from planner.reading.python.values import Scope, Slot, Value, plain_of

_LONGEST_SOURCE = 80
_MOST_DIGITS = 10**15
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, several: one in several,
    ast.NotIn: lambda one, several: one not in several,
}
_TYPES = {
    f"torch.{name}": name
    for name in ("float16", "bfloat16", "float32", "half", "float")
}
_MOST_ROUNDS = 64
_PERCENT = re.compile(r"%(?:\((?P<name>\w+)\))?[-+ #0]*\d*(?:\.\d+)?[sdrifg]|%%")
NAMED = re.compile(r"\$\{?(?P<name>[A-Za-z_]\w*)\}?")
_BRACES = re.compile(r"\{(?P<name>\w*)(?:![rsa])?(?::[^{}]*)?\}")


class Expressions(Texts, ABC):
    """The expressions of one piece of code, with the names that they see."""

    def value(self, node: ast.expr) -> Value:
        """Return what an expression stands for."""
        read = getattr(self, f"_{type(node).__name__.lower()}", self.opened)
        found: Value | None = read(node)
        return self.unknown(node) if found is None else found

    def slot(self, node: ast.expr) -> Slot:
        """Return the value of an expression, where it is put."""
        return Slot(value=self.value(node), use=node, place=self.span(node))

    def opened(self, node: ast.expr) -> Value:
        """Return a value that run time decides; what is inside of it is read too."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
        return self.unknown(node)

    def look_up(self, name: str) -> Value | None:
        """Return what a name stands for here; None where the code does not tell."""
        for scope in reversed(self.scopes):
            if name in scope:
                slot = scope[name]
                return self.one(slot)
        return None

    def one(self, slot: Slot) -> Value:
        """Return the value of a slot, open where it is there on a condition."""
        if not slot.condition or slot.use is None:
            return slot.value
        return replace(self.unknown(slot.use), node=slot.use)

    def dotted(self, node: ast.expr) -> str:
        """Return the full name of a function: `vllm.LLM` of `LLM`, imported so."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            names.append(self.imported.get(node.id, node.id))
        elif isinstance(node, ast.Call):
            names.append(self.dotted(node.func) + "()")
        return ".".join(reversed(names))

    def _constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, str):
            return self._string(node, [])
        start, end = self.span(node)
        if str(node.value) != self.text[start:end]:
            return self.calculated(node, node.value)
        part = replace(self.page.part(start, end), encode=self.number)
        return Value(node=node, constant=node.value, text=part)

    def _joinedstr(self, node: ast.JoinedStr) -> Value:
        holes = [one for one in node.values if isinstance(one, ast.FormattedValue)]
        return self._string(node, holes)

    def _string(self, node: ast.expr, holes: Sequence[ast.FormattedValue]) -> Value:
        values = [self.value(hole.value) for hole in holes]
        following = iter(values)
        told: list[bool] = []

        def fill(made: Composer, at: int) -> None:
            told.append(self.put_in(made, next(following, None), at))

        text = string_of(self.page, *self.span(node), fill)
        if text is not None and len(told) == len(holes):
            return self.made_of(node, text, is_open=any(told))
        if isinstance(node, ast.Constant):
            return self.calculated(node, node.value)
        return self.unknown(node)

    def _name(self, node: ast.Name) -> Value:
        if self.imported.get(node.id) == "os.environ":
            return self.environ
        return self._seen(node, self.look_up(node.id))

    def _seen(self, node: ast.expr, found: Value | None) -> Value:
        """Return what a name stands for; of what is open, the name itself."""
        if found is None:
            return self.unknown(node)
        if not found.open or found.fields is not None or found.is_text:
            return found
        opened = self.unknown(node)
        told = f"{opened.open} = {found.open}"[:_LONGEST_SOURCE]
        return opened if found.open == opened.open else replace(opened, open=told)

    def _attribute(self, node: ast.Attribute) -> Value:
        if self.dotted(node) == "os.environ":
            return self.environ
        return self.attribute(node, self.value(node.value))

    def attribute(self, node: ast.Attribute, base: Value) -> Value:
        """Return what a table or an object has by a name."""
        slot = None if base.fields is None else base.fields.get(node.attr)
        if node.attr == "value" and base.is_known and base.constant is not None:
            return base  # of an enumeration
        dtype = _TYPES.get(self.dotted(node))
        if dtype is not None:
            return self.calculated(node, dtype)
        found = self._seen(node, None if slot is None else self.one(slot))
        return found if found.body is None else replace(found, bound=base)

    def _subscript(self, node: ast.Subscript) -> Value:
        base, key = self.value(node.value), self.value(node.slice)
        index = key.constant if key.is_known else None
        if base.fields is not None and isinstance(index, str) and index in base.fields:
            return self._seen(node, self.one(base.fields[index]))
        items = base.items or ()
        if isinstance(index, int) and -len(items) <= index < len(items):
            return self._seen(node, self.one(items[index]))
        return self.unknown(node)

    def _list(self, node: ast.List | ast.Tuple) -> Value:
        return Value(node=node, items=list(self.items_of(node.elts, node)))

    _tuple = _list

    def items_of(
        self, nodes: Sequence[ast.expr], owner: ast.expr | None
    ) -> Iterator[Slot]:
        """Yield the items of a list as it is written, those of `*others` too."""
        for node in nodes:
            if not isinstance(node, ast.Starred):
                yield replace(self.slot(node), owner=owner)
                continue
            several = self.value(node.value)
            if several.items is None:
                unknown = replace(several, items=None, open=f"*{several.open}")
                yield Slot(value=unknown, use=node, place=self.span(node), owner=owner)
                continue
            self.page.expansion.add(len(several.items))
            yield from several.items

    def _dict(self, node: ast.Dict) -> Value:
        fields: dict[str, Slot] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                fields |= self.spread(value)
                continue
            name = self.value(key)
            slot = self.slot(value)
            place = (self.span(key)[0], self.span(value)[1])
            fields[str(name.open or name.constant)] = replace(slot, place=place)
        return Value(node=node, fields=fields)

    def spread(self, node: ast.expr) -> dict[str, Slot]:
        """Return the entries of a table that is put in with two stars."""
        table = self.value(node)
        if table.fields is None:
            return {f"**{table.open}": Slot(value=self.unknown(node), use=node)}
        self.page.expansion.add(len(table.fields))
        return dict(table.fields)

    def _starred(self, node: ast.Starred | ast.Await) -> Value:
        return self.value(node.value)

    _await = _starred

    def _ifexp(self, node: ast.IfExp) -> Value | None:
        truth = self.truth(node.test)
        if truth is None:
            self.value(node.body)
            self.value(node.orelse)
            return None
        return self.value(node.body if truth else node.orelse)

    def _boolop(self, node: ast.BoolOp) -> Value | None:
        values = [self.value(one) for one in node.values]
        is_or = isinstance(node.op, ast.Or)
        for value in values:
            truth = self.truth_of(value)
            if truth is None and not is_or:
                return None
            if truth is is_or:
                return value
        return values[-1]  # of `setting or default`, the default

    def _unaryop(self, node: ast.UnaryOp) -> Value | None:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            truth = self.truth_of(value)
            return None if truth is None else self.calculated(node, not truth)
        is_number = isinstance(value.constant, int | float)
        if isinstance(node.op, ast.USub) and is_number and value.is_known:
            return self.calculated(node, -value.constant)
        return None

    def _compare(self, node: ast.Compare) -> Value | None:
        if len(node.ops) != 1:
            return self.opened(node)
        sides = [self.slot(one) for one in (node.left, node.comparators[0])]
        (left, opened), (right, also) = (
            plain_of(s, self.page.expansion) for s in sides
        )
        compare = _COMPARED.get(type(node.ops[0]))
        if opened or also or compare is None:
            return None
        try:
            return self.calculated(node, bool(compare(left, right)))
        except TypeError:
            return None

    def truth(self, node: ast.expr) -> bool | None:
        """Return whether a condition holds; None where the code does not tell."""
        start, end = self.span(node)
        if "__name__" in self.text[start:end]:
            return True
        return self.truth_of(self.value(node))

    def truth_of(self, value: Value) -> bool | None:
        """Return whether a value counts as true; None where the code does not tell."""
        if value.items is not None:
            return bool(value.items)
        if value.fields is not None:
            return bool(value.fields) or None
        return bool(value.constant) if value.is_known else None

    def _binop(self, node: ast.BinOp) -> Value | None:
        """Return a sum from left to right: it can have as many terms as a text."""
        terms: list[ast.BinOp] = [node]
        while isinstance(terms[-1].left, ast.BinOp):
            terms.append(terms[-1].left)
        found = self.value(terms[-1].left)
        for term in reversed(terms):
            other = self.value(term.right)
            found = self.combined(term, found, other) or self.unknown(term)
        return found

    def combined(
        self, node: ast.BinOp | ast.AugAssign, left: Value, right: Value
    ) -> Value | None:
        """Return what an operator makes of two values; None where it is not known."""
        whole = node if isinstance(node, ast.BinOp) else node.value
        if left.items is not None and right.items is not None:
            self.page.expansion.add(len(left.items) + len(right.items))
            return Value(node=left.node, items=[*left.items, *right.items])
        if left.fields is not None and right.fields is not None:
            self.page.expansion.add(len(left.fields) + len(right.fields))
            return Value(node=left.node, fields={**left.fields, **right.fields})
        if isinstance(node.op, ast.Div) and left.is_text:
            return self.below(whole, left, right)
        if isinstance(node.op, ast.Mod) and left.is_text:
            several = right.items or [Slot(value=right, use=whole)]
            return self.filled(whole, left, _PERCENT, several, right.fields or {})
        if isinstance(node.op, ast.Add) and (left.is_text or right.is_text):
            return self.together(whole, [left, right])
        numbers = [
            one.constant
            for one in (left, right)
            if one.is_known and isinstance(one.constant, int | float)
        ]
        return self._calculation(whole, node.op, numbers)

    def below(self, node: ast.expr, path: Value, name: Value) -> Value | None:
        """Return a path below another one."""
        if not (path.is_text and name.is_text):
            return None
        return self.together(node, [path, self.calculated(node, "/"), name])

    def _calculation(
        self, node: ast.expr, by: ast.operator, numbers: Sequence[Any]
    ) -> Value | None:
        made = _ARITHMETIC.get(type(by))
        is_small = len(numbers) == len("ab") and abs(numbers[-1]) < _MOST_DIGITS
        if made is None or not is_small or (made is operator.pow and numbers[1] > 64):  # noqa: PLR2004 - bits
            return None
        if made is operator.lshift and not 0 <= numbers[1] <= 64:  # noqa: PLR2004 - bits
            return None
        try:
            result = made(*numbers)
        except (ArithmeticError, TypeError, ValueError):
            return None
        is_plain = isinstance(result, int | float) and abs(result) < _MOST_DIGITS
        return self.calculated(node, result) if is_plain else None

    def formatted(
        self, node: ast.Call, text: Value, several: Sequence[Slot], named: Scope
    ) -> Value | None:
        """Return the text of `text.format(...)`."""
        return self.filled(node, text, _BRACES, several, named)

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp) -> Value | None:
        (first, *others) = node.generators
        rounds = self.value(first.iter).items
        if others or first.ifs or rounds is None or len(rounds) > _MOST_ROUNDS:
            self.value(node.elt)
            return None
        outer, items = self.scopes, list[Slot]()
        for one in rounds:
            self.scopes = (*outer, {})
            self.unpack(first.target, self.one(one))
            self.page.expansion.add(1)
            items.append(replace(self.slot(node.elt), place=None))
        self.scopes = outer
        return Value(node=node, items=items)

    _generatorexp = _listcomp

    @abstractmethod
    def unpack(self, target: ast.expr, value: Value) -> None:
        """Give names their values; statements do it with what they keep."""
