"""Write docs/workshop/misconceptions.md from the exercises of the lessons.

    python tools/misconceptions.py           write the page
    python tools/misconceptions.py --check   exit with 1 when it is not current

The wrong answers and what is said to them are those of `planner/learn/lessons/`, and
every figure is computed by the planner, so that the page cannot drift from the checks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from planner import learn  # noqa: E402
from planner.learn.catalogue import LESSONS  # noqa: E402
from planner.learn.exercise import Exercise  # noqa: E402
from planner.learn.parts import Choice, Made, Number, Part, Size  # noqa: E402
from planner.units import format_size  # noqa: E402

PAGE = ROOT / "docs" / "workshop" / "misconceptions.md"
TEXTS = ROOT / "notebooks" / "src" / "workshop"
BEGIN, END = "<!-- misconceptions: made -->", "<!-- misconceptions: end -->"


def tables() -> str:
    """Return a heading and a table for each lesson."""
    return "\n\n".join(_lesson(number) for number in range(1, len(LESSONS) + 1))


def _lesson(number: int) -> str:
    (path,) = TEXTS.glob(f"{number}_*.py")
    title = re.search(r"^# # (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    if title is None:
        raise ValueError(f"{path} has no title.")
    rows = [row for one in learn.exercises(number) for row in _rows(one)]
    head = ["| Exercise | Right | Wrong answer | The check says |", "| --- " * 4 + "|"]
    return "\n".join([f"## {title[1]}", "", *head, *rows])


def _rows(exercise: Exercise) -> Iterator[str]:
    for part in exercise.parts:
        for wrong, says in _wrong(part):
            yield (
                f"| {exercise.name} `{part.name}` | {_right(part)} | {wrong} | {says} |"
            )


def _right(part: Part) -> str:
    if isinstance(part, Choice):
        return f"`{part.expected}`"
    return "" if isinstance(part, Made) else _told(part, part.expected())


def _wrong(part: Part) -> list[tuple[str, str]]:
    """Return each wrong answer that is known, with what the check says to it."""
    if isinstance(part, Choice):
        return [
            (f"`{letter}`: {part.options[letter]}", says)
            for letter, says in part.says.items()
            if letter != part.expected
        ]
    if isinstance(part, Made):
        return []
    return [(_told(part, one.value()), one.says) for one in part.mistakes]


def _told(part: Size | Number, value: float) -> str:
    if isinstance(part, Size):
        return format_size(round(value))
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def written(page: str) -> str:
    """Return the page with its tables made anew.

    Raises:
        ValueError: when the page has no place for them.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no place for the tables.")
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Run the program; the result is its exit status."""
    page = PAGE.read_text(encoding="utf-8")
    fresh = written(page)
    if arguments == ["--check"]:
        return 0 if page == fresh else 1
    PAGE.write_text(fresh, encoding="utf-8")
    print(PAGE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
