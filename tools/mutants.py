"""Change rules at random, one at a time, and count how many changes a test notices.

    make mutants                            40 of them
    python tools/mutants.py --seed 3 --count 10

A mutant is a constant raised by one, a comparison or an operation turned into its
neighbour, or `and` into `or`, in the rooms that hold vLLM's rules. It runs in a copy of
the tree, first against the tests of its own room, then against the others of the gate,
until one fails. `make coverage` leaves behind which file of tests reaches which line:
with `--contexts .coverage` only those are asked.
A mutant that survives is a rule without a test, or two ways to write the same.
"""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from coverage import CoverageData

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("memory", "models", "planning")
OUTCOMES = ROOT / "build" / "mutants.jsonl"
GATE = "not browser and not server and not nightly"
_NEIGHBOURS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One place of the source, and what stands there instead."""

    path: str
    line: int
    before: str
    after: str
    start: int
    """Offset in bytes."""
    end: int

    def written(self, source: bytes) -> bytes:
        """Return the source with the change."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def mutants(path: Path) -> Iterator[Mutant]:
    """Return every mutant of a file."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(source)
    skipped = _annotations(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or id(node) in skipped:
            continue
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        before = source[start:end].decode()
        after = _changed(node)
        if after is not None:
            yield Mutant(
                path=path.relative_to(ROOT).as_posix(),
                line=node.lineno,
                before=before,
                after=after,
                start=start,
                end=end,
            )


def _annotations(tree: ast.AST) -> set[int]:
    """Return what is no rule: types, and parts of texts that are put together."""
    roots: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            arguments = node.args
            roots += [node.returns, *(a.annotation for a in arguments.args)]
            roots += [a.annotation for a in arguments.kwonlyargs]
        elif isinstance(node, ast.AnnAssign):
            roots.append(node.annotation)
        elif isinstance(node, ast.JoinedStr):
            roots.append(node)
    return {id(each) for root in roots if root for each in ast.walk(root)}


def _changed(node: ast.expr) -> str | None:
    """Return the expression with its own operator or constant changed."""
    if isinstance(node, ast.Constant):
        return str(node.value + 1) if type(node.value) is int else None
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = _NEIGHBOURS.get(type(node.ops[0]))
        node.ops = [other()] if other else node.ops  # type: ignore[list-item]
    elif isinstance(node, ast.BinOp | ast.BoolOp):
        other = _NEIGHBOURS.get(type(node.op))
        if other is not None:
            node.op = other()  # type: ignore[assignment]
    else:
        return None
    return f"({ast.unparse(node)})" if other else None


def chosen(seed: int, count: int) -> list[Mutant]:
    """Return so many mutants at random, each file as likely as it is long."""
    files = [
        path
        for room in ROOMS
        for path in sorted((ROOT / "planner" / room).rglob("*.py"))
    ]
    return Random(seed).sample([one for path in files for one in mutants(path)], count)


def _files_of_tests(mutant: Mutant, contexts: Path | None) -> list[list[str]]:
    """Return the files of tests to ask, in groups: the likely ones first."""
    room = mutant.path.split("/")[1]
    if contexts is None:
        return [[f"tests/{room}"], ["tests", "planner"]]
    data = CoverageData(str(contexts))
    data.read()
    name = next((f for f in data.measured_files() if f.endswith(mutant.path)), None)
    reached = data.contexts_by_lineno(name).get(mutant.line, []) if name else []
    files = sorted({each for each in reached if each})
    near = [each for each in files if each.startswith(f"tests/{room}/")]
    return [group for group in (near, sorted({*files} - {*near})) if group]


def is_noticed(mutant: Mutant, tree: Path, contexts: Path | None) -> str:
    """Return the first failed test; empty where all pass."""
    place = tree / mutant.path
    source = place.read_bytes()
    place.write_bytes(mutant.written(source))
    try:
        for files in _files_of_tests(mutant, contexts):
            failed = _first_failure(tree, files)
            if failed:
                return failed
    finally:
        place.write_bytes(source)
    return ""


def _first_failure(tree: Path, files: list[str]) -> str:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "-m", GATE),
            *("--dist", "loadfile", "-p", "no:cacheprovider", "--no-header", *files),
        ],
        cwd=tree,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode in (0, 5):  # 5: the gate has none of these files' tests
        return ""
    told = [
        line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERR"))
    ]
    return told[0] if told else done.stdout[-300:]


def main() -> int:
    """Try them, one after the other, and write each outcome at once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--contexts", type=Path)
    options = parser.parse_args()
    OUTCOMES.parent.mkdir(exist_ok=True)
    noticed = 0
    with tempfile.TemporaryDirectory() as folder, OUTCOMES.open("w") as outcomes:
        tree = Path(folder, "tree")
        _copy(tree)
        for number, mutant in enumerate(chosen(options.seed, options.count), 1):
            failed = is_noticed(mutant, tree, options.contexts)
            noticed += bool(failed)
            outcomes.write(json.dumps(asdict(mutant) | {"failed": failed}) + "\n")
            outcomes.flush()
            print(
                f"{number}: {noticed} noticed; {mutant.path}:{mutant.line}", flush=True
            )
            if not failed:
                print(f"    SURVIVED: {mutant.before} -> {mutant.after}")
    print(f"{noticed} of {options.count} noticed; all of them: {OUTCOMES}")
    return 0


def _copy(tree: Path) -> None:
    """Copy what git knows, so that nothing here changes."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    for name in filter(None, names.stdout.decode().split("\0")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)


if __name__ == "__main__":
    sys.exit(main())
