"""What each argument and each term on the page is, and what it does to memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_DATA = Path(__file__).parent.parent / "data" / "glossary.json"


@cache
def entries() -> Mapping[str, str]:
    """Return the text of every entry by its name."""
    found: dict[str, str] = json.loads(_DATA.read_text(encoding="utf-8"))
    return found


def explained(name: str) -> str:
    """Return the text on an argument or term; empty where there is none."""
    return entries().get(name, "")
