"""Statements of Python in their order: what each name stands for when it is used.

Functions are followed with their arguments, and with their defaults where nothing calls
them. What stands on a condition that is not known is there on that condition.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, TypeAlias

from planner.reading.passage import Passage
from planner.reading.python.expressions import Expressions
from planner.reading.python.values import Scope, Slot, Value
from planner.values import frozen

_MOST_LINES = 2_500
"""Lines that are followed again: of functions that are called, of loops."""
_MOST_ROUNDS = 24
_ENDS = (ast.Raise, ast.Continue, ast.Break)
_Change: TypeAlias = "tuple[Any, Any, Any]"
"""A table, a name and the value before; or a list, None and its length before."""


@frozen
class _Branch:
    """What a branch changes, whose changes are undone."""

    stops: bool = False
    """Whether what is behind it is not reached."""
    named: dict[tuple[int, str], tuple[Scope, str, Slot]] = field(default_factory=dict)
    grown: list[tuple[list[Slot], list[Slot]]] = field(default_factory=list)


class Running(Expressions):
    """Follows statements; what they start is the matter of a class below."""

    def __init__(self, page: Passage) -> None:
        """Store the code."""
        super().__init__(page)
        self.journal: list[_Change] | None = None
        self.left = _MOST_LINES
        self.is_handling = False
        """Whether an error is dealt with: what starts then is another try."""
        self.skipped: list[tuple[Sequence[ast.stmt], tuple[Scope, ...]]] = []

    def run(self, statements: Sequence[ast.stmt]) -> bool:
        """Follow statements; return whether what is behind them is not reached."""
        for statement in statements:
            follow = getattr(self, f"_{type(statement).__name__.lower()}", self._other)
            if isinstance(statement, _ENDS) or follow(statement):
                return True
        return False

    def put(self, table: Scope, name: str, slot: Slot) -> None:
        """Set a name, so that it can be undone behind a branch."""
        if self.journal is not None:
            self.journal.append((table, name, table.get(name)))
        table[name] = slot

    def grow(self, items: list[Slot], more: Sequence[Slot]) -> None:
        """Put items at the end of a list."""
        self.page.expansion.add(len(more))
        if self.journal is not None:
            self.journal.append((items, None, len(items)))
        items += more

    def unpack(self, target: ast.expr, value: Value) -> None:
        """Give the names of an assignment their values."""
        if isinstance(target, ast.Name):
            self.put(self.scopes[-1], target.id, Slot(value=value, use=target))
        elif isinstance(target, ast.Tuple | ast.List):
            items = value.items or []
            for at, one in enumerate(target.elts):
                known = at < len(items) == len(target.elts)
                self.unpack(one, self.one(items[at]) if known else self.unknown(one))
        elif isinstance(target, ast.Attribute):
            self._assign_below(target.value, target.attr, target, value)
        elif isinstance(target, ast.Subscript):
            key = self.value(target.slice)
            if isinstance(key.constant, str):
                self._assign_below(target.value, key.constant, target, value)

    def _assign_below(
        self, base: ast.expr, name: str, target: ast.expr, value: Value
    ) -> None:
        table = self.value(base)
        if table.fields is None and isinstance(base, ast.Name):
            table = replace(table, fields={}, open=table.open)
            self.put(self.scopes[-1], base.id, Slot(value=table, use=base))
        if table.fields is not None:
            self.put(table.fields, name, Slot(value=value, use=value.node or target))

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.unpack(target, value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.unpack(node.target, self.value(node.value))
        elif isinstance(node.target, ast.Name):  # a field that each object is given
            self.unpack(node.target, self.unknown(node.target))

    def _augassign(self, node: ast.AugAssign) -> None:
        target, value = self.value(node.target), self.value(node.value)
        if target.items is not None:
            self.grow(target.items, self.all_of(value, node.value))
        elif target.fields is not None and value.fields is not None:
            for name, slot in value.fields.items():
                self.put(target.fields, name, slot)
        else:
            made = self.combined(node, target, value) or self.unknown(node.value)
            self.unpack(node.target, made)

    def all_of(self, value: Value, use: ast.expr) -> list[Slot]:
        """Return the items of a list; one that is open where they are not known."""
        if value.items is not None:
            return value.items
        return [Slot(value=replace(value, open=f"*{value.open}"), use=use)]

    def _expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring says nothing
            self.value(node.value)

    def _import(self, node: ast.Import) -> None:
        for one in node.names:
            self.imported[one.asname or one.name.partition(".")[0]] = (
                one.name if one.asname else one.name.partition(".")[0]
            )

    def _importfrom(self, node: ast.ImportFrom) -> None:
        for one in node.names:
            self.imported[one.asname or one.name] = f"{node.module or '.'}.{one.name}"

    def _if(self, node: ast.If) -> bool:
        truth = self.truth(node.test)
        if truth is not None:
            taken, left = (node.body, node.orelse)[:: 1 if truth else -1]
            self.skipped.append((left, self.scopes))
            is_asked = any(isinstance(one, ast.Call) for one in ast.walk(node.test))
            return self.run(taken) and not is_asked  # what is behind it may run, too
        start, end = self.span(node.test)
        shown = f"if {' '.join(self.text[start:end].split())}"
        branches = [self._branch(node.body), self._branch(node.orelse)]
        self._merge(branches, (shown, f"{shown} is not so"))
        return all(branch.stops for branch in branches)

    def _perhaps(self, statements: Sequence[ast.stmt], shown: str) -> None:
        """Follow statements that may not run."""
        self._merge([self._branch(statements), _Branch()], (shown, ""))

    def _branch(self, statements: Sequence[ast.stmt]) -> _Branch:
        """Follow statements and undo them; return what they changed."""
        outer, self.journal = self.journal, []
        found = _Branch(stops=self.run(statements))
        changes, self.journal = self.journal, outer
        for table, name, old in reversed(changes):
            if name is None:
                found.grown.insert(0, (table, table[old:]))
                del table[old:]
                continue
            found.named.setdefault((id(table), name), (table, name, table[name]))
            if old is None:
                del table[name]
            else:
                table[name] = old
        return found

    def _merge(self, branches: Sequence[_Branch], conditions: Sequence[str]) -> None:
        """Put together what branches changed, of which one is taken."""
        pairs = zip(branches, conditions, strict=True)
        going = [pair for pair in pairs if not pair[0].stops]
        is_sure = len(going) == 1 < len(branches)
        values: dict[tuple[int, str], tuple[Scope, str, str, list[Slot]]] = {}
        for branch, shown in going:
            condition = "" if is_sure else shown
            for items, more in branch.grown:
                self.grow(items, [_on(slot, condition) for slot in more])
            for key, (table, name, new) in branch.named.items():
                values.setdefault(key, (table, name, condition, []))[-1].append(new)
        for table, name, condition, slots in values.values():
            several = slots if len(slots) == len(going) else [table.get(name), *slots]
            is_variable = any(table is scope for scope in self.scopes)
            merged = self._either(several, "" if is_variable else condition)
            self.put(table, name, merged)

    def _either(self, slots: Sequence[Slot | None], condition: str) -> Slot:
        """Return one value for those of several branches."""
        known = [slot for slot in slots if slot is not None]
        if len(known) == 1:
            return _on(known[0], condition) if len(slots) > 1 else known[0]
        first = known[0].value
        is_same = all(
            one.value is first
            or (
                (one.value.is_known and first.is_known)
                and one.value.constant == first.constant
            )
            for one in known
        )
        if is_same:
            return known[0]
        use = known[-1].use
        opened = self.unknown(use) if use is not None else replace(first, open="?")
        shown = " or ".join(_short(one.value) for one in known)
        return Slot(value=replace(opened, open=shown), use=use)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        rounds = self.value(node.iter).items
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        cost = lines * len(rounds or ())
        if not rounds or len(rounds) > _MOST_ROUNDS or cost > self.left:
            self.unpack(node.target, self.unknown(node.target))
            start, end = self.span(node.iter)
            shown = f"for each of {self.text[start:end]}"
            self._perhaps([*node.body, *node.orelse], shown)
            return
        self.left -= cost
        for one in rounds:
            self.unpack(node.target, self.one(one))
            self.run(node.body)

    _asyncfor = _for

    def _while(self, node: ast.While) -> None:
        if self.truth(node.test):
            self.run(node.body)
            return
        self._perhaps(node.body, "in a loop")

    def _try(self, node: ast.Try) -> None:
        self.run(node.body)
        self.is_handling = True
        for handler in node.handlers:
            self._perhaps(handler.body, "after an error")
        self.is_handling = False
        self.run([*node.orelse, *node.finalbody])

    _trystar = _try

    def _with(self, node: ast.With | ast.AsyncWith) -> bool:
        for item in node.items:
            value = self.value(item.context_expr)
            if item.optional_vars is not None:
                self.unpack(item.optional_vars, value)
        return self.run(node.body)

    _asyncwith = _with

    def _other(self, node: ast.stmt) -> None:
        """Read what no rule is for: each expression, and each block on a condition."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
            elif isinstance(child, ast.match_case):
                self._perhaps(child.body, "in a case")


def _on(slot: Slot, condition: str) -> Slot:
    if not condition or slot.condition:
        return slot
    return replace(slot, condition=condition)


def _short(value: Value) -> str:
    return value.open or (str(value.constant) if value.is_known else "another value")
