"""What a rule says of itself: the docstring beside the boundary of a release."""

from __future__ import annotations

import ast
from functools import cache
from importlib.util import find_spec
from inspect import cleandoc
from pathlib import Path

from planner.engine.releases.watched import Boundary
from planner.values import frozen

_PACKAGE = Path(__file__).resolve().parents[3]
_SOURCE = "Source:"
_OPENINGS = ("Return whether ", "Whether ", "Return ")


@frozen
class Rule:
    """A rule of vLLM that changed with a release."""

    name: str
    """Of the constant or function that has the boundary."""
    module: str
    release: str
    """The first release that follows the new form."""
    what: str
    """The rule in words, as its docstring has it."""
    is_over: bool
    """Whether it held up to this release, and no longer does."""
    source: str
    """Release, file and symbol of vLLM; empty where the docstring names none."""


def rule_of(boundary: Boundary) -> Rule:
    """Return what is written beside a boundary."""
    code = _code(boundary.file)
    function = _function(code, boundary.line)
    name, text = boundary.function.rpartition(".")[2], ""
    if function is not None:
        name, text = _constant(code, function, boundary) or (
            function.name.strip("_"),
            ast.get_docstring(function) or "",
        )
    what, _, source = text.partition(_SOURCE)
    is_over = name.endswith("_BEFORE") or (
        function is not None
        and text.startswith(_OPENINGS[:2])
        and _ends(function, boundary.release)
    )
    return Rule(
        is_over=is_over,
        name=name,
        module=_module(boundary.file),
        release=_version(boundary.release),
        what=_sentence(what) or f"{name} of {_module(boundary.file)}.",
        source=" ".join(source.split()),
    )


def _function(code: _Code, line: int) -> ast.FunctionDef | None:
    """Return the innermost function around a line: a generator's code has none."""
    around = [
        function
        for first, function in code.functions.items()
        if first <= line <= (function.end_lineno or first)
    ]
    return max(around, key=lambda function: function.lineno, default=None)


def _ends(function: ast.FunctionDef, release: tuple[int, ...]) -> bool:
    """Return whether what a function answers holds for older releases only."""
    answers = [
        node
        for part in ast.walk(function)
        if isinstance(part, ast.Return)
        for node in ast.walk(part)
        if isinstance(node, ast.Compare)
    ]
    return any(
        isinstance(sign, ast.Lt) and _literal(after) == release
        for node in answers
        for sign, after in zip(node.ops, node.comparators, strict=True)
    )


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _version(release: tuple[int, ...]) -> str:
    return ".".join(map(str, (*release, 0)[:3]))


def _module(file: str) -> str:
    path = Path(file).resolve()
    if not path.is_relative_to(_PACKAGE):
        return path.stem
    return ".".join(path.relative_to(_PACKAGE).with_suffix("").parts)


def _sentence(text: str) -> str:
    """Return a docstring's first paragraph and what followed from it, as one line."""
    told = " ".join(text.split())
    for opening in _OPENINGS:
        told = told.removeprefix(opening)
    first = told.split(" ")[0]
    is_name = "_" in first or first[1:] != first[1:].lower()
    return told if is_name else told[:1].upper() + told[1:]


@frozen(kw_only=False)
class _Code:
    functions: dict[int, ast.FunctionDef]
    """By the line on which their code begins."""
    constants: dict[str, tuple[object, str]]
    """Value and docstring of the module's constants."""
    imported: dict[str, str]
    """Module of each name that is imported."""


_NOTHING = _Code({}, {}, {})


@cache
def _code(file: str) -> _Code:
    """Read a module of the package; empty where its text is not at hand."""
    path = Path(file)
    if not path.is_file():
        return _NOTHING
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    return _Code(
        {_first_line(function): function for function in found},
        _constants(tree),
        {
            alias.asname or alias.name: node.module or ""
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        },
    )


def _first_line(function: ast.FunctionDef) -> int:
    lines = [decorator.lineno for decorator in function.decorator_list]
    return min([function.lineno, *lines])


def _constants(tree: ast.Module) -> dict[str, tuple[object, str]]:
    found = {}
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(node, ast.Assign) or not isinstance(
            node.targets[0], ast.Name
        ):
            continue
        value = _literal(node.value)
        text = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            text = cleandoc(str(after.value.value))
        found[node.targets[0].id] = (value, text)
    return found


def _constant(
    code: _Code, function: ast.FunctionDef, boundary: Boundary
) -> tuple[str, str] | None:
    """Return the constant that a function compares with, and its docstring."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Name):
            continue
        value, text = _value_of(code, node.id)
        if value == boundary.release and text:
            return node.id.strip("_"), text
    return None


def _value_of(code: _Code, name: str) -> tuple[object, str]:
    if name in code.constants:
        return code.constants[name]
    module = code.imported.get(name, "")
    spec = find_spec(module) if module.startswith("planner.") else None
    if spec is None or spec.origin is None:
        return None, ""
    return _code(spec.origin).constants.get(name, (None, ""))
