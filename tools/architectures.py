"""Write which module of `planner/models/families/` reads which architecture.

`python -m tools.architectures` writes `planner/data/architectures.txt` from the tables
`ROWS` and `READERS` of the modules, so that a plan imports the one it needs.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from planner.data import DATA
from planner.models import families

_PATH = DATA / "architectures.txt"
_HEAD = "# Modules of planner/models/families/, and the architectures that each reads\n"


def names_of(module: str) -> tuple[str, ...]:
    """Return the architectures that a module reads, by rows and by readers."""
    found = import_module(f"{families.__name__}.{module}")
    tables = (getattr(found, table, {}) for table in ("ROWS", "READERS"))
    return tuple(name for table in tables for name in table)


def modules() -> tuple[str, ...]:
    """Return the modules of families."""
    found = iter_modules(families.__path__)
    return tuple(module.name for module in found if not module.ispkg)


def main() -> None:
    """Write the file."""
    known = {module: names_of(module) for module in modules()}
    lines = (
        f"{module} {' '.join(names)}\n" for module, names in known.items() if names
    )
    _PATH.write_text(_HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
