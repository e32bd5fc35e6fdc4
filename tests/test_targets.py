"""What a target of the Makefile imports is in the part of the lock that it installs.

A target runs in a tree of its own from nothing, such as after `git clone`: what another
target has installed is not there. `tools/targets.py` builds each of them so.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.conftest import ROOT
from tools.lock import LOCK, name_of, pins_of, upto
from tools.targets import LEFT_OUT, QUICK, SERVERS, runnable
from tools.targets import targets as listed

OWN = ("planner", "tools", "tests", "benchmarks")
MODULES = {"docs": (ROOT / "docs" / "conf.py",)}
"""What a target runs that its recipe does not name as a script or a module."""
PACKAGES = {"yaml": "pyyaml", "PIL": "pillow", "IPython": "ipython"}
"""Where a package is called otherwise than its module."""
_SCRIPT = re.compile(
    r"\$\(BIN\)/python (?:-m )?((?:tools|benchmarks|tests|planner)[\w./]*)"
)
_TARGET = re.compile(r"^(?P<name>[a-z][a-z-]*): (?P<needs>[^#\n]*)##", re.MULTILINE)


def targets() -> Iterator[tuple[str, str, list[Path]]]:
    """Yield each target with the part that its stamp installs and what it runs."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    for match in _TARGET.finditer(text):
        part = re.search(r"\$\(VENV\)/(\w+)\.stamp", match["needs"])
        recipe = text[match.end() :].partition("\n\n")[0]
        named = [ROOT / _path(word) for word in _SCRIPT.findall(recipe)]
        runs = [*named, *MODULES.get(match["name"], ())]
        if part and runs:
            yield match["name"], part[1], runs


def _path(word: str) -> str:
    """Return the file of a script or of a module."""
    if word.endswith(".py"):
        return word
    base = word.replace(".", "/")
    package = f"{base}/__main__.py"
    return package if (ROOT / package).exists() else f"{base}.py"


@cache
def imported(path: Path) -> frozenset[str]:
    """Return the modules that a file imports when it is loaded, by their full names."""
    found: set[str] = set()
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
        is_later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        is_tried = isinstance(node, ast.Try)
        if not (is_later or is_typing or is_tried):
            pending += ast.iter_child_nodes(node)
    return frozenset(found)


def _files(module: str) -> list[Path]:
    """Return the repository's files that a module's import loads; none for others."""
    if module.partition(".")[0] not in OWN:
        return []
    parts = module.split(".")
    found = [ROOT.joinpath(*parts[:n], "__init__.py") for n in range(1, len(parts) + 1)]
    return [
        path
        for path in (*found, ROOT.joinpath(*parts).with_suffix(".py"))
        if path.is_file()
    ]


def third_party(runs: list[Path]) -> dict[str, str]:
    """Return the modules of others that files load, with the file that names each."""
    pending, seen, found = [*runs], set(runs), {}
    if any(path.name == "conf.py" for path in runs):
        pending += sorted((ROOT / "tools" / "docs_site").glob("*.py"))
    while pending:
        path = pending.pop()
        for module in imported(path):
            top = module.partition(".")[0]
            more = [one for one in _files(module) if one not in seen]
            seen |= {*more}
            pending += more
            if top not in OWN and top not in sys.stdlib_module_names:
                found[top] = str(path.relative_to(ROOT))
    return found


def provided(part: str) -> set[str]:
    """Return the packages of a part of the lock and of those before, by their names."""
    lock = LOCK.read_text(encoding="utf-8")
    return {canonicalize_name(name_of(pin)) for pin in pins_of(upto(part, lock))}


def test_a_target_installs_what_it_imports() -> None:
    """Every third-party module, followed through the repository's own."""
    missing = {
        f"{target}: {module}, of {path}"
        for target, part, runs in targets()
        for module, path in third_party(runs).items()
        if canonicalize_name(PACKAGES.get(module, module)) not in provided(part)
    }
    assert set() == missing


def test_every_target_is_looked_at() -> None:
    """The scripts are there: a recipe in another form is not passed over."""
    found = {name: runs for name, _, runs in targets()}
    usual = {"app", "docs", "slides", "misconceptions", "sbom", "bench", "notebooks"}
    assert set() == usual - found.keys()
    assert [] == [one for runs in found.values() for one in runs if not one.is_file()]


def test_a_target_runs_from_nothing_or_it_is_told_why_not() -> None:
    """`tools/targets.py` knows those that `make help` lists."""
    unknown = {*LEFT_OUT, *QUICK, *SERVERS} - {*listed(), "gate", "nightly"}
    assert set() == unknown
    assert {"docs", "lite", "slides", "app", "bench", "sbom"} <= {*runnable()}


def test_every_file_that_a_target_waits_for_is_there() -> None:
    """make ends at the first that was renamed: "No rule to make target"."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    needs = re.findall(r"^[^\s#:=]+:(?!=) ([^#\n]*)", text, re.MULTILINE)
    named = {
        word for line in needs for word in line.split() if re.search(r"\.\w+$", word)
    }
    files = {word for word in named if "$" not in word and "stamp" not in word}

    assert {"planner/engine/releases/__init__.py", "requirements.lock"} <= files
    assert [word for word in sorted(files) if not (ROOT / word).is_file()] == []
