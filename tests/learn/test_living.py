"""The living KV cache: what vLLM's scheduler does with blocks, in the large."""

from __future__ import annotations

import re

import pytest

from planner import plan
from planner.errors import PlannerError
from planner.learn import living_kv_cache
from planner.learn.kv_simulation import SHARED, Arrival, Phase, Simulation, Step

PLANS = [
    ("Qwen/Qwen3-8B", "L4", {"max_model_len": 8192}),
    ("Qwen/Qwen3-8B", "L4", {"max_model_len": 12288}),
    ("Qwen/Qwen3-8B", "L4", {"max_model_len": 256}),
    ("meta-llama/Llama-3.1-8B-Instruct", "H100", {"max_model_len": 8192}),
    ("deepseek-ai/DeepSeek-R1", "H200", {"tensor_parallel_size": 8}),
    ("Qwen/Qwen3-8B", "L4", {"max_model_len": 8192, "enable_prefix_caching": False}),
]


def _two(prompt: int = 8, answer: int = 8, shared: int = 0) -> list[Arrival]:
    return [
        Arrival(
            name=name,
            step=step,
            prompt_tokens=prompt,
            answer_tokens=answer,
            shared_tokens=shared,
        )
        for name, step in (("A", 1), ("B", 2))
    ]


def _said(steps: tuple[Step, ...]) -> str:
    return "\n".join(text for step in steps for text in step.events)


def test_requests_with_room_are_never_preempted() -> None:
    """Two requests of 4 blocks each, in 8."""
    steps = Simulation(_two(), num_blocks=8, block_size=4).steps()

    assert [0, 0] == [one.preemptions for one in steps[-1].requests]
    assert {Phase.FINISHED} == {one.phase for one in steps[-1].requests}


def test_without_room_the_last_to_arrive_is_preempted_and_comes_back() -> None:
    """Two requests of 4 blocks each, in 6."""
    steps = Simulation(_two(), num_blocks=6, block_size=4).steps()
    said = _said(steps)

    assert [0, 1] == [one.preemptions for one in steps[-1].requests]
    assert "B, the last to arrive, is preempted" in said
    assert said.index("A is finished") < said.index("B comes back")
    assert {Phase.FINISHED} == {one.phase for one in steps[-1].requests}


def test_a_preempted_request_has_no_tokens_in_the_cache() -> None:
    """Nothing of it counts as computed."""
    steps = Simulation(_two(), num_blocks=6, block_size=4).steps()
    preempted = [
        one for step in steps for one in step.requests if one.phase is Phase.PREEMPTED
    ]

    assert preempted
    assert {0} == {one.tokens for one in preempted}


def test_a_preempted_request_finds_its_full_blocks_that_are_left() -> None:
    """With prefix caching; without, it is computed again as a whole."""
    for is_caching, kept in ((True, "found in the cache"), (False, "")):
        steps = Simulation(
            _two(),
            num_blocks=6,
            block_size=4,
            enable_prefix_caching=is_caching,
        ).steps()
        back = re.search(r"B comes back:.*", _said(steps))
        assert back is not None
        assert (kept in back[0]) is True
        assert ("found" in back[0]) is is_caching


def test_a_shared_beginning_is_stored_once() -> None:
    """B finds A's full blocks of it."""
    steps = Simulation(_two(shared=4), num_blocks=8, block_size=4).steps()
    both = [block for block in steps[2].blocks if block.owners == ("A", "B")]

    assert [(SHARED, 4)] == [(block.content, block.tokens) for block in both]
    assert "B starts: 1 block found in the cache, 1 block computed." in _said(steps)


def test_the_last_token_is_never_found() -> None:
    """vLLM computes it again for its logits, so a block is computed."""
    steps = Simulation(_two(prompt=8, shared=8), num_blocks=8, block_size=4).steps()

    assert "B starts: 1 block found in the cache, 1 block computed." in _said(steps)


def test_a_prompt_without_room_waits_though_shorter_ones_come_later() -> None:
    """First come, first served."""
    arrivals = [
        *(_two(prompt=12, answer=4)),
        Arrival(name="C", step=2, prompt_tokens=4, answer_tokens=4),
    ]
    steps = Simulation(arrivals, num_blocks=5, block_size=4).steps()
    starts = re.findall(r"^(\w) starts", _said(steps), re.MULTILINE)

    assert ["A", "B", "C"] == starts


def test_max_num_seqs_limits_what_runs_at_once() -> None:
    """One at a time."""
    steps = Simulation(_two(), num_blocks=20, block_size=4, max_num_seqs=1).steps()
    running = [
        sum(one.phase is Phase.RUNNING for one in step.requests) for step in steps
    ]

    assert 1 == max(running)


@pytest.mark.parametrize(("model", "gpu", "arguments"), PLANS)
def test_blocks_and_tokens_add_up_in_every_step(
    model: str, gpu: str, arguments: dict[str, object]
) -> None:
    """Whoever has tokens has blocks for them, and no block has more than it holds."""
    living = living_kv_cache(plan(model, gpu, **arguments))
    size = living.square_tokens

    for step in living.steps:
        assert living.num_squares == len(step.blocks)
        assert all(0 <= block.tokens <= size for block in step.blocks)
        for one in step.requests:
            held = [block for block in step.blocks if one.name in block.owners]
            assert -(-one.tokens // size) == len(held)
            assert sum(block.tokens for block in held) >= one.tokens


@pytest.mark.parametrize(("model", "gpu", "arguments"), PLANS)
def test_every_plan_tells_the_whole_story(
    model: str, gpu: str, arguments: dict[str, object]
) -> None:
    """The cache fills, one is preempted and comes back, and all end."""
    living = living_kv_cache(plan(model, gpu, **arguments))
    said = _said(living.steps)

    assert "is preempted" in said
    assert "comes back" in said
    assert ("found in the cache" in said) is arguments.get(
        "enable_prefix_caching", True
    )
    assert 6 == said.count(" is finished")
    assert 30 <= living.num_squares <= 60


def test_the_scale_is_the_plans() -> None:
    """1,358 blocks for requests; a square is some of them."""
    made = plan("Qwen/Qwen3-8B", "L4", max_model_len=8192)
    living = living_kv_cache(made)
    rank = made.limiting_rank

    assert rank is not None
    assert f"{rank.num_blocks - 1:,} blocks of 16 tokens" in living.words
    assert 16 * living.blocks_per_square == living.square_tokens
    assert living.num_squares * living.blocks_per_square < rank.num_blocks


@pytest.mark.parametrize(
    ("model", "gpu", "length", "says"),
    [
        ("openai/gpt-oss-20b", "H100", 8192, "do not store every token"),
        ("Qwen/Qwen3-8B", "L4", 40960, "no room to show"),
        ("Qwen/Qwen3-32B", "L4", 8192, "no room to show"),
    ],
)
def test_what_cannot_be_shown_is_said(
    model: str, gpu: str, length: int, says: str
) -> None:
    """Windows and states fill otherwise; a start that fails has no cache."""
    made = plan(model, gpu, max_model_len=length)
    with pytest.raises(PlannerError, match=says):
        living_kv_cache(made)


def test_without_scripts_the_story_is_a_table() -> None:
    """Each step with an event, in words."""
    living = living_kv_cache(plan("Qwen/Qwen3-8B", "L4", max_model_len=8192))
    bundle = living._repr_mimebundle_()
    told = [step for step in living.steps if step.events]

    assert len(told) == bundle["text/html"].partition("<script")[0].count(
        "<th scope='row'>"
    )
    assert "is preempted" in bundle["text/plain"]
    assert living.to_html().startswith("<!doctype html>")
