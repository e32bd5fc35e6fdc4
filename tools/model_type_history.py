"""Regenerate planner/data/model_type_history.json: since when a model type is known.

A model type is known to a release of vLLM when vLLM has a configuration class for it,
or the Transformers that pip chose on the release's day has. Listed are those
that the newest release knows and the oldest in the folders does not.

Reads unpacked sources, nothing is imported: one folder per release of vLLM, and one per
version of Transformers, each named after it. The file VERSIONS says which belongs to
which, a release and a version on each line:

    python tools/model_type_history.py VLLM TRANSFORMERS VERSIONS \
        > planner/data/model_type_history.json
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from planner.engine.releases import number_of
from planner.models.families.refused import known_model_types

_TABLES = ("CONFIG_MAPPING_NAMES", "_CONFIG_REGISTRY")


def history(vllm: Path, transformers: Path, versions: str) -> dict[str, str]:
    """Return the first release that knows each model type."""
    pairs = [line.split() for line in versions.splitlines() if line.strip()]
    listed = known_model_types()
    known: set[str] = set()
    firsts: dict[str, str] = {}
    for release, version in sorted(pairs, key=lambda pair: number_of(pair[0])):
        auto = transformers / version / "transformers" / "models" / "auto"
        own = vllm / release / "vllm" / "transformers_utils" / "config.py"
        found = {
            name
            for path in (auto / "auto_mappings.py", auto / "configuration_auto.py", own)
            if path.is_file()
            for name in _names(path)
        }
        if known:
            firsts.update(dict.fromkeys(found - known, release))
        known |= found
    return {name: first for name, first in firsts.items() if name in listed}


def _names(path: Path) -> Iterator[str]:
    """Yield the keys of the tables of configuration classes in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            is_table = any(getattr(target, "id", "") in _TABLES for target in targets)
        elif isinstance(node, ast.Call):
            owner = getattr(node.func, "value", None)
            is_table = getattr(owner, "id", "") in _TABLES
        else:
            continue
        if is_table:
            yield from _keys(node)


def _keys(node: ast.AST) -> Iterator[str]:
    """Yield keys of dictionaries, first entries of pairs, and keywords, in a node."""
    for part in ast.walk(node):
        if isinstance(part, ast.keyword) and part.arg:
            yield part.arg
        firsts = (
            part.keys
            if isinstance(part, ast.Dict)
            else part.elts[:1]
            if (isinstance(part, ast.Tuple))
            else ()
        )
        for first in firsts:
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def main(vllm: Path, transformers: Path, versions: Path) -> None:
    """Print the history."""
    found = history(vllm, transformers, versions.read_text(encoding="utf-8"))
    print(json.dumps(found, indent=1, sort_keys=True))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
