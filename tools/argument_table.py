"""Bring the table of engine arguments up to date with the newest release.

    python tools/argument_table.py SOURCES > planner/data/arguments.json

SOURCES is a folder with the release's sources: a new argument is listed in the group of
the configuration class under whose heading `vllm serve --help` lists it. Kind, choices
and default are what vLLM's own parser has (`tests/data/parsers`, recorded by
`tools/record_parser.py`); all else in an entry stays. A new argument's effect on memory
is unknown until somebody has read what it does, and its text is to be written.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from planner.data import DATA
from planner.engine.arguments import Group, Kind, Memory
from planner.engine.releases import NEWEST

PARSERS = Path(__file__).parents[1] / "tests" / "data" / "parsers"
PARSER = PARSERS / f"{NEWEST}.json"
TABLE = DATA / "arguments.json"
_GROUPS = {
    "Attention": Group.KERNELS,
    "Kernel": Group.KERNELS,
    "Mamba": Group.KERNELS,
    "MultiModal": Group.MULTIMODAL,
    "StructuredOutputs": Group.OUTPUT,
    "Logging": Group.OBSERVABILITY,
    "Observability": Group.OBSERVABILITY,
}
"""vLLM's configuration classes that the planner calls otherwise."""

_KINDS = {
    "int": Kind.WHOLE,
    "human_readable_int": Kind.COUNT,
    "human_readable_int_or_auto": Kind.LENGTH,
    "float": Kind.NUMBER,
    "json": Kind.TABLE,
    "union_dict_and_str": Kind.TABLE,
}

NARROWER = {
    "gpu_memory_utilization": Kind.SHARE,
    "kv_cache_memory_bytes": Kind.SIZE,
    "optimization_level": Kind.WHOLE,
}
"""Where the planner knows more of a value than vLLM's parser."""

_LONG = (
    *("off", "choices", "planned", "offered", "example", "keys"),
    *("keys_gone", "safe_keys", "safe_values"),
    *("kept_out", "uncounted", "bound", "source"),
    *("label", "labels", "hint", "text"),
)
"""Facts of an entry that have a line of their own."""


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


def parsed(name: str, flag: dict[str, Any]) -> dict[str, Any]:
    """Return what vLLM's parser says of an argument, as the table has it."""
    made = {
        "kind": str(NARROWER.get(name, _kind(flag))),
        "choices": [one for one in flag.get("choices", ()) if one is not None],
        "default": flag.get("default"),
    }
    if str(made["default"]).startswith(("<", "==")):
        made["default"] = None
    return {key: value for key, value in made.items() if value not in (None, [], {})}


def _kind(flag: dict[str, Any]) -> Kind:
    kind = str(flag.get("type", "str")).removeprefix("optional:")
    if flag.get("action") in ("boolean", "store_true"):
        return Kind.SWITCH
    if flag.get("nargs") == "+":
        return Kind.NUMBERS if kind == "int" else Kind.NAMES
    if flag.get("choices"):
        return Kind.CHOICE
    return Kind.TABLE if kind.startswith("json:") else _KINDS.get(kind, Kind.TEXT)


def table(sources: Path, parser: Path = PARSER) -> dict[str, dict[str, Any]]:
    """Return the table with what a release, the newest, has of each argument."""
    rows: dict[str, dict[str, Any]] = json.loads(TABLE.read_text(encoding="utf-8"))
    recorded = json.loads(parser.read_text(encoding="utf-8"))
    flags = {flag["dest"]: flag for flag in recorded["flags"]}
    found = groups(sources)
    for name in recorded["engine_arguments"]:
        if name == "model" or name.startswith("_"):
            continue  # the start itself, and what vLLM hands on to its own processes
        known = rows.get(name) or new(found.get(name, ""))
        says = parsed(name, flags.get(name, {}))
        gone = {"choices", "default"} - {*says}
        row = {k: v for k, v in known.items() if k not in gone} | says
        if name in rows:
            rows[name] = row
        else:
            rows = placed(rows, name, row, list(found))
    return rows


def placed(
    rows: dict[str, dict[str, Any]], name: str, row: dict[str, Any], order: list[str]
) -> dict[str, dict[str, Any]]:
    """Return the table with a new argument beside its like.

    That is after the one of its group that vLLM lists before it (`order`), else after
    the last of its group.
    """
    group = [one for one, other in rows.items() if other["group"] == row["group"]]
    before = order[: order.index(name)] if name in order else []
    listed = [one for one in before if one in group] or group or [*rows]
    names = [*rows]
    place = names.index(listed[-1]) + 1
    items = [*rows.items()]
    return dict([*items[:place], (name, row), *items[place:]])


def new(title: str) -> dict[str, Any]:
    """Return the beginning of an entry, by vLLM's heading without the word Config."""
    group = _GROUPS.get(title, title)
    is_known = group in list(Group)
    return {
        "group": str(group) if is_known else str(Group.OTHER),
        "kind": "",
        "memory": str(Memory.UNKNOWN),
        "off": [],
        "text": "",
    }


def written(rows: dict[str, dict[str, Any]]) -> str:
    """Write the table: short facts on one line, each other on its own."""
    return "{\n" + ",\n".join(f" {_entry(*item)}" for item in rows.items()) + "\n}\n"


def _entry(name: str, row: dict[str, Any]) -> str:
    short = {key: value for key, value in row.items() if key not in _LONG}
    lines = [
        json.dumps(short, ensure_ascii=False)[1:-1],
        *(
            f"{json.dumps(key)}: {json.dumps(row[key], ensure_ascii=False)}"
            for key in _LONG
            if key in row
        ),
    ]
    inside = ",\n".join(f"  {line}" for line in lines)
    return f"{json.dumps(name)}: {{\n{inside}\n }}"


def main() -> None:
    """Print the table."""
    sys.stdout.write(written(table(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
