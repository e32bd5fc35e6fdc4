"""docs/app.md shows every state of the app, and each of its pictures is there."""

import re
from pathlib import Path

from tools.pictures import FULL, STATES, WIDTHS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "app.md").read_text(encoding="utf-8")


def test_every_state_is_shown_at_every_width() -> None:
    """A row for each state, a picture for each width."""
    expected = {f"{state}-{width}" for state in (*STATES, FULL) for width in WIDTHS}

    assert expected == set(re.findall(r"images/app/([\w-]+)\.jpg\)", PAGE))


def test_every_picture_is_there_and_is_used() -> None:
    """JPEG files, none left over."""
    named = set(re.findall(r"images/app/[\w-]+\.jpg", PAGE))
    there = {f"images/app/{path.name}" for path in (DOCS / "images/app").iterdir()}

    assert named == there
    for name in named:
        assert (DOCS / name).read_bytes().startswith(b"\xff\xd8\xff")
