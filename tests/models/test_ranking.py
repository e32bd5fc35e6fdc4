"""Ranking names as one types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.models.catalogue import Named, rank
from tests.rows import each_row

NAMES = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Meta-Llama-3.1-8B",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-8B-FP8",
    "mistralai/Mixtral-8x7B-v0.1",
)
INDEX = tuple(map(Named.of, NAMES))
SHARED = json.loads(
    (Path(__file__).parents[1] / "data" / "ranking_cases.json").read_text(
        encoding="utf-8"
    )
)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("llama", [NAMES[0], NAMES[1], NAMES[2]]),
        ("LLAMA 8B", [NAMES[0], NAMES[1], NAMES[2]]),
        ("llama31", [NAMES[0], NAMES[1]]),
        ("llama-3.1 inst", [NAMES[0]]),
        ("qwen3-8b", [NAMES[3], NAMES[4]]),
        ("Qwen/Qwen3-8B", [NAMES[3], NAMES[4]]),
        ("fp8", [NAMES[4]]),
        ("distill", [NAMES[2]]),
        ("mxtrl", [NAMES[5]]),
        ("zzz", []),
    ],
    ids=str,
)
def test_what_is_typed_finds_names_best_first(typed: str, expected: list[str]):
    """Beginnings before words, words before parts, letters alone only as a last way."""
    assert list(rank(typed, INDEX)) == expected


@pytest.mark.parametrize("typed", ["", "  ", "-"])
def test_nothing_typed_holds_in_every_name(typed: str):
    """The list is whole before the first letter."""
    assert rank(typed, INDEX) == NAMES


def test_scattered_letters_do_not_hide_true_hits():
    """o, s and s stand in that order in many names; only one has the word."""
    names = ("openai/whisper-small-s", "openai/gpt-oss-20b")
    assert rank("oss", tuple(map(Named.of, names))) == ("openai/gpt-oss-20b",)


@each_row("case", SHARED["cases"], ids=lambda case: repr(case["typed"]))
def test_the_kernel_ranks_as_the_page_does(case: dict[str, object]):
    """`tests/js/ranking.test.js` holds the page's script to the same table."""
    index = tuple(map(Named.of, SHARED["names"]))
    assert case["found"] == list(rank(str(case["typed"]), index))
