"""Write docs/workshop/misconceptions.md from the exercises of the lessons.

    python tools/misconceptions.py           write the page
    python tools/misconceptions.py --check   exit with 1 when it is not current

Wrong answers, what is said to them and the experts' explanations are those of
`planner/learn/lessons/`, and every figure is computed by the planner,
so that the page cannot drift from the checks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from planner import learn  # noqa: E402
from planner.learn.catalogue import LESSONS, question  # noqa: E402
from planner.learn.exercise import Exercise  # noqa: E402
from planner.learn.parts import Choice, MadePart, Number, Part, Size  # noqa: E402
from planner.units import format_size  # noqa: E402

PAGE = ROOT / "docs" / "workshop" / "misconceptions.md"
TEXTS = ROOT / "notebooks" / "src" / "workshop"
BEGIN, END = "<!-- misconceptions: made -->", "<!-- misconceptions: end -->"


def lists() -> str:
    """Return a heading and, for each part of an exercise, a list of wrong answers."""
    return "\n\n".join(_lesson(number) for number in range(1, len(LESSONS) + 1))


def _lesson(number: int) -> str:
    (path,) = TEXTS.glob(f"{number}_*.py")
    title = re.search(r"^# # (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    if title is None:
        raise ValueError(f"{path} has no title.")
    found = [text for one in learn.exercises(number) for text in _exercise(one)]
    return "\n\n".join([f"## {title[1]}", *found, _explanation(number)])


def _explanation(number: int) -> str:
    """Return what a lesson asks to be explained, the expert's answer and its points."""
    asked = question(number)
    points = "\n".join(f"- {point}" for point in asked.points)
    return f"**Explain** {asked.asked}\n\n> {asked.expert()}\n\nListen for:\n\n{points}"


def _exercise(exercise: Exercise) -> Iterator[str]:
    """Yield a list for each part; parts with the same choices share one."""
    for _key, group in groupby(exercise.parts, _choices):
        parts = list(group)
        wrong = _wrong_letters(parts) if isinstance(parts[0], Choice) else []
        wrong += [row for part in parts for row in _wrong_figures(part)]
        if wrong:
            right = ", ".join(f"`{one.name}`: {_right(one)}" for one in parts)
            yield "\n".join([f"**{exercise.name}** {right}", "", *wrong])


def _choices(part: Part) -> tuple[object, ...]:
    """Return what parts have to have in common for one list of wrong answers."""
    if isinstance(part, Choice):
        return (*part.options.items(), *part.says.items())
    return (part.name,)


def _right(part: Part) -> str:
    if isinstance(part, Choice):
        return f"`{part.expected}`"
    return "" if isinstance(part, MadePart) else _told(part, part.expected())


def _wrong_letters(parts: Sequence[Part]) -> list[str]:
    """Return a row for each letter that is wrong, and where it is right instead."""
    choices = [part for part in parts if isinstance(part, Choice)]
    rows = []
    for letter, says in choices[0].says.items():
        right = [f"`{one.name}`" for one in choices if one.expected == letter]
        if len(right) == len(choices):
            continue
        where = f" (except {', '.join(right)})" if right else ""
        rows.append(f"- `{letter}`{where}, {choices[0].options[letter]}: {says}")
    return rows


def _wrong_figures(part: Part) -> list[str]:
    """Return a row for each wrong figure that is known, with what the check says."""
    if isinstance(part, Choice | MadePart):
        return []
    return [f"- {_told(part, one.value())}: {one.says}" for one in part.mistakes]


def _told(part: Size | Number, value: float) -> str:
    if isinstance(part, Size):
        return format_size(round(value))
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def written(page: str) -> str:
    """Return the page with its lists written again.

    Raises:
        ValueError: when the page has no place for them.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no place for the lists.")
    return f"{before}{BEGIN}\n\n{lists()}\n\n{END}{after}"


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
