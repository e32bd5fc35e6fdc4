"""The JSON Schemas (draft 7) of what commands print under `--json`.

Each has a URN as its `$id`, and one that refers to the plan's brings it along.
"""

from __future__ import annotations

import json
from typing import Any

from planner.data import DATA
from planner.errors import PlannerError, close_words

PLAN = "plan"
_FOLDER = DATA / "schemas"


def names() -> tuple[str, ...]:
    """Return the names of the schemas: most are a command's."""
    return (PLAN, *sorted(path.stem for path in _FOLDER.glob("*.json")))


def schema(name: str) -> dict[str, Any]:
    """Return a schema that refers to no other file.

    >>> schema("error")["$id"]
    'urn:vllm-memory-planner:schema:error'

    Raises:
        PlannerError: for a name that there is not.
    """
    if name not in names():
        near = close_words(name, names())
        hint = f" Did you mean {near[0]}?" if near else ""
        raise PlannerError(
            f"There is no schema {name!r}.{hint} `planner schema` lists them."
        )
    if name == PLAN:
        return _read(PLAN)
    found, plan = _read(name), _read(PLAN)
    if f'"{plan["$id"]}"' in json.dumps(found):
        found["definitions"] = {**found.get("definitions", {}), PLAN: plan}
    return found


def _read(name: str) -> dict[str, Any]:
    path = DATA / "plan.schema.json" if name == PLAN else _FOLDER / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
