"""docs/memory-model.md and its picture say what the planner says."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from planner.units import format_gib
from tests import plans
from tools import memory_model
from tools.memory_picture import picture

PAGES = memory_model.pages()
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_file_is_what_the_tool_writes(path: Path) -> None:
    """`python tools/memory_model.py` writes both anew."""
    assert PAGES[path] == path.read_text(encoding="utf-8")


def test_the_tables_add_up_to_what_is_requested() -> None:
    """Six lines, and each release's row, up to the rounding of each."""
    page = PAGES[memory_model.PAGE]
    account = dict(re.findall(r"^\| (.+?) \| ([\d.]+) \| [\d.]+ % \|", page, re.M))
    lines = [
        float(size) for name, size in account.items() if name in memory_model._LINES
    ]
    releases = re.findall(r"^\| (0\.\d+\.\d) \| (.+) \|$", page, re.MULTILINE)

    assert len(lines) == len(memory_model._LINES)
    assert float(account["= requested"]) == pytest.approx(sum(lines), abs=0.036)
    assert [release for release, _ in releases] == list(memory_model._RELEASES)
    for release, cells in releases:
        asked, *parts = [float(cell) for cell in cells.split(" | ")]
        assert asked == pytest.approx(sum(parts), abs=0.036), release


def test_every_part_of_the_picture_is_named_with_its_size() -> None:
    """A bar is as wide as its list says; the card is the sum of the first one."""
    shown = plans.fitting()
    tree = ElementTree.fromstring(picture(shown))
    texts = [text.text for text in tree.iter(f"{SVG}text")]
    bars = [
        [
            float(one.get("width", 0))
            for one in group.findall(f"{SVG}rect[@height='34']")
        ]
        for group in tree.findall(f"{SVG}g")
    ]

    for line in shown.limiting_rank.lines:
        assert format_gib(line.size_bytes) in texts[texts.index(line.name) + 1]
    assert len(bars) == 3
    for widths in bars:
        assert sum(widths) == pytest.approx(448, abs=0.5)
