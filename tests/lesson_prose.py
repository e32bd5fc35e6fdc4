"""The words of the workshop that people wrote, and the figures in them.

A lesson's words are the text of its notebook and every piece of text in its files of
`planner/learn/lessons/`: hints, what is said to a mistake, and what stands around the
computed figures of a solution.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator

from planner.learn.catalogue import LESSONS
from tests.conftest import ROOT
from tools import notebooks

KIT = ROOT / "docs" / "workshop"
PAGES = (
    "README.md",
    "minute-cards.md",
    "slides.md",
    "handout.md",
    "learners.md",
    "helpers.md",
)
_MODULES = ROOT / "planner" / "learn" / "lessons"

_UNITS = (
    *("GiB", "GB", "MiB", "KiB", "bytes", "bits", "billion parameters", "tokens"),
    *("layers", "attention heads", "KV heads", "numbers", "L4", "cards", "%"),
)
_FIGURE = re.compile(
    r"(?<![\w.,:-])\d+(?:,\d{3})*(?:\.\d+)?"
    rf"(?: (?:{'|'.join(_UNITS)})(?!\w))?(?!\w|[.:,]\d)"
)
# Minutes and names of exercises are held by test_lessons.py and test_workshop.py, what
# is in braces is computed, and samples of code are run.
_HELD_ELSEWHERE = re.compile(
    r"\d+ minutes?|\d+ of them for|(?<![\d.,])[1-7]\.[1-5](?!\d| [GKM])|\{\{.*?\}\}"
    r"|^```.*?^```|^\|(?: +\d:\d\d| +\d+ minutes| From| ---).*?$|\]\(.*?\)",
    flags=re.DOTALL | re.MULTILINE,
)


def figures(text: str) -> set[str]:
    """Return numbers with their units; of those without one, all from 10 on.

    >>> sorted(figures("15.27 GiB of 24, in 2 lessons of Qwen3-8B, at 2 bytes"))
    ['15.27 GiB', '2 bytes', '24']
    """
    found = _FIGURE.findall(_HELD_ELSEWHERE.sub(" ", text))
    return {one for one in found if not re.fullmatch(r"\d", one)}


def places() -> dict[str, str]:
    """Return the words of each lesson, by its name, and of each page of the kit."""
    (*sources,) = sorted(notebooks.LESSONS.glob("*.py"))
    lessons = {
        name: "\n".join([_prose(path.read_text("utf-8")), *_literals(name)])
        for name, path in zip(LESSONS, sources, strict=True)
    }
    return lessons | {page: (KIT / page).read_text("utf-8") for page in PAGES}


def _prose(source: str) -> str:
    """Return the Markdown of a notebook's text."""
    cells = re.split(r"^# %%", source, flags=re.MULTILINE)
    texts = [cell for cell in cells if cell.startswith(" [markdown]")]
    return "\n".join(
        line.removeprefix("#").strip()
        for text in texts
        for line in text.splitlines()[1:]
    )


def _literals(lesson: str) -> Iterator[str]:
    """Yield every text of a lesson, and of a computed one what is not computed."""
    words = tomllib.loads((_MODULES / f"{lesson}.toml").read_text("utf-8"))
    for text in _texts(words):
        yield re.sub(r"\{[^{}]*\}", "\n", text)
    tree = ast.parse((_MODULES / f"{lesson}.py").read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _texts(words: object) -> Iterator[str]:
    if isinstance(words, str):
        yield words
    elif isinstance(words, list | dict):
        for one in words.values() if isinstance(words, dict) else words:
            yield from _texts(one)
