"""The bodies of one file of vLLM, in a form that shows only what can change memory.

A body is a function or method, or what a module or class assigns to one name. Its form
has no comments, docstrings, annotations, logging or messages, and none of the branches
of platforms that the planner does not plan.
"""

from __future__ import annotations

import ast
import pickle
from collections.abc import Iterable, Iterator

LOGGING = frozenset(
    {
        *("debug", "info", "warning", "error", "exception", "critical", "log"),
        *("debug_once", "info_once", "warning_once", "error_once", "warn"),
        *("warn_once", "deprecated", "log_once", "isEnabledFor"),
    }
)
_LOGGERS = ("logger", "logging", "warnings", "_logger", "init_logger")
OTHER_PLATFORMS = frozenset(
    {"is_rocm", "is_xpu", "is_tpu", "is_hpu", "is_neuron", "is_out_of_tree"}
)
"""Questions that are answered with no on what the planner plans: CUDA and CPU."""
_TRACING = ("record_function", "record_function_or_nullcontext", "nvtx", "nullcontext")
_DECORATORS = ("override", "deprecated", "typing.override", "instrument", "overload")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def bodies(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Return each body with its full name; "Class." and "" are what has no name."""
    found: dict[str, list[ast.stmt]] = {}
    for name, node in _bodies(tree.body, ""):
        found.setdefault(name, []).append(node)
    return found


def _bodies(body: Iterable[ast.stmt], owner: str) -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        if isinstance(node, FUNCTIONS):
            yield owner + node.name, node
        elif isinstance(node, ast.ClassDef):
            heads = [*node.bases, *(word.value for word in node.keywords)]
            for part in (*heads, *node.decorator_list):
                yield f"{owner}{node.name}.", _as_statement(part)
            yield from _bodies(node.body, f"{owner}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            left = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield owner + ast.unparse(left), node
        elif isinstance(node, ast.If | ast.Try):
            yield from _bodies(_branches(node), owner)
        elif not isinstance(node, ast.Import | ast.ImportFrom | ast.Pass):
            yield owner, node


def _branches(node: ast.If | ast.Try) -> list[ast.stmt]:
    """Return the statements of every branch that can run, and the condition."""
    if isinstance(node, ast.If):
        if is_type_checking(node.test):
            return node.orelse
        return [_as_statement(node.test), *node.body, *node.orelse]
    handled = [one for part in node.handlers for one in part.body]
    return [*node.body, *handled, *node.orelse, *node.finalbody]


def _as_statement(node: ast.expr) -> ast.stmt:
    return ast.copy_location(ast.Expr(node), node)


def is_type_checking(test: ast.expr) -> bool:
    """Whether a condition holds only for type checkers."""
    return ast.unparse(test).rpartition(".")[2] == "TYPE_CHECKING"


def called(node: ast.Call) -> tuple[str, str]:
    """Return what is called: what stands before the last point, and the last name."""
    if isinstance(node.func, ast.Attribute):
        return ast.unparse(node.func.value), node.func.attr
    return "", node.func.id if isinstance(node.func, ast.Name) else ""


def is_logging(node: ast.AST) -> bool:
    """Whether an expression only writes to a log."""
    if not isinstance(node, ast.Call):
        return False
    before, name = called(node)
    holder = before.partition("(")[0].rpartition(".")[2] or before.partition(".")[0]
    return (name in LOGGING and holder in _LOGGERS) or (not before and name == "print")


def copied(nodes: Iterable[ast.stmt]) -> list[ast.stmt]:
    """Return a copy of a tree: several times as fast as `copy.deepcopy`."""
    made: list[ast.stmt] = pickle.loads(pickle.dumps(list(nodes), protocol=5))
    return made


class Plain(ast.NodeTransformer):
    """Leave out of a body what is no part of what it does.

    Args:
        logs: keep what is logged, and the words of errors.
        platforms: keep branches of platforms that the planner does not plan.
    """

    def __init__(self, *, logs: bool = False, platforms: bool = False) -> None:
        self.logs, self.platforms = logs, platforms

    def of(self, nodes: Iterable[ast.stmt]) -> list[ast.stmt]:
        """Return the form of a body; the nodes given stay as they are."""
        return self._all(copied(nodes))

    def _all(self, body: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for node in body:
            made = self.visit(node)
            found += made if isinstance(made, list) else [made] if made else []
        return found

    def _inner(self, node: ast.AST, *fields: str) -> None:
        for name in fields:
            setattr(node, name, self._all(getattr(node, name)))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave out annotations and decorators without effect."""
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        node.type_comment = None
        node.decorator_list = [
            self.visit(one)
            for one in node.decorator_list
            if ast.unparse(one).partition("(")[0] not in _DECORATORS
        ]
        self.visit(node.args)
        self._inner(node, "body")
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Do the same to a coroutine."""
        return self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Keep what is in a class inside a function."""
        self._inner(node, "body")
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Leave out the annotation."""
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """Keep the value."""
        if node.value is None:
            return None
        made = ast.Assign(targets=[node.target], value=node.value)
        return self.generic_visit(ast.copy_location(made, node))

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Leave out docstrings and logging."""
        if isinstance(node.value, ast.Constant):
            return None
        if not self.logs and is_logging(node.value):
            return None
        return self.generic_visit(node)

    def visit_Import(self, _node: ast.Import) -> None:
        """What a name means is found by its file."""

    def visit_ImportFrom(self, _node: ast.ImportFrom) -> None:
        """Leave it out as well."""

    def visit_Pass(self, _node: ast.Pass) -> None:
        """Leave out what does nothing."""

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """Leave out the message."""
        if not self.logs:
            node.msg = None
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Keep the kind of error; its words are compared as sentences."""
        if not self.logs:
            node.cause = None
            if isinstance(node.exc, ast.Call):
                node.exc = node.exc.func
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Answer for other platforms; a cast is its value."""
        before, name = called(node)
        if name == "cast" and before in ("", "typing"):
            value: ast.AST = self.visit(node.args[-1])
            return value
        is_other = name in OTHER_PLATFORMS and not node.args
        if is_other and not self.platforms and "platform" in before:
            return ast.Constant(value=False)
        return self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Answer `not` of what is known."""
        self.generic_visit(node)
        known = _known(node.operand)
        if isinstance(node.op, ast.Not) and known is not None:
            return ast.Constant(value=not known)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Leave out what decides nothing."""
        self.generic_visit(node)
        decides = isinstance(node.op, ast.Or)
        values: list[ast.expr] = []
        for one in node.values:
            if _known(one) is not (not decides):
                values.append(one)
            if _known(one) is decides:
                break
        if not values:
            return ast.Constant(value=not decides)
        if _known(values[0]) is decides:
            return values[0]
        node.values = values
        return node if len(values) > 1 else values[0]

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Keep the side that is taken."""
        self.generic_visit(node)
        known = _known(node.test)
        return node if known is None else node.body if known else node.orelse

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt] | None:
        """Keep the side that is taken; leave out what does nothing."""
        if is_type_checking(node.test):
            return self._all(node.orelse)
        node.test = self.visit(node.test)
        self._inner(node, "body", "orelse")
        known = _known(node.test)
        if known is not None:
            return node.body if known else node.orelse
        if not node.body and not node.orelse and _is_plain(node.test):
            return None
        return node

    def visit_For(self, node: ast.For) -> ast.AST | None:
        """Leave out a loop that only logs."""
        node.target, node.iter = self.visit(node.target), self.visit(node.iter)
        self._inner(node, "body", "orelse")
        is_empty = not node.body and not node.orelse and _is_plain(node.iter)
        return None if is_empty else node

    def visit_While(self, node: ast.While) -> ast.AST:
        """Keep the loop."""
        node.test = self.visit(node.test)
        self._inner(node, "body", "orelse")
        return node

    def visit_Try(self, node: ast.Try) -> ast.AST:
        """Keep the handlers."""
        self._inner(node, "body", "orelse", "finalbody")
        for one in node.handlers:
            self._inner(one, "body")
        return node

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        """Leave out what only traces."""
        for one in node.items:
            self.visit(one)
        self._inner(node, "body")
        names = [ast.unparse(one.context_expr).partition("(")[0] for one in node.items]
        is_traced = all(name.rpartition(".")[2] in _TRACING for name in names)
        is_used = any(one.optional_vars for one in node.items)
        return node.body if is_traced and not is_used else node


def _known(node: ast.AST) -> bool | None:
    """Return what a condition is for certain; None: it depends."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return node.value
    return None


def _is_plain(node: ast.AST) -> bool:
    """Whether an expression calls nothing and names nothing anew."""
    kinds = (ast.Call, ast.NamedExpr, ast.Await, ast.Yield)
    return not any(isinstance(part, kinds) for part in ast.walk(node))


def locals_of(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that a body assigns, without its arguments."""
    inner: set[str] = set()
    shared: set[str] = set()
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                inner.add(part.id)
            elif isinstance(part, ast.arg):
                shared.add(part.arg)
            elif isinstance(part, ast.Global | ast.Nonlocal):
                shared.update(part.names)
            elif isinstance(part, ast.ExceptHandler) and part.name:
                inner.add(part.name)
    return inner - shared


def renamed(nodes: list[ast.stmt]) -> list[ast.stmt]:
    """Return a body whose locals are called by the order in which they come."""
    made = copied(nodes)
    if not any(isinstance(node, FUNCTIONS) for node in made):
        return made
    names = locals_of(made)
    order: dict[str, str] = {}
    for node in made:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in names:
                part.id = order.setdefault(part.id, f"local{len(order)}")
            elif isinstance(part, ast.ExceptHandler) and part.name in names:
                part.name = order.setdefault(str(part.name), f"local{len(order)}")
    return made


def text(nodes: Iterable[ast.stmt]) -> str:
    """Return a body as text that layout does not change."""
    return "\n".join(ast.dump(node) for node in nodes)
