"""Write what the controls need to know of each engine argument of the newest release.

    python tools/argument_table.py SOURCES > planner/data/arguments.json

SOURCES is a folder with the release's sources: its group is the configuration class
under whose heading `vllm serve --help` lists an argument. Kind, choices and default are
what its own parser has (`tests/data/parsers`, recorded by `tools/record_parser.py`).
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from planner.engine import EngineSettings
from planner.engine_args import SWITCHED_OFF, WITHOUT_EFFECT
from planner.releases import NEWEST

PARSER = Path(__file__).parents[1] / "tests" / "data" / "parsers" / f"{NEWEST}.json"
ELSEWHERE = "Server"
"""The heading for arguments that are listed under none of the engine's."""

_KINDS = {
    "int": "whole",
    "human_readable_int": "count",
    "human_readable_int_or_auto": "length",
    "float": "number",
    "json": "json",
    "union_dict_and_str": "json",
    "str": "text",
}


def groups(sources: Path) -> dict[str, str]:
    """Return the heading of each argument, without the word Config."""
    path = sources / "vllm" / "engine" / "arg_utils.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    titles = dict(_titles(tree))
    found: dict[str, str] = {}
    for call in _calls(tree, "add_argument"):
        holder = call.func.value  # type: ignore[attr-defined]
        if isinstance(holder, ast.Name) and holder.id in titles:
            for flag in call.args:
                if isinstance(flag, ast.Constant):
                    name = str(flag.value).lstrip("-").replace("-", "_")
                    found[name] = titles[holder.id].removesuffix("Config")
    return found


def _titles(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        if getattr(node.value.func, "attr", "") != "add_argument_group":
            continue
        words = {word.arg: word.value for word in node.value.keywords}
        title = words.get("title")
        target = node.targets[0]
        if isinstance(title, ast.Constant) and isinstance(target, ast.Name):
            yield target.id, str(title.value)


def _calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == name:
            yield node


def row(group: str, flag: dict[str, Any]) -> dict[str, Any]:
    """Return what the controls need to know of one argument."""
    choices = [one for one in flag.get("choices", ()) if one is not None]
    made = {
        "group": group,
        "kind": _kind(flag),
        "choices": choices,
        "default": flag.get("default"),
    }
    if str(made["default"]).startswith(("<", "==")):
        made["default"] = None
    return {key: value for key, value in made.items() if value not in (None, [], {})}


def _kind(flag: dict[str, Any]) -> str:
    if flag.get("action") in ("boolean", "store_true"):
        return "switch"
    if flag.get("nargs") == "+":
        return "list"
    if flag.get("choices"):
        return "choice"
    kind = str(flag.get("type", "str")).removeprefix("optional:")
    return "json" if kind.startswith("json:") else _KINDS.get(kind, "text")


def table(sources: Path) -> dict[str, dict[str, Any]]:
    """Return every argument that the planner knows, in the order of `vllm serve`."""
    recorded = json.loads(PARSER.read_text(encoding="utf-8"))
    flags = {flag["dest"]: flag for flag in recorded["flags"]}
    found = groups(sources)
    known = (set(EngineSettings.__dataclass_fields__) - {"others"}) | WITHOUT_EFFECT
    known |= set(SWITCHED_OFF)
    order = [*(name for name in found if name in known), *sorted(known - set(found))]
    return {
        name: row(found.get(name, ELSEWHERE), flags.get(name, {})) for name in order
    }


def main() -> None:
    """Print the table, one argument a line."""
    rows = table(Path(sys.argv[1])).items()
    lines = [f" {json.dumps(name)}: {json.dumps(made)}" for name, made in rows]
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
