"""What of a new release's names the planner lacks, and what a machine can say of each.

An architecture whose class vLLM's registry, or a class without a body of its own, hands
to a class that the planner reads already needs a row only; of the rest it is said what
to do. Nothing is written into the planner's modules: a row is a proposal.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from planner.engine.environment import variables
from planner.models.families.names import FAMILIES
from tools.release import sources

_READ = {name: family for family, names in FAMILIES.items() for name in names}
_MEMORY = re.compile(r"[Mm]emory|KV cache|GiB|OOM|num_gpu_blocks|[Ww]orkspace|budget")
"""What a sentence is about that a plan may be compared with."""
_LACKS = {
    "kv_cache_dtypes": "its bytes in `planner/engine/dtypes.py`, or a refusal",
    "quantization": "a row in `models/quantization/methods.py`, or a refusal",
    "backends": "where vLLM's order of backends names it, a class in "
    "`planner/memory/kv_cache/`",
    "requirements": "dry runs of both releases: the packages' own memory may differ",
}
"""What each name that came needs, where all of a kind need the same."""


def missing(
    before: Mapping[str, list[str]], after: Mapping[str, list[str]], new: Path
) -> Iterator[tuple[str, str]]:
    """Yield each name that came, with what is missing, of the kinds in that order.

    Args:
        before: the last release's names, as `sources.names`.
        after: the new one's.
        new: its package `vllm`.
    """
    for kind in sources.NAMES:
        known = {*before.get(kind, ())}
        came = [name for name in after.get(kind, ()) if name not in known]
        if kind == "architectures":
            yield from _architectures(came, new)
        elif kind == "arguments":
            yield from ((name, _of_argument(name)) for name in came)
        elif kind == "variables":
            yield from ((name, _of_variable(name, new)) for name in came)
        elif kind in _LACKS:
            yield from ((name, _LACKS[kind]) for name in came)


def _architectures(came: list[str], new: Path) -> Iterator[tuple[str, str]]:
    classes = dict(registered(new))
    readable = {classes[name]: name for name in _READ if name in classes}
    for name in came:
        if name in _READ:
            yield name, f"nothing: `planner/models/families/{_READ[name]}.py` reads it"
            continue
        place = classes.get(name, ("", ""))
        like = readable.get(place) or readable.get(_base_of(place, new))
        if like:
            yield (
                name,
                (
                    f"a row: its class is {like}'s, so `{name}` in "
                    f"`planner/models/families/{_READ[like]}.py` as `{like}` is"
                ),
            )
        else:
            yield (
                name,
                (
                    f"a reader of `{'.'.join(place)}`, or a recording (`planner "
                    "record`) with vLLM installed; until then it is refused by name"
                ),
            )


def registered(package: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each architecture with the module and the class that serve it."""
    path = package / "model_executor" / "models" / "registry.py"
    for node in ast.walk(sources.parsed(path)):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple):
                    words = [
                        str(part.value)
                        for part in value.elts
                        if isinstance(part, ast.Constant)
                    ]
                    if len(words) == 2:  # noqa: PLR2004 - module and class
                        yield str(key.value), (words[0], words[1])


def _base_of(place: tuple[str, str], package: Path) -> tuple[str, str]:
    """Return module and class that a class without a body of its own inherits."""
    path = package / "model_executor" / "models" / f"{place[0]}.py"
    if not place[0] or not path.is_file():
        return "", ""
    tree = sources.parsed(path)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == place[1]:
            is_empty = all(isinstance(part, ast.Pass | ast.Expr) for part in node.body)
            if is_empty and len(node.bases) == 1:
                base = ast.unparse(node.bases[0])
                return _module_of(tree, base) or place[0], base
    return "", ""


def _module_of(tree: ast.Module, name: str) -> str:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            named = {one.asname or one.name for one in node.names}
            if name in named:
                return node.module.rpartition("models.")[2]
    return ""


def _of_argument(name: str) -> str:
    path = Path(__file__).parents[2] / "planner" / "data" / "arguments.json"
    row = json.loads(path.read_text(encoding="utf-8")).get(name, {})
    lacks = [field for field in ("group", "text", "memory") if not row.get(field)]
    if not lacks and row["memory"] != "unknown":
        return "nothing: `planner/data/arguments.json` has its effect on memory"
    said = f"{' and '.join(lacks)} in" if lacks else "effect on memory in"
    return f"{said} `planner/data/arguments.json`; plans say that it is not counted"


def _of_variable(name: str, package: Path) -> str:
    """Say what reads a variable: those that a start does not read change no memory."""
    readers = [
        path.relative_to(package).as_posix()
        for path in sorted(package.rglob("*.py"))
        if path.name != "envs.py" and name in path.read_text(encoding="utf-8")
    ]
    where = f"read in {', '.join(readers[:3])}" if readers else "read nowhere else"
    if name in variables():
        return f"listed in `planner/data/variables.json`; {where}"
    return f"a row in `planner/data/variables.json`; {where}"


def new_sentences(before: Path, after: Path) -> Iterator[tuple[str, str]]:
    """Yield what only the new release writes into its log of memory, with the file."""
    old = {text for _file, text in _logged(before)}
    seen: set[str] = set()
    for file, text in _logged(after):
        if text not in old and text not in seen and _MEMORY.search(text):
            seen.add(text)
            yield file, text


_LOGGED = re.compile(r"logger\.\w+\(\s*((?:f?\"(?:[^\"\\]|\\.)*\"\s*)+)", re.MULTILINE)


def _logged(package: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        if not file.startswith(("third_party/", "entrypoints/", "benchmarks/")):
            for match in _LOGGED.finditer(path.read_text(encoding="utf-8")):
                parts = re.findall(r"\"((?:[^\"\\]|\\.)*)\"", match[1])
                yield file, " ".join("".join(parts).split())
