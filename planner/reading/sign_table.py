"""What readers look for: words and patterns, rows of `planner/data/signs.json`."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from planner.data import DATA


@cache
def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = json.loads(
        (DATA / "signs.json").read_text(encoding="utf-8")
    )
    return tables


def signs(name: str) -> Any:  # noqa: ANN401 - a list, or a table
    """Return what is looked for under a name."""
    return _tables()[name]


def any_of(name: str) -> str:
    """Return the pattern of one of the patterns under a name, the first first."""
    return "|".join(signs(name))
