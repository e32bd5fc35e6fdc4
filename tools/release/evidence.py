"""What the cases of two releases say of a body: whether an answer depends on it.

Each case of the new release is answered with the lines that it ran. A body whose edit
ran in cases that are all answered as before is second class; one whose edit ran where
answers differ is suspected, the more the fewer others ran it (Ochiai's coefficient:
hits / sqrt(all that differ in this way x all that ran it)). An edit that no case ran is
not judged.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path

from tools.release import answers
from tools.release.differing import Difference

Lines = Mapping[str, frozenset[int]]
"""Of each file of vLLM, those that one case ran."""
_VALUES = re.compile(r"-?[\d.,]+|'[^']*'|\S*\d\S*")
"""What is left out of a difference to tell its kind."""
_AT_ITS_HEAD = ("argument ", "@")
"""What of a function has no line that a call runs: every call depends on it."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What cases ran, and which of them differ; nothing where none was watched."""

    ran: Mapping[str, Lines] = field(default_factory=dict)
    """Of each case, by its key."""
    differ: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Cases answered otherwise than by the release before, by what differs."""

    def cases(self, one: Difference) -> frozenset[str]:
        """Return the cases that ran what came into a body, or what is left of it."""
        came = one.edit[1]
        if any(each.text.startswith(_AT_ITS_HEAD) for each in came):
            came = ()
        wanted = frozenset(_lines(each.node for each in came))
        wanted = wanted or frozenset(_lines(one.new))
        return frozenset(
            case
            for case, files in self.ran.items()
            if not wanted.isdisjoint(files.get(one.file, frozenset()))
        )

    def suspicion(self, one: Difference) -> float | None:
        """Return how well a body explains what differs: 0 to 1; None: not tried."""
        found = self.cases(one)
        if not found:
            return None
        return max(
            (
                len(found & differ) / sqrt(len(differ) * len(found))
                for differ in self.differ.values()
            ),
            default=0.0,
        )


NONE = Evidence()
"""Where no case was watched."""


def _lines(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Yield the lines of nodes that have a place; of a block its head's alone."""
    for node in nodes:
        begin = getattr(node, "lineno", 0)
        if begin:
            yield from range(begin, (getattr(node, "end_lineno", 0) or begin) + 1)


def read(
    ran: Path, before: Iterable[answers.Row], after: Iterable[answers.Row]
) -> Evidence:
    """Return the evidence of two releases' answers.

    Args:
        ran: the file that `answers.answered` wrote of the new one.
        before: answers of the release before.
        after: those of the new one.
    """
    old = {answers.key(row): row for row in before}
    found = [row for row in after if answers.key(row) in old]
    differ: dict[str, set[str]] = {}
    for case, what in answers.changed(old.values(), found):
        for kind in what.split("; "):
            differ.setdefault(_VALUES.sub("", kind).strip(), set()).add(case)
    known = {answers.key(row) for row in found}
    return Evidence(
        ran={case: lines for case, lines in _read(ran) if case in known},
        differ={kind: frozenset(cases) for kind, cases in differ.items()},
    )


def _read(path: Path) -> Iterator[tuple[str, Lines]]:
    if path.is_file():
        with path.open(encoding="utf-8") as file:
            for row in map(json.loads, file):
                yield (
                    row["case"],
                    {name: frozenset(lines) for name, lines in row["ran"].items()},
                )
