"""Record names and fields of `ray.data.llm` and `ray.serve.llm`, release by release.

    python tools/record_ray.py FOLDER tests/data/ray_releases.json

FOLDER holds a wheel of Ray unpacked for each release, in a folder of its name; of it
`ray/data/llm.py`, `ray/llm`, `ray/serve/llm` and the METADATA are read. Nothing is
imported. The tests hold what the planner writes for a release to what is recorded.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = "vLLMEngineProcessorConfig"
BUILDERS = ("build_processor", "build_llm_processor")
NO_CONTEXT = "none"


def main() -> None:
    """Record every release of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    folders = sorted(options.folder.iterdir(), key=_number)
    found = {folder.name: recorded(folder) for folder in folders}
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _number(folder: Path) -> list[int]:
    return [int(part) for part in folder.name.split(".")]


def recorded(folder: Path) -> dict[str, Any]:
    """Return what a release has."""
    ray = folder / "ray"
    classes = dict(_classes(ray / "llm" / "_internal"))
    functions = dict(_functions(ray / "data" / "llm.py"))
    served = dict(_functions(ray / "serve" / "llm" / "__init__.py"))
    return {
        "vllm": _vllm(folder),
        "builders": {name: functions[name] for name in BUILDERS if name in functions},
        "config": _fields(DATA, classes),
        "llm_config": _fields("LLMConfig", classes),
        "loading": _fields("ModelLoadingConfig", classes),
        "serving": _fields("LLMServingArgs", classes),
        "openai_app": served["build_openai_app"],
        "contexts": {
            "data": _contexts(ray, "batch/stages/vllm_engine_stage.py"),
            "serve": _contexts(ray, "serve/**/vllm_engine.py"),
        },
    }


def _trees(folder: Path) -> Iterator[ast.Module]:
    for path in sorted(folder.rglob("*.py")):
        yield ast.parse(path.read_text(encoding="utf-8"))


def _classes(folder: Path) -> Iterator[tuple[str, ast.ClassDef]]:
    for tree in _trees(folder):
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                yield node.name, node


def _functions(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Return each function's parameters with their types."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            arguments = [*node.args.args, *node.args.kwonlyargs]
            yield (
                node.name,
                {
                    one.arg: ast.unparse(one.annotation) if one.annotation else ""
                    for one in arguments
                },
            )


def _fields(name: str, classes: dict[str, ast.ClassDef]) -> dict[str, str]:
    """Return the fields of a class and those above it, with their types."""
    node = classes.get(name.removeprefix("_"))
    if node is None:
        return {}
    found: dict[str, str] = {}
    for base in node.bases:
        if ast.unparse(base) != name:
            found |= _fields(ast.unparse(base), classes)
    own = (one for one in node.body if isinstance(one, ast.AnnAssign))
    return found | {
        ast.unparse(one.target): ast.unparse(one.annotation)
        for one in own
        if not ast.unparse(one.target).startswith("_")
    }


def _contexts(ray: Path, pattern: str) -> list[str]:
    """Return the usage contexts with which configurations of an engine are made."""
    found = []
    for path in sorted((ray / "llm" / "_internal").glob(pattern)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                (".create_engine_config", ".from_engine_args")
            ):
                given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                context = given.get("usage_context", NO_CONTEXT)
                found.append(context.rpartition(".")[2])
    return sorted(set(found))


def _vllm(folder: Path) -> str:
    (metadata,) = [*folder.glob("ray-*.dist-info/METADATA"), *folder.glob("METADATA")][
        :1
    ]
    text = metadata.read_text(encoding="utf-8")
    match = re.search(r"^Requires-Dist: vllm(?:\[.*?\])?([^;]+);.*llm", text, re.M)
    return match[1].strip() if match else ""


if __name__ == "__main__":
    main()
