"""Write the package under the name that nobody else has, as the wheel carries it.

The files of `planner/` become those of `vllm_memory_planner/`, and their imports name
it; other names of modules in the code go through `__package__` or `__name__`.
"""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

FOLDER, INSTALLED = "planner", "vllm_memory_planner"
STUBS = f"{FOLDER}-stubs"
"""Type checkers do not run `planner.py`; this is where they look instead."""
_PUBLIC = ("export", "learn", "ray", "solve")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*")


def write(source: Path, place: Path) -> None:
    """Write the package as it is installed, and the stubs, into a folder."""
    package, stubs = place / INSTALLED, place / STUBS
    shutil.copytree(source, package, ignore=_LEFT_OUT)
    for path in package.rglob("*.py"):
        path.write_bytes(renamed(path.read_bytes()))
    stubs.mkdir()
    for name in ("__init__", *_PUBLIC):
        module = INSTALLED if name == "__init__" else f"{INSTALLED}.{name}"
        (stubs / f"{name}.pyi").write_text(f"from {module} import *\n", "utf-8")


def renamed(source: bytes) -> bytes:
    """Return a module whose imports name the package as it is installed.

    >>> renamed(b"from planner.units import GIB")
    b'from vllm_memory_planner.units import GIB'

    Raises:
        ValueError: for an import of another form, which binds the folder's name.
    """
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and _is_ours(node.module):
            _rename(lines, node)
        elif isinstance(node, ast.Import) and any(_is_ours(n.name) for n in node.names):
            raise ValueError(f"Line {node.lineno}: write `from {FOLDER} import ...`.")
    return b"".join(lines)


def _is_ours(module: str | None) -> bool:
    return (module or "").partition(".")[0] == FOLDER


def _rename(lines: list[bytes], node: ast.ImportFrom) -> None:
    line, at = lines[node.lineno - 1], node.col_offset
    old, new = f"from {FOLDER}".encode(), f"from {INSTALLED}".encode()
    if not line.startswith(old, at):
        raise ValueError(f"Line {node.lineno}: write the import on one line.")
    lines[node.lineno - 1] = line[:at] + new + line[at + len(old) :]
