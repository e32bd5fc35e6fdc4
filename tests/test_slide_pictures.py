"""The pictures of the slides: drawn from the plan, and whole."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from planner import learn
from planner.errors import PlannerError
from planner.learn import drawings
from planner.learn.account import rank_of
from planner.units import format_gib
from tools import slide_pictures

DESK = learn.checkpoint(1)
PROMPT = 4000
LARGER = DESK.changed(model="Qwen/Qwen3-14B")
PAIR = LARGER.changed(tensor_parallel_size=2)
KINDS = [
    DESK.changed(model=name, max_model_len=4096)
    for name in (
        "meta-llama/Llama-2-7b-hf",
        "meta-llama/Llama-3.1-8B-Instruct",
        "google/gemma-3-12b-it",
        "deepseek-ai/DeepSeek-V3",
    )
]
PICTURES = {
    "bar": learn.picture("bar", DESK),
    "budget": learn.picture("budget", DESK),
    "token": learn.picture("token", *KINDS),
    "two cards": learn.picture("two cards", LARGER, PAIR),
    "sharing": learn.picture("sharing", DESK),
    "blocks": slide_pictures.blocks(DESK),
    "preemption": slide_pictures.preemption(DESK, PROMPT),
}
DRAWN = {name: one.svg for name, one in PICTURES.items()}


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_one_line_of_svg_with_its_words(name: str) -> None:
    """Markdown takes it as it stands, a screen reader has a sentence."""
    drawn = ElementTree.fromstring(DRAWN[name])
    told = PICTURES[name].told

    assert "\n" not in DRAWN[name]
    assert "img" == drawn.get("role")
    assert PICTURES[name].title == drawn.findtext("title")
    assert " ".join(told) == drawn.findtext("desc")
    assert all(sentence in str(PICTURES[name]) for sentence in told)
    assert all(sentence.endswith(".") for sentence in told)


def test_a_token_takes_what_the_plan_s_groups_say() -> None:
    """32 layers x 32, or 8, heads x 128 x 2 x 2 bytes; 61 x 576 x 2; a window."""
    told = PICTURES["token"].told

    assert "512.0 KiB for each token; each head has its key and its value" in told[0]
    assert "128.0 KiB for each token; 4 heads share a key and a value" in told[1]
    assert "48 layers store 8.0 KiB each" in told[2]
    assert "GQA; 40 layers keep 1,024 tokens" in told[2]
    assert "61 layers store 1.1 KiB each, 68.6 KiB for each token" in told[3]
    assert 2 * (32 + 8 + 8) + 1 == DRAWN["token"].count("class='part'")
    assert 32 + 32 + 48 + 61 == DRAWN["token"].count("class='layer'")


def test_two_cards_hold_half_of_what_is_split() -> None:
    """The parts of both plans; norms and buffers are on each card in full."""
    whole, half = (
        {one.name: one.size_bytes for one in rank_of(plan).weight_parts}
        for plan in (LARGER, PAIR)
    )
    told = PICTURES["two cards"].told

    assert {name for name in whole if whole[name] == half[name]} == {"norms", "buffers"}
    assert whole["mlp"] == 2 * half["mlp"]
    assert sum("split." in one for one in told) == 4
    assert sum("copied." in one for one in told) == 2
    assert "copied to every card: norms, buffers" in DRAWN["two cards"]


def test_only_full_blocks_of_a_beginning_are_shared() -> None:
    """70 of 110 tokens in blocks of 16: 4 shared, 3 of each request's own."""
    assert "4 full blocks are stored once, and 3 blocks of each" in str(
        PICTURES["sharing"]
    )
    assert 3 * 7 + 4 + 3 * 3 == DRAWN["sharing"].count("class='part'")


def test_a_picture_that_is_not_there_is_refused() -> None:
    """With the names of those there are."""
    with pytest.raises(PlannerError, match="bar, budget, token, two cards, sharing"):
        learn.picture("bart", DESK)


def test_the_slides_and_lessons_show_a_picture_in_words_too() -> None:
    """Folded below it in a notebook, with the style sheet that it needs."""
    shown = PICTURES["budget"]._repr_html_()

    assert "The picture in words" in shown
    assert drawings.styles() in shown


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
