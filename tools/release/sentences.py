"""The planner's wordings of what vLLM writes, and whether a release still has them.

Two kinds: patterns that read a log (`planner/confirming/log/`), and sentences that the
planner gives in vLLM's words, such as refusals. Both are looked for in the strings of
the release's own sources, with numbers in the place of what is filled in.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

from planner.confirming.log import lines, outcome, sentences, setting
from tools.release.sources import parsed
from tools.release.symbols import Sources

_FILLED = re.compile(r"%(?:\(\w+\))?[-+ #0]*[\d*]*(?:\.\d+)?[sdfrgx]")
_NUMBER = "1.5"
_LEAST_CHARACTERS = 28
_LEAST_WORDS = 4
_FOLDERS = ("planning", "memory", "models", "engine")
"""Rooms of the planner that refuse in vLLM's words."""


def texts(sources: Sources) -> str:
    """Return every string of a release's sources, one a line, numbers filled in."""
    found: set[str] = set()
    for file in sources.files:
        for text in _strings(parsed(sources.package / file)):
            found.add(" ".join(_FILLED.sub(_NUMBER, text).split()))
    return "\n".join(sorted(found))


def _strings(tree: ast.AST) -> Iterator[str]:
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in ast.walk(node)}
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else _NUMBER
                for part in node.values
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in inside
            and " " in node.value
        ):
            yield node.value


def patterns() -> dict[str, re.Pattern[str]]:
    """Return what the planner looks for in logs: each wording, with where it is."""
    found = {
        f"log/sentences.py {name}: {wording}": sentences.compiled(wording)
        for name, wording in sentences.SENTENCES
    }
    for module in (lines, outcome, setting):
        found.update(_alternatives(module))
    return found


def _alternatives(module: ModuleType) -> Iterator[tuple[str, re.Pattern[str]]]:
    file = f"log/{module.__name__.rpartition('.')[2]}.py"
    for name, value in vars(module).items():
        if isinstance(value, re.Pattern):
            for part in _split(value.pattern):
                if len(re.findall(r"[A-Za-z]{3,}", part)) > 1:
                    yield f"{file} {name}: {part}", re.compile(part, value.flags)


def _split(pattern: str) -> Iterator[str]:
    """Yield the alternatives of a pattern that are whole patterns.

    >>> list(_split(r"ab|c(?:d|e)|[|]"))
    ['ab', 'c(?:d|e)', '[|]']
    """
    part, depth, is_class, is_escaped = "", 0, False, False
    for character in pattern:
        if character == "|" and not depth and not is_class and not is_escaped:
            yield part
            part = ""
            continue
        if not is_escaped:
            depth += {"(": 1, ")": -1}.get(character, 0) if not is_class else 0
            is_class = character == "[" or (is_class and character != "]")
        is_escaped = character == "\\" and not is_escaped
        part += character
    yield part


def quoted(planner: Path) -> dict[str, str]:
    """Return each run of words in a string of the planner's rules, with its file."""
    found: dict[str, str] = {}
    for folder in _FOLDERS:
        for path in sorted((planner / folder).rglob("*.py")):
            file = path.relative_to(planner.parent).as_posix()
            for text in _strings(ast.parse(path.read_text(encoding="utf-8"))):
                for run in _runs(text):
                    found.setdefault(run, file)
    return found


def _runs(text: str) -> Iterator[str]:
    """Yield what stands between the places that are filled in."""
    for part in re.split(rf"{re.escape(_NUMBER)}|\{{\w*\}}", " ".join(text.split())):
        run = part.strip()
        if len(run) >= _LEAST_CHARACTERS and run.count(" ") >= _LEAST_WORDS - 1:
            yield run


def found_in(
    written: str, wordings: Mapping[str, re.Pattern[str]], runs: Iterable[str]
) -> list[str]:
    """Return the wordings and the runs of words that a release has."""
    return sorted(
        [
            *(name for name, pattern in wordings.items() if pattern.search(written)),
            *(run for run in runs if run in written),
        ]
    )
