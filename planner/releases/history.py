"""What came with which release: engine arguments, architectures, KV cache dtypes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Literal

from planner.releases.number import Numbered

Kind = Literal["arguments", "architectures", "kv_cache_dtypes"]


@cache
def _history() -> dict[Kind, dict[str, str]]:
    path = Path(__file__).parent.parent / "data" / "release_history.json"
    table: dict[Kind, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return table


def came_later(kind: Kind, name: str, release: Numbered) -> str | None:
    """Return the release that something came with; None where this one has it.

    Also None for what no release is known to have, or the oldest has already.
    """
    first = _history()[kind].get(name)
    if first is None:
        return None
    major, minor, patch = map(int, first.split("."))
    return None if release.since(major, minor, patch) else first
