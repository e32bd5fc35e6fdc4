"""Take the newest release out of the planner's data files, to rehearse that it comes.

    PYTHON -m tools.release.rehearsal VLLM_PYTHON

VLLM_PYTHON is of an environment with the release before the newest, whose lists of
names take the place of the newest one's. What is left is a repository in which `make
release` of the newest one writes every file again; `git diff` then shows what it
missed. Only for a clone: files are overwritten and deleted.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

from planner.confirming import installation
from planner.engine.releases import MODELLED, number_of
from tools import argument_table, lora_classes, release_history, server_flags
from tools.release import data, installing, record, sources

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Go back to the release before the newest, and name the files that changed.

    Raises:
        SystemExit: when the environment has another release.
    """
    newest, before = MODELLED[:2]
    python = sys.argv[1]
    found = installation.find(python).version
    if number_of(found) != number_of(before):
        raise SystemExit(f"{python} has vLLM {found}, not {before}.")
    packages = installing.packages_of(python)
    names = sources.names(packages / "vllm")
    wheel = data.Wheel(
        release=before,
        python=python,
        packages=packages,
        names=names,
        before=names,
        root=ROOT,
    )
    for path in undone(wheel, newest):
        sys.stdout.write(f"{path}\n")


def undone(wheel: data.Wheel, newest: str) -> list[str]:
    """Write every file without the newest release; return those that changed.

    Args:
        wheel: the release before it.
        newest: the release that is taken out.
    """
    changed = []
    firsts = json.loads((wheel.data / "release_history.json").read_text("utf-8"))
    came = [name for name, one in firsts["arguments"].items() if one == newest]
    undo = _UNDO | {"planner/data/arguments.json": partial(_arguments, came=came)}
    for path, make in data.writers(wheel).items():
        file = wheel.root / path
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        without = undo.get(path)
        # What is written whole, of one release, is written of the one before.
        after = without(text, newest) if without else make(wheel, text)
        if after != text:
            file.write_text(after, encoding="utf-8")
            changed.append(path)
    folder = wheel.root / record.FOLDER.relative_to(ROOT)
    for file in (
        wheel.parser.with_name(f"{newest}.json"),
        folder / f"{newest}.json",
        record.answers_of(newest, folder),
    ):
        if file.is_file():
            file.unlink()
            changed.append(file.relative_to(wheel.root).as_posix())
    return changed


def _history(text: str, newest: str) -> str:
    table = {
        kind: {name: first for name, first in firsts.items() if first != newest}
        for kind, firsts in json.loads(text).items()
    }
    return json.dumps(table, indent=1, sort_keys=True) + "\n"


def _variables(text: str, newest: str) -> str:
    table = {
        name: [first, "" if last == newest else last]
        for name, (first, last) in json.loads(text).items()
        if first != newest
    }
    return release_history.compact(table) + "\n"


def _model_types(text: str, newest: str) -> str:
    left = {name: one for name, one in json.loads(text).items() if one != newest}
    return json.dumps(left, indent=1, sort_keys=True) + "\n"


def _adapters(text: str, newest: str) -> str:
    classes = {
        name: [step for step in steps if step["since"] != newest]
        for name, steps in json.loads(text)["classes"].items()
    }
    return lora_classes.written({name: one for name, one in classes.items() if one})


def _without(rows: dict[str, dict[str, Any]], newest: str) -> dict[str, Any]:
    """Return rows without those that came, with those that went."""
    went = ("gone", newest)
    return {
        name: dict(pair for pair in row.items() if pair != went)
        for name, row in rows.items()
        if row.get("since") != newest
    }


def _flags(text: str, newest: str) -> str:
    table = json.loads(text)
    rows = _without(table["flags"], newest)
    return server_flags.written({**table, "flags": rows}) + "\n"


def _arguments(text: str, newest: str, came: Collection[str]) -> str:
    rows = _without(json.loads(text), newest)
    left = {name: row for name, row in rows.items() if name not in came}
    return argument_table.written(left)


def _releases(text: str, newest: str) -> str:
    return re.sub(rf'"{re.escape(newest)}", ?', "", text, count=1)


_UNDO: dict[str, Callable[[str, str], str]] = {
    "planner/data/release_history.json": _history,
    "planner/data/variables.json": _variables,
    "planner/data/model_type_history.json": _model_types,
    "planner/data/lora_classes.json": _adapters,
    "planner/data/server_flags.json": _flags,
    "planner/engine/releases/__init__.py": _releases,
}


if __name__ == "__main__":
    main()
