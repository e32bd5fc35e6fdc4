"""The pictures of the slides: drawn from the plan, and whole."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from planner import learn
from planner.learn.account import rank_of
from planner.units import format_gib
from tools import slide_pictures

DESK = learn.checkpoint(1)
PROMPT = 4000
DRAWN = {
    "bar": slide_pictures.bar(DESK),
    "budget": slide_pictures.budget(DESK),
    "blocks": slide_pictures.blocks(DESK),
    "preemption": slide_pictures.preemption(DESK, PROMPT),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_one_line_of_svg_with_its_words(name: str) -> None:
    """Markdown takes it as it stands, a screen reader has a sentence."""
    drawn = ElementTree.fromstring(DRAWN[name])

    assert "\n" not in DRAWN[name]
    assert "img" == drawn.get("role")
    assert len(drawn.get("aria-label", "")) > 40


def test_the_bar_names_each_line_with_its_size() -> None:
    """And what vLLM requests, and what the card has."""
    rank = rank_of(DESK)
    words = "".join(ElementTree.fromstring(DRAWN["bar"]).itertext())
    sizes = [one.size_bytes for one in rank.lines if one.size_bytes]

    assert all(format_gib(size) in words for size in sizes)
    assert format_gib(rank.requested_memory_bytes) in words
    assert format_gib(DESK.gpu.total_memory_bytes) in words


def test_each_block_is_drawn_once() -> None:
    """Three requests of 8,192 tokens, what is left, and the one that stays empty."""
    squares = re.findall(r"width='5\.0'", DRAWN["blocks"])
    each = 8192 // 16

    assert DESK.num_gpu_blocks == len(squares)
    assert f"request 3: {each} blocks" in DRAWN["blocks"]
    assert f"{DESK.num_gpu_blocks - 1 - 3 * each} blocks are left" in DRAWN["blocks"]


def test_requests_never_hold_more_than_there_is() -> None:
    """All start, the last gives way where the cache is full, and all are answered."""
    whole = DESK.num_gpu_blocks - 1
    steps = slide_pictures.grown(DESK, PROMPT)
    held = [sum(step.blocks) for step in steps]
    gone = next(at for at, step in enumerate(steps) if step.blocks[-1] == 0)

    assert all(steps[0].blocks)
    assert whole - 3 <= held[gone - 1] <= whole
    assert max(held) <= whole
    assert any(step.blocks[-1] for step in steps[gone:])
    assert not any(steps[-1].blocks)
    assert -(-(PROMPT + steps[gone - 1].answered) // 16) == steps[gone - 1].blocks[0]
