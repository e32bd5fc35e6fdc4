"""The bodies in which two releases differ, and those that a machine can close.

A body is closed where its two forms (`trees.py`) are equal, with what had to be left
out until they were. What cannot be judged stays open.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tools.release import trees
from tools.release.reach import NOT_OF_A_START
from tools.release.statements import (
    Statement,
    kinds_of_body,
    of_body,
    only_watches,
)

_OTHERS = re.compile(r"(?<![a-z])(?:rocm|xpu|tpu|hpu|aiter|neuron|amd)(?![a-z])")
"""Words in the paths and names of what other platforms use."""

Nodes = list[ast.stmt]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One body that two releases have otherwise, or only one of them has."""

    file: str
    name: str
    """In its file; with a point at its end: the bases of a class."""
    old: Nodes
    """Empty: it came."""
    new: Nodes
    """Empty: it went."""
    was: str = ""
    """Where it was, as "file::name"; empty: in the same place."""

    @property
    def key(self) -> str:
        """File and name, as the records have them."""
        return f"{self.file}::{self.name}"

    @property
    def last(self) -> str:
        """Its name without the class."""
        return self.name.rstrip(".").rpartition(".")[2]

    @property
    def how(self) -> str:
        """Whether it came, went or changed."""
        return "changed" if self.old and self.new else "came" if self.new else "went"

    @cached_property
    def plain(self) -> tuple[Nodes, Nodes]:
        """Both forms, without what is no part of what they do."""
        return trees.Plain().of(self.old), trees.Plain().of(self.new)

    @cached_property
    def edit(self) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
        """The statements that went and those that came, in their order."""
        old, new = (list(of_body(one)) for one in self.plain)
        return tuple(_without(old, new)), tuple(_without(new, old))

    @cached_property
    def is_constant(self) -> bool:
        """Whether it is what a module or class assigns to a name."""
        return all(isinstance(one, ast.Assign | ast.AnnAssign) for one in self.new)

    @cached_property
    def kinds(self) -> frozenset[str]:
        """What of memory its edit is about."""
        found = kinds_of_body(self.last, self.edit)
        if self.how == "came":
            found.discard("default")
        if self.is_constant and self.how == "changed" and self._has_numbers:
            found.add("value")
        return frozenset(found)

    @property
    def _has_numbers(self) -> bool:
        return any(
            isinstance(part, ast.Constant) and type(part.value) in (int, float)
            for node in self.new
            for part in ast.walk(node)
        )

    @property
    def is_table(self) -> bool:
        """Whether it is a list of names, of which only what came and went is read."""
        return self.is_constant and self.how == "changed" and not self._has_numbers

    @cached_property
    def closed(self) -> str:
        """Why nothing in it can change memory; empty: a person reads it."""
        if _of_others(self):
            return "a platform that the planner does not plan"
        if why := _why_equal(self):
            return why
        if _is_nothing(self):
            return "a declaration without a value, or only logging"
        if _only_watches(self):
            return "only what watches: time, statistics, traces"
        return ""


def _without(one: list[Statement], other: list[Statement]) -> Iterator[Statement]:
    left = [each.key for each in other]
    for each in one:
        if each.key in left:
            left.remove(each.key)
        else:
            yield each


def _of_others(one: Difference) -> bool:
    # Also the beginning of "XPUBackend".
    split = r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
    words = re.sub(split, "_", one.key).lower()
    return bool(_OTHERS.search(words))


def _texts_equal(one: Nodes, other: Nodes) -> bool:
    return trees.text(one) == trees.text(other)


def _why_equal(one: Difference) -> str:
    """Return what had to be left out until both forms were equal; empty: they differ.

    The weakest that does is looked for last, for most bodies differ in all forms.
    """
    if not one.old or not one.new:
        return ""
    if not _texts_equal(*map(trees.renamed, one.plain)):
        return ""
    if not _texts_equal(*one.plain):
        return "only names of locals"
    for reason, leaves in _WEAKER.items():
        if _texts_equal(leaves.of(one.old), leaves.of(one.new)):
            return reason
    return "only branches of a platform that the planner does not plan"


_WEAKER = {
    "only comments, annotations or imports": trees.Plain(logs=True, platforms=True),
    "only logging or messages": trees.Plain(platforms=True),
}


def _is_nothing(one: Difference) -> bool:
    """Whether what came or went does nothing: a declaration, a log line."""
    return not any(one.edit) and one.how != "changed"


def _only_watches(one: Difference) -> bool:
    old, new = one.plain
    return only_watches(one.edit[0], old) and only_watches(one.edit[1], new)


def differences(old: Path, new: Path) -> Iterator[Difference]:
    """Yield each body whose lines differ between two packages `vllm`."""
    for file in sorted({*_files(old), *_files(new)}):
        texts = [
            path.read_text(encoding="utf-8") if path.is_file() else ""
            for path in (old / file, new / file)
        ]
        if texts[0] != texts[1]:
            one, other = (trees.bodies(ast.parse(text)) for text in texts)
            lines = [text.splitlines() for text in texts]
            for name in dict.fromkeys([*other, *one]):
                before, after = one.get(name, []), other.get(name, [])
                if _lines(before, lines[0]) != _lines(after, lines[1]):
                    yield Difference(file=file, name=name, old=before, new=after)


def _lines(nodes: Nodes, lines: list[str]) -> list[list[str]]:
    """Return the lines of nodes, a function's with its decorators."""
    found = []
    for node in nodes:
        above = getattr(node, "decorator_list", ())
        first = min([node.lineno, *(one.lineno for one in above)])
        found.append(lines[first - 1 : node.end_lineno])
    return found


def _files(package: Path) -> Iterator[str]:
    for path in package.rglob("*.py"):
        file = path.relative_to(package).as_posix()
        if not file.startswith(NOT_OF_A_START):
            yield file


def paired(found: Iterable[Difference]) -> list[Difference]:
    """Return differences in which a body that moved to another file is one, changed.

    A body that went and one of its name, and in a class of that name, that came.
    """
    every = list(found)
    went = {_place(one): one for one in every if one.how == "went"}
    came = {_place(one): one for one in every if one.how == "came"}
    pairs = {
        new.key: old
        for place, new in came.items()
        if (old := went.get(place)) is not None and "__init__" not in place
    }
    gone = {old.key for old in pairs.values()}
    return [
        replace(one, old=pairs[one.key].old, was=pairs[one.key].key)
        if one.key in pairs
        else one
        for one in every
        if one.key not in gone
    ]


def _place(one: Difference) -> str:
    """Return class and name, which is what a body keeps when it moves."""
    return one.name if one.name.count(".") else f"function {one.name}"
