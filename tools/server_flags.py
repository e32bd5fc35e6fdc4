"""Regenerate planner/data/server_flags.json: flags that are no engine arguments.

Reads unpacked sources of vLLM, one folder per release named after it, each with the
package `vllm` in it, and the parsers that `tools/record_parser.py` recorded. Nothing is
imported, only parsed. Texts and successors are written by hand and stay.

    python tools/server_flags.py FOLDER > planner/data/server_flags.json
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from planner.data import DATA
from planner.engine.arguments import ARGUMENTS
from planner.engine.releases import number_of

TABLE = DATA / "server_flags.json"
PARSERS = Path(__file__).parents[1] / "tests" / "data" / "parsers"
_READ = (
    "engine/arg_utils.py",
    *(f"entrypoints/{name}/cli_args.py" for name in ("common", "openai", "launchers")),
    "entrypoints/cli/serve.py",
    "utils/argparse_utils.py",
    "utils.py",
    "utils/__init__.py",
)
_CLASSES = ("FrontendArgs", "EngineArgs")
_SWITCHES = ("store_true", "store_false", "boolean", "BooleanOptionalAction")
_BY_HAND = ("text", "instead", "kept_out")
_FACTS = ("kind", "choices", "short", "since", "gone", "of_engine", *_BY_HAND)
_NOT_FLAGS = ("help", "model_tag", "model")

Facts = dict[str, Any]


def main(folder: Path) -> None:
    """Print the table."""
    releases = sorted((path.name for path in folder.iterdir()), key=number_of)
    found = {release: flags_of(folder / release, release) for release in releases}
    known = json.loads(TABLE.read_text(encoding="utf-8"))["flags"]
    names = sorted({name for flags in found.values() for name in flags})
    rows = {
        name: _row(name, found, known.get(name, {}))
        for name in names
        if name not in ARGUMENTS
    }
    print(written({"flags": rows, "spellings": _spellings(found)}))


def written(table: dict[str, dict[str, Any]]) -> str:
    """Write the table, one flag a line."""
    parts = (f' "{part}": {{\n{_lines(rows)}\n }}' for part, rows in table.items())
    return "{\n" + ",\n".join(parts) + "\n}"


def _lines(rows: dict[str, Any]) -> str:
    return ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(row, ensure_ascii=False)}"
        for name, row in rows.items()
    )


def _row(name: str, found: dict[str, dict[str, Facts]], known: Facts) -> Facts:
    releases = list(found)
    having = [release for release in releases if name in found[release]]
    after = releases.index(having[-1]) + 1
    shorts = [flag for flag in _flags(name, found) if not flag.startswith("--")]
    is_gone = after < len(releases)
    row = {
        "kind": _kind(name, found, having),
        "choices": [] if is_gone else found[having[-1]][name].get("choices"),
        "short": shorts[0] if shorts else "",
        "since": "" if having[0] == releases[0] else having[0],
        "gone": releases[after] if is_gone else "",
        "of_engine": any(found[release][name]["of_engine"] for release in having),
        **{key: known.get(key, "") for key in _BY_HAND},
    }
    return {key: value for key, value in row.items() if value}


def _kind(name: str, found: dict[str, dict[str, Facts]], having: list[str]) -> str:
    """Return what the newest recorded parser says, else the newest source.

    Some switches took a word in the last release before they went.
    """
    recorded = [one for one in having if (PARSERS / f"{one}.json").is_file()]
    kinds = [found[one][name]["kind"] for one in (*having[-1:], *recorded)]
    return "switch" if "switch" in kinds else str(kinds[-1])


def _flags(name: str, found: dict[str, dict[str, Facts]]) -> list[str]:
    """Return every spelling of an argument, the newest first."""
    spelled = (flags.get(name, {}).get("flags", ()) for flags in found.values())
    return list(
        dict.fromkeys(flag for flags in reversed(list(spelled)) for flag in flags)
    )


def added(table: Facts, flags: dict[str, Facts], release: str) -> Facts:
    """Return the table with what a release, newer than all in it, has otherwise."""
    rows = dict(table["flags"])
    for name in sorted({*rows, *flags} - {*ARGUMENTS}):
        row = rows.get(name, {})
        if name in flags:
            kind = _kind(name, {release: flags}, [release])
            shorts = [one for one in flags[name]["flags"] if not one.startswith("--")]
            began = {"since": release} if name not in rows else {}
            row = {**row, **began, "kind": kind, "short": (shorts or [""])[0]}
            row["choices"] = flags[name].get("choices")
            row.pop("gone", None)
            row |= {"of_engine": row.get("of_engine") or flags[name]["of_engine"]}
        elif not row.get("gone"):
            row = {**row, "gone": release, "choices": []}
        rows[name] = {key: row[key] for key in _FACTS if row.get(key)}
    spelled = table["spellings"] | _spellings({release: flags})
    return {"flags": dict(sorted(rows.items())), "spellings": spelled}


def _spellings(found: dict[str, dict[str, Facts]]) -> dict[str, str]:
    """Return flags that are not their argument's name; the newest meaning counts."""
    spelled = {
        flag: name
        for flags in found.values()
        for name, facts in flags.items()
        for flag in facts["flags"]
        if flag != "--" + name.replace("_", "-")
    }
    today = {one.short: one.name for one in ARGUMENTS.values() if one.short}
    return spelled | today


