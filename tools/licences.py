"""Check the licences of all that is shipped or installed: `python tools/licences.py`.

`make check` runs it. Packages are those that the app needs (the first part of
requirements.lock) and that this platform has; their metadata names the licence. Files
of others in planner/ are in folders called `vendored`, each with its licence beside it,
which the wheel holds too.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.lock import LOCK, name_of, pins_of, upto  # noqa: E402

ALLOWED = frozenset(
    (
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC"),
        *("MIT", "MIT-0", "PSF-2.0", "Unlicense", "Zlib"),
        # Of files that stay as they are, in packages that are installed apart.
        "MPL-2.0",
    )
)
"""SPDX names of licences under which this package may be given to anybody."""
_NAMES = {
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""What older metadata calls them."""
_COPIED = (".js", ".css", ".woff", ".woff2", ".ttf", ".wasm")
_HEAD_BYTES = 2_000
_OTHERS = re.compile(rb"(?i)copyright|@license|licensed under")


def main() -> int:
    """Print what is not in order; return the exit status."""
    wrong = [*of_packages(), *of_files(ROOT)]
    for line in wrong:
        print(line)
    return 1 if wrong else 0


def of_packages() -> Iterator[str]:
    """Name each package with a licence that is unknown or not allowed."""
    for pin in pins_of(upto("app", LOCK.read_text(encoding="utf-8"))):
        name = name_of(pin)
        try:
            found = licences(name)
        except metadata.PackageNotFoundError:
            if ";" not in pin:  # not of another platform or Python
                yield f"{name} is not installed: make check installs what is missing."
            continue
        if not found or not found <= ALLOWED:
            yield f"{name}: {', '.join(sorted(found)) or 'no licence'} is not allowed."


def licences(package: str) -> set[str]:
    """Return the licences of an installed package, by their SPDX names.

    Raises:
        PackageNotFoundError: if it is not installed.
    """
    told = metadata.metadata(package)
    expressions = told.get_all("License-Expression", [])
    if expressions:
        return _parts(expressions[0])
    of_list = [
        line.rpartition("::")[2].strip()
        for line in told.get_all("Classifier", [])
        if line.startswith("License ::")
    ]
    named = of_list or _parts("".join(told.get_all("License", [])))
    return {_NAMES.get(name, name) for name in named}


def _parts(expression: str) -> set[str]:
    """Return the licences of an expression: all of them are to be allowed."""
    parts = re.split(r" (?:AND|OR|WITH) |[()]", expression)
    return {part.strip() for part in parts} - {""}


def of_files(root: Path) -> Iterator[str]:
    """Name each file of others in the package that has no licence beside it."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    shipped = set(project["project"]["license-files"])
    for path in sorted((root / "planner").rglob("*")):
        if path.suffix not in _COPIED:
            continue
        if "vendored" in path.parts:
            texts = {
                text.relative_to(root).as_posix()
                for text in path.parent.glob("*LICENSE*")
            }
            if not texts & shipped:
                yield f"{path.relative_to(root)}: no licence that the wheel holds."
        elif _OTHERS.search(path.read_bytes()[:_HEAD_BYTES]):
            yield f"{path.relative_to(root)}: a file of others outside vendored/."


if __name__ == "__main__":
    sys.exit(main())
