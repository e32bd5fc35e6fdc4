"""The living KV cache: what vLLM's scheduler does with blocks, in the large."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from planner import plan
from planner.errors import PlannerError
from planner.learn import living_kv_cache
from planner.learn.kv_simulation import DrawnStep, Simulation
from planner.learn.kv_tables import SHARED, Arrival, GroupKind, GroupRule, Phase

PLANS = [
    ("Qwen/Qwen3-8B", "L4", {"max_model_len": 8192}),
    ("Qwen/Qwen3-8B", "L4", {"max_model_len": 12288}),
    ("Qwen/Qwen3-8B", "L4", {"max_model_len": 256}),
    ("meta-llama/Llama-3.1-8B-Instruct", "H100", {"max_model_len": 8192}),
    ("deepseek-ai/DeepSeek-R1", "H200", {"tensor_parallel_size": 8}),
    ("Qwen/Qwen3-8B", "L4", {"max_model_len": 8192, "enable_prefix_caching": False}),
    ("openai/gpt-oss-20b", "H100", {}),
    ("google/gemma-3-12b-it", "H100", {}),
    ("Qwen/Qwen3.5-9B", "H100", {}),
    (
        "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        "H200",
        {"tensor_parallel_size": 8, "max_model_len": 131072},
    ),
]
FULL = (GroupRule(block_size=4),)


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


def _said(steps: tuple[DrawnStep, ...]) -> str:
    return "\n".join(text for step in steps for text in step.events)


def test_requests_with_room_are_never_preempted() -> None:
    """Two requests of 4 blocks each, in 8."""
    steps = Simulation(_two(), rules=FULL, num_blocks=8).steps()

    assert [0, 0] == [one.preemptions for one in steps[-1].requests]
    assert {Phase.FINISHED} == {one.phase for one in steps[-1].requests}


def test_without_room_the_last_to_arrive_is_preempted_and_comes_back() -> None:
    """Two requests of 4 blocks each, in 6."""
    steps = Simulation(_two(), rules=FULL, num_blocks=6).steps()
    said = _said(steps)

    assert [0, 1] == [one.preemptions for one in steps[-1].requests]
    assert "B, the last to arrive, is preempted" in said
    assert said.index("A is finished") < said.index("B comes back")
    assert {Phase.FINISHED} == {one.phase for one in steps[-1].requests}


def test_a_preempted_request_has_no_tokens_in_the_cache() -> None:
    """Nothing of it counts as computed."""
    steps = Simulation(_two(), rules=FULL, num_blocks=6, tokens_per_step=1).steps()
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
            rules=FULL,
            num_blocks=6,
            enable_prefix_caching=is_caching,
        ).steps()
        back = re.search(r"B comes back:.*", _said(steps))
        assert back is not None
        assert (kept in back[0]) is True
        assert ("found" in back[0]) is is_caching


def test_a_shared_beginning_is_stored_once() -> None:
    """B finds A's full blocks of it."""
    steps = Simulation(_two(shared=4), rules=FULL, num_blocks=8).steps()
    both = [block for block in steps[2].blocks if block.owners == ("A", "B")]

    assert [(SHARED, 4)] == [(block.content, block.tokens) for block in both]
    assert "B starts: 4 tokens found in the cache, 4 to compute." in _said(steps)


def test_the_last_token_is_never_found() -> None:
    """vLLM computes it again for its logits, so a block is computed."""
    steps = Simulation(_two(prompt=8, shared=8), rules=FULL, num_blocks=8).steps()

    assert "B starts: 4 tokens found in the cache, 4 to compute." in _said(steps)


def test_a_prompt_without_room_waits_though_shorter_ones_come_later() -> None:
    """First come, first served."""
    arrivals = [
        *(_two(prompt=12, answer=4)),
        Arrival(name="C", step=2, prompt_tokens=4, answer_tokens=4),
    ]
    steps = Simulation(arrivals, rules=FULL, num_blocks=5).steps()
    starts = re.findall(r"^(\w) starts", _said(steps), re.MULTILINE)

    assert ["A", "B", "C"] == starts


def test_max_num_seqs_limits_what_runs_at_once() -> None:
    """One at a time."""
    steps = Simulation(_two(), rules=FULL, num_blocks=20, max_num_seqs=1).steps()
    running = [
        sum(one.phase is Phase.RUNNING for one in step.requests) for step in steps
    ]

    assert 1 == max(running)


@pytest.mark.parametrize(("model", "gpu", "arguments"), PLANS)
def test_blocks_and_tokens_add_up_in_every_step(
    model: str, gpu: str, arguments: dict[str, object]
) -> None:
    """Each group has the blocks that its rule needs, none more than it holds."""
    living = living_kv_cache(plan(model, gpu, **arguments))
    size, count = living.square_tokens, Counter(rule.kind for rule in living.rules)
    kept = max(rule.kept_tokens for rule in living.rules)

    for step in living.steps:
        assert living.num_squares == len(step.blocks)
        assert all(0 <= block.tokens <= size for block in step.blocks)
        for one in step.requests:
            mine = [block for block in step.blocks if one.name in block.owners]
            held = Counter(block.kind for block in mine)
            assert (
                -(-one.tokens // size) * count[GroupKind.FULL] == held[GroupKind.FULL]
            )
            assert held[GroupKind.STATE] <= 3 * count[GroupKind.STATE]
            for kind in {GroupKind.WINDOW, GroupKind.CHUNK} & set(count):
                whole = -(-one.tokens // size) * count[kind]
                assert held[kind] <= whole
                if one.tokens > 2 * kept and one.tokens > living.longest // 2:
                    assert held[kind] < whole


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
    assert 30 <= living.num_squares <= 110


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
        ("openai/whisper-large-v3", "L4", 448, "kind CrossAttentionSpec"),
        ("BAAI/bge-small-en-v1.5", "L4", 512, "no KV cache"),
        ("Qwen/Qwen3-8B", "L4", 40960, "no room to show"),
        ("Qwen/Qwen3-32B", "L4", 8192, "no room to show"),
    ],
)
def test_what_cannot_be_shown_is_said(
    model: str, gpu: str, length: int, says: str
) -> None:
    """Caches of other kinds fill otherwise; a start that fails has no cache."""
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


def test_groups_of_layers_are_told_with_what_they_store() -> None:
    """And that the requests drawn are shorter than those of the plan."""
    words = living_kv_cache(plan("openai/gpt-oss-20b", "H100")).words

    assert "2 groups of layers share them: 12 layers store a window of 128" in words
    assert "12 layers store every token (16 tokens a block)." in words
    assert "requests of 512 tokens instead of 131,072" in words


def test_a_state_is_kept_for_others_where_two_requests_part() -> None:
    """B has the tokens of the shared beginning, but no state there; C has both."""
    living = living_kv_cache(plan("Qwen/Qwen3.5-9B", "H100"))
    starts = re.findall(r"^(\w) starts:(.*)$", _said(living.steps), re.MULTILINE)
    found = [name for name, how in starts if "found in the cache" in how]

    assert ["A", "B"] == [name for name, _how in starts][:2]
    assert not {"A", "B"} & set(found)
    assert found
