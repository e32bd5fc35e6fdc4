"""What the cases of two releases say of a body: whether an answer depends on it.

Each case of the new release is answered with the lines that it ran. A body whose edit
ran where answers differ is suspected, the more the fewer others ran it (Ochiai's
coefficient: hits / sqrt(all that differ in this way x all that ran it), of one way to
differ or of one case alone). What differs in most cases says nothing of one body, and
neither does what is answered as before: few cases try a feature. An edit that no case
ran is not judged.
"""

from __future__ import annotations

import ast
import json
import lzma
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from pathlib import Path

from tools.release import answers
from tools.release.differing import Difference

Lines = Mapping[str, frozenset[int]]
"""Of each file of vLLM, those that one case ran."""
_VALUES = re.compile(r"-?[\d.,]+|'[^']*'|\S*\d\S*")
"""What is left out of a difference to tell its kind."""
_RARE, _FEW = 0.1, 3
"""Up to which share of the cases, or how many, a difference tells bodies apart."""
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
                for differ in self._causes
            ),
            default=0.0,
        )

    @cached_property
    def _causes(self) -> frozenset[frozenset[str]]:
        """What may have one cause: cases that differ in one way, and each alone."""
        most = max(_FEW, _RARE * len(self.ran))
        ways = {cases for cases in self.differ.values() if len(cases) <= most}
        return frozenset(ways | {frozenset({case}) for way in ways for case in way})


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
        ran: the file that `answers.answered` wrote of the new one, or `keep`.
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
    if path.suffix == ".xz" and path.is_file():
        yield from _kept(path)
    elif path.is_file():
        with path.open(encoding="utf-8") as file:
            for row in map(json.loads, file):
                yield (
                    row["case"],
                    {name: frozenset(lines) for name, lines in row["ran"].items()},
                )


def keep(found: Evidence, files: Container[str], path: Path) -> None:
    """Write what cases ran of some files: lines that the same cases ran together."""
    cases = sorted(found.ran)
    by_line: dict[str, dict[int, list[int]]] = {}
    for number, case in enumerate(cases):
        for file, lines in found.ran[case].items():
            for line in lines if file in files else ():
                by_line.setdefault(file, {}).setdefault(line, []).append(number)
    ran: dict[str, dict[str, list[int]]] = {}
    for file, each in sorted(by_line.items()):
        for line, numbers in sorted(each.items()):
            together = ran.setdefault(file, {})
            together.setdefault(" ".join(map(str, numbers)), []).append(line)
    text = json.dumps({"cases": cases, "ran": ran}, separators=(",", ":"))
    path.write_bytes(lzma.compress(text.encode(), preset=9))


def _kept(path: Path) -> Iterator[tuple[str, Lines]]:
    known = json.loads(lzma.decompress(path.read_bytes()))
    found: dict[int, dict[str, set[int]]] = {}
    for file, together in known["ran"].items():
        for numbers, lines in together.items():
            for number in map(int, numbers.split()):
                found.setdefault(number, {}).setdefault(file, set()).update(lines)
    for number, case in enumerate(known["cases"]):
        files = found.get(number, {})
        yield case, {file: frozenset(lines) for file, lines in files.items()}
