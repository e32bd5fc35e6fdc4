"""The wrong answers that exercises know."""

from __future__ import annotations

from planner.learn.parts import Choice, Number, Part, Size


def wrong_answers(part: Part) -> dict[object, str]:
    """Return each listed wrong answer of a part with what is said to it."""
    if isinstance(part, Size):
        return {f"{one.value()} bytes": one.says for one in part.mistakes}
    if isinstance(part, Number):
        return {one.value(): one.says for one in part.mistakes}
    if isinstance(part, Choice):
        others = [letter for letter in part.options if letter != part.expected]
        return {letter: part.says[letter] for letter in others}
    return {}
