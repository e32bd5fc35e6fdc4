"""docs/app.md shows every state of the app, and each of its pictures is there."""

import re
from pathlib import Path

from tools.pictures import FULL, STATES, WIDTHS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "app.md").read_text(encoding="utf-8")


def test_every_state_has_a_picture_at_every_width() -> None:
    """JPEG files, none left over."""
    expected = {f"{state}-{width}" for state in (*STATES, FULL) for width in WIDTHS}
    pictures = list((DOCS / "images/app").iterdir())

    assert expected == {path.stem for path in pictures}
    for path in pictures:
        assert path.read_bytes().startswith(b"\xff\xd8\xff")


def test_every_picture_of_the_page_is_there() -> None:
    """The page shows a few, and leads to all."""
    named = re.findall(r"\((images/app/[\w-]+\.jpg)\)", PAGE)

    assert len(named) >= 3
    assert all((DOCS / name).is_file() for name in named)
    assert "(images/app)" in PAGE
