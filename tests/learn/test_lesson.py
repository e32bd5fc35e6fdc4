"""The words of a lesson and the figures that they name."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from string import Formatter
from typing import Any

import pytest

from planner.learn.catalogue import LESSONS, question
from planner.learn.lesson import figures, lesson
from tests.conftest import ROOT

every_lesson = pytest.mark.parametrize("name", LESSONS)


def _words(name: str) -> dict[str, Any]:
    path = ROOT / "planner" / "learn" / "lessons" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _in_braces(text: str) -> set[str]:
    return {field for _, field, _, _ in Formatter().parse(text) if field}


def _named(table: dict[str, Any]) -> Iterator[str]:
    """Yield the figures that a part of the file names."""
    for key, told in table.items():
        if key in ("size", "number"):
            yield told
        elif key in ("mistakes", "slips"):
            yield from told
        elif key in ("solution", "code", "expert"):
            yield from _in_braces(told)
        elif isinstance(told, dict):
            yield from _named(told)


@every_lesson
def test_the_words_name_every_figure_and_no_other(name: str) -> None:
    """A figure that no word names is work for nothing."""
    assert {*figures(name)} == {*_named(_words(name))}


@every_lesson
def test_no_brace_is_left_in_what_is_written(name: str) -> None:
    """Hints and replies are shown as they are; the rest has its figures."""
    found = lesson(name)
    parts = [part for one in found.exercises for part in one.parts]
    replies = [one.says for part in parts for one in getattr(part, "mistakes", ())]
    solved = [str(one.solution()) for one in found.exercises]
    hints = [hint for one in found.exercises for hint in one.hints]

    assert not {"{", "}"} & {*"".join([*replies, *solved, *hints])}
    assert question(name).expert()


def test_a_solution_begins_with_the_letters_that_are_right() -> None:
    """As many as there are choices."""
    titles = {one.name: one.solution().title for one in lesson("kv_cache").exercises}

    assert {
        "3.1": "Solution",
        "3.2": "Solution: a",
        "3.3": "Solution: gemma a, deepseek b, qwen_next c",
        "3.4": "Solution",
    } == titles
