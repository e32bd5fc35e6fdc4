"""What the planner cited before a release was read: for rehearsals.

A `Change` of that release, and every function that asks for it, were written by whoever
read it. Without them the planner is about as it was before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from planner.engine.releases import number_of
from tools.release.symbols import Citation


def cited_before(
    cited: Iterable[Citation], planner: Path, release: str
) -> list[Citation]:
    """Return the citations whose rules do not know a release."""
    late = {*rules_of(planner, release)}
    return [one for one in cited if not _within(one.rule, late)]


def _within(rule: str, late: set[str]) -> bool:
    file, _, owner = rule.partition("::")
    parts = owner.split(".")
    return any(
        f"{file}::{'.'.join(parts[: end + 1])}" in late for end in range(len(parts))
    )


def rules_of(planner: Path, release: str) -> Iterator[str]:
    """Yield the constants with a `Change` of a release, and what names them."""
    trees = {
        path.relative_to(planner.parent).as_posix(): ast.parse(
            path.read_text(encoding="utf-8")
        )
        for path in sorted(planner.rglob("*.py"))
    }
    number = number_of(release)[:2]
    names: set[str] = set()
    for file, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                left = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if any(_is_of(part, number) for part in ast.walk(node.value)):
                    names.add(ast.unparse(left))
                    yield f"{file}::{ast.unparse(left)}"
    for file, tree in trees.items():
        for owner, function in _functions(tree.body, ""):
            words = (one for one in ast.walk(function) if isinstance(one, ast.Name))
            if any(one.id in names for one in words):
                yield f"{file}::{owner}"


def _is_of(node: ast.AST, number: tuple[int, ...]) -> bool:
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "Change":
        return False
    bounds = (word for word in node.keywords if word.arg in ("since", "until"))
    return any(
        isinstance(word.value, ast.Tuple) and ast.literal_eval(word.value)[:2] == number
        for word in bounds
    )


def _functions(body: Iterable[ast.AST], owner: str) -> Iterator[tuple[str, ast.AST]]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield owner + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{owner}{node.name}.")
