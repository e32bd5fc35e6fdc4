"""How many bundled models each file of vLLM serves, by its registry and imports.

A file that no model's class imports, such as a worker or a backend, serves all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from planner.models import catalogue
from tools.release.missing import registered

_IMPORTED = re.compile(
    r"^ *from (\.*)([\w.]*) import (\([^)]*\)|.*)|^ *import (vllm[\w.]*)", re.MULTILINE
)
_WORD = re.compile(r"\w+")
_LAYERS = ("model_executor/layers/",)
_BUILT = ("model_executor/models/", "models/", *_LAYERS)
_OF_MODELS = ("model_executor/models/", "models/", "transformers_utils/")


def touched(package: Path) -> dict[str, int]:
    """Return how many bundled models each file serves."""
    by_class = Counter(
        str(name)
        for _entry, config in catalogue.configs()
        for name in config.get("architectures") or ()
    )
    served: dict[str, Counter[str]] = {}
    seen: dict[str, frozenset[str]] = {}
    for name, (module, _class) in registered(package):
        if by_class[name]:
            for file in _reached(f"model_executor/models/{module}", package, seen):
                served.setdefault(file, Counter())[name] = by_class[name]
    total = sum(by_class.values())
    found = {file: names.total() for file, names in served.items()}
    for path in package.rglob("*.py"):
        file = path.relative_to(package).as_posix()
        is_of_model = file.startswith(_OF_MODELS) and path.name != "__init__.py"
        found.setdefault(file, 0 if is_of_model else total)
    return found


def _reached(start: str, package: Path, seen: dict[str, frozenset[str]]) -> set[str]:
    """Return the files that a module imports, of models and layers only."""
    todo, found = [*_file(start, package)], set()
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            if file not in seen:
                seen[file] = frozenset(_imports(file, package))
            todo += seen[file]
    return found


def _file(module: str, package: Path) -> list[str]:
    places = (f"{module}.py", f"{module}/__init__.py")
    return [place for place in places if (package / place).is_file()]


def _imports(file: str, package: Path) -> set[str]:
    found: set[str] = set()
    text = (package / file).read_text(encoding="utf-8")
    for dots, module, names, whole in _IMPORTED.findall(text):
        if dots:
            above = file.split("/")[: -len(dots)]
            base = "/".join([*above, *filter(None, module.split("."))])
        else:
            base = (whole or module).removeprefix("vllm").lstrip(".").replace(".", "/")
            if not (whole or module).startswith("vllm"):
                continue
        found.update(_file(base, package))
        for name in _WORD.findall(names):
            found.update(_file(f"{base}/{name}", package))
    # Layers that ask for a class of a model ask which one it is: they do not build it.
    wanted = _BUILT if file.startswith(_OF_MODELS) else _LAYERS
    return {one for one in found if one.startswith(wanted)}