def flags_of(folder: Path, release: str) -> dict[str, Facts]:
    """Return a release's flags by destination; what was recorded comes first.

    `folder` holds its package `vllm`.
    """
    found: dict[str, Facts] = {}
    for part in _READ:
        path = folder / "vllm" / part
        if path.is_file():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            engine = part.startswith("engine")
            fields = dict(_fields(tree))
            for name, facts in (*(() if engine else fields.items()), *_calls(tree)):
                kinds = (facts["kind"], fields.get(name, facts)["kind"])
                kind = next((kind for kind in kinds if kind != "one"), "one")
                found[name] = {**facts, "kind": kind, "of_engine": engine}
    recorded = PARSERS / f"{release}.json"
    if recorded.is_file():
        found = _recorded(json.loads(recorded.read_text(encoding="utf-8")), found)
    return {name: one for name, one in found.items() if name not in _NOT_FLAGS}


def _recorded(parser: Facts, parsed: dict[str, Facts]) -> dict[str, Facts]:
    return {
        flag["dest"]: {
            "flags": flag["flags"],
            "kind": _kind_of_recorded(flag),
            "choices": [str(choice) for choice in flag.get("choices", ())],
            "of_engine": parsed.get(flag["dest"], {}).get("of_engine", False),
        }
        for flag in parser["flags"]
        if "flags" in flag
    }


def _kind_of_recorded(flag: Facts) -> str:
    if flag.get("action") in _SWITCHES:
        return "switch"
    if flag.get("nargs") in ("+", "*"):
        return "many"
    return "json" if str(flag.get("type")).endswith("json") else "one"


def _calls(tree: ast.AST) -> Iterator[tuple[str, Facts]]:
    """Read `add_argument("--flag", ...)`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if getattr(node.func, "attr", "") != "add_argument":
            continue
        flags = [str(one.value) for one in node.args if isinstance(one, ast.Constant)]
        flags = [flag for flag in flags if flag.startswith("-")]
        long = [flag for flag in flags if flag.startswith("--")]
        if not long:
            continue
        words = {
            word.arg: ast.unparse(word.value) for word in node.keywords if word.arg
        }
        name = words.get("dest", long[0]).strip("'\"").lstrip("-").replace("-", "_")
        yield name, {"flags": flags, "kind": _kind_of_call(words)}


def _kind_of_call(words: dict[str, str]) -> str:
    if any(switch in words.get("action", "") for switch in _SWITCHES):
        return "switch"
    if words.get("nargs", "").strip("'\"") in ("+", "*"):
        return "many"
    return "json" if "json" in words.get("type", "") else "one"


def _fields(tree: ast.AST) -> Iterator[tuple[str, Facts]]:
    """Read the fields of the server's class of flags."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or not node.name.endswith(_CLASSES):
            continue
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                name, kind = field.target.id, ast.unparse(field.annotation)
                flag = "--" + name.replace("_", "-")
                yield name, {"flags": [flag], "kind": _kind_of_field(kind)}


def _kind_of_field(annotation: str) -> str:
    if "bool" in annotation:
        return "switch"
    if "dict" in annotation:
        return "json"
    return "many" if "list" in annotation else "one"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
