"""Regenerate planner/data/release_history.json: what came with which release of vLLM.

Also planner/data/variables.json, with `--variables`: every environment variable of
vLLM's, with the release that it came with (empty: the oldest) and the one that it went
with.

Reads unpacked sources of vLLM, one folder per release named after it, each with the
package `vllm` in it. Nothing is imported, only parsed. A new release alone is added by
`make release` (`tools/release/`), which needs no other release's sources.

    python tools/release_history.py FOLDER > planner/data/release_history.json
    python tools/release_history.py FOLDER --variables > planner/data/variables.json
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from planner.engine.releases import MODELLED

Reader = Callable[[Path], Iterator[str]]


def main(folder: Path) -> None:
    """Print the first release of each engine argument and architecture.

    What the oldest release has is left out.
    """
    found = {
        "arguments": _first_releases(folder, arguments),
        "architectures": _first_releases(folder, architectures),
        "kv_cache_dtypes": _first_releases(folder, kv_cache_dtypes),
    }
    print(json.dumps(found, indent=1, sort_keys=True))


def variables(folder: Path) -> dict[str, list[str]]:
    """Return the variables that begin with VLLM_, each with its first release and end.

    Releases whose sources are not in the folder are passed over.
    """
    having: dict[str, list[str]] = {}
    releases = [one for one in reversed(MODELLED) if (folder / one).is_dir()]
    for version in releases:
        for name in variables_of(folder / version / "vllm"):
            having.setdefault(name, []).append(version)
    found = {}
    for name, versions in sorted(having.items()):
        after = releases.index(versions[-1]) + 1
        came = "" if versions[0] == releases[0] else versions[0]
        found[name] = [came, releases[after] if after < len(releases) else ""]
    return found


def variables_of(package: Path) -> Iterator[str]:
    """Yield the names of a release's environment variables that begin with VLLM_."""
    for node in ast.walk(_parsed(package / "envs.py")):
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if getattr(target, "id", "") == "environment_variables":
            assert isinstance(node, ast.AnnAssign)
            assert isinstance(node.value, ast.Dict)
            for key in node.value.keys:
                name = key.value if isinstance(key, ast.Constant) else ""
                if str(name).startswith("VLLM_"):
                    yield str(name)


def compact(found: dict[str, list[str]]) -> str:
    """Write one variable a line."""
    rows = (f" {json.dumps(name)}: {json.dumps(row)}" for name, row in found.items())
    return "{\n" + ",\n".join(rows) + "\n}"


def _first_releases(folder: Path, names: Reader) -> dict[str, str]:
    oldest, *later = reversed(MODELLED)
    known = set(names(folder / oldest / "vllm"))
    firsts: dict[str, str] = {}
    for version in later:
        for name in names(folder / version / "vllm"):
            if name not in known:
                known.add(name)
                firsts[name] = version
    return firsts


def arguments(package: Path) -> Iterator[str]:
    """Yield the names of a release's engine arguments."""
    tree = _parsed(package / "engine" / "arg_utils.py")
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name.endswith("EngineArgs"):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(
                    field.target, ast.Name
                ):
                    yield field.target.id


def architectures(package: Path) -> Iterator[str]:
    """Yield the names of a release's registry, in its order."""
    tree = _parsed(package / "model_executor" / "models" / "registry.py")
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(
            node.value, ast.Dict
        ):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple):
                    yield str(key.value)


def kv_cache_dtypes(package: Path) -> Iterator[str]:
    """Yield the values of kv_cache_dtype that a release has."""
    for path in (package / "config" / "cache.py", package / "config.py"):
        if not path.is_file():
            continue
        for node in _parsed(path).body:
            value = node.value if isinstance(node, ast.Assign) else None
            if value is None or "CacheDType" not in ast.unparse(node).split("=")[0]:
                continue
            yield from (
                str(part.value)
                for part in ast.walk(value)
                if isinstance(part, ast.Constant)
            )
        return


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    if "--variables" in sys.argv:
        print(compact(variables(Path(sys.argv[1]))))
    else:
        main(Path(sys.argv[1]))
