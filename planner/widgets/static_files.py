"""Scripts and style sheets of the widgets: small files, joined for the page."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from planner.presentation.page import tokens

STATIC = Path(__file__).parent / "static"


@cache
def script(*names: str) -> str:
    """Join scripts to one module; the last one holds its `export default`."""
    return "\n".join(_read(name) for name in names)


@cache
def sheet(*names: str) -> str:
    """Join style sheets behind the design's own names."""
    return "\n".join([tokens(), *(_read(name) for name in names)])


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")
