"""One notion of how many requests a plan serves, whoever is asked."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

import planner
from planner import GPU, Load, solve
from planner.planning.serving import serving
from planner.solve.advice.situation import Situation
from tests import solutions

LENGTH = 4000
LOAD = Load(prompt_tokens=3000, output_tokens=1000, requests=1)
QWEN, MLA = "Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-V2-Lite"
HYBRID, POOLING = "Qwen/Qwen3-Next-80B-A3B-Instruct", "BAAI/bge-m3"

# Blocks of a start, less the one that vLLM keeps empty, over those of a request.
KV_CACHES = [
    # 4,000 tokens / 16 a block = 250; the log says 4.00x, and three are held.
    pytest.param(QWEN, 1000, 1, (1000 - 1) // 250, id="dense"),
    pytest.param(QWEN, 1001, 1, (1001 - 1) // 250, id="dense and one block"),
    # The log says 3.996x of each copy; two halves of a request are none.
    pytest.param(QWEN, 999, 2, 2 * ((999 - 1) // 250), id="two copies"),
    # Blocks of 32 tokens: 4,000 / 32 = 125; the log says 8.00x.
    pytest.param(MLA, 1000, 1, (1000 - 1) // 125, id="MLA"),
    # Attention 4,000 / 576, up = 7; each of three groups of states 3 with prefix
    # caching: 2 + 1 checkpoint of a prompt.
    pytest.param(HYBRID, 160, 1, (160 - 1) // (7 + 3 * 3), id="states"),
]


def start(model, blocks, copies):
    """So many blocks, on a GPU on which each model starts, with room for longer."""
    return planner.plan(
        model,
        gpu="B300",
        max_model_len=8000,
        max_num_seqs=64,
        num_gpu_blocks_override=blocks,
        data_parallel_size=copies,
    )


@pytest.mark.parametrize(("model", "blocks", "copies", "held"), KV_CACHES)
def test_all_say_the_same_number_of_requests(model, blocks, copies, held):
    """Counted by hand, and by each question about the same start."""
    plan = start(model, blocks, copies)

    assert plan.fits
    assert held == serving(plan, LOAD).requests_held
    assert held == solve.most_requests(plan, load=LOAD).value
    assert held == planner.speed_bound(plan, LOAD).memory_holds
    assert held == planner.advise(plan, LOAD).requests
    (choice,) = planner.compare_gpus(plan, ["B300"], load=LOAD).choices
    assert held == choice.requests_held


SHARED = replace(LOAD, shared_prefix_tokens=2000)


@pytest.mark.parametrize(
    ("blocks", "copies", "held"),
    [
        # 2,000 of the prompt are 125 blocks for all, 125 more of each.
        (1000, 1, (1000 - 1 - 125) // 125),
        (999, 2, 2 * ((999 - 1 - 125) // 125)),
    ],
)
def test_all_count_what_is_shared_once(blocks, copies, held):
    """In each question about the same start, on each copy."""
    plan = start(QWEN, blocks, copies)
    load = replace(SHARED, requests=held)
    (choice,) = planner.compare_gpus(plan, ["B300"], load=SHARED).choices
    cell = solve.load_map(plan, load, prompts=[3000], requests=[held, held + 1])

    assert held == serving(plan, SHARED).requests_held
    assert held == solve.most_requests(plan, load=SHARED).value
    assert held == planner.speed_bound(plan, SHARED).memory_holds
    assert held == planner.advise(plan, SHARED).requests
    assert held == choice.requests_held
    assert ["served", "starts"] == [one.state for one in cell.cells]
    context = solve.longest_context(
        plan, requests=held, output_tokens=1000, shared_prefix_tokens=2000
    )
    assert context.value >= 4000
    (found,) = solve.set_ups(
        plan, load, "B300", prices={}, data_parallel_size=copies
    ).found[:1]
    assert held == found.requests_held


@pytest.mark.parametrize(("model", "blocks", "copies", "held"), KV_CACHES)
def test_all_draw_the_line_at_the_same_request(model, blocks, copies, held):
    """So many are served, and one more is not."""
    plan = start(model, blocks, copies)
    for requests, is_served in ((held, True), (held + 1, False)):
        load = replace(LOAD, requests=requests)
        (choice,) = planner.compare_gpus(plan, ["B300"], load=load).choices

        assert is_served == serving(plan, load).is_served
        assert is_served == choice.serves
        assert is_served == Situation.of(plan, load).is_served
        bound = planner.speed_bound(plan, load)
        assert held == bound.memory_holds
        # What requests hold on average may let more run than are certain to.
        assert min(requests, held) <= bound.requests <= requests
        assert is_served == ("is certain to hold only" not in choice.why_not)


def test_without_a_kv_cache_a_step_limits():
    """Nothing of a request is kept: the cache sets no limit."""
    plan = planner.plan(POOLING, gpu="L4", max_num_seqs=64)
    load = Load(prompt_tokens=500, output_tokens=0, requests=64)
    bound = planner.speed_bound(plan, load)
    (choice,) = planner.compare_gpus(plan, ["L4"], load=load).choices

    assert serving(plan, load).requests_held is None
    assert bound.memory_holds is None
    assert choice.requests_held is None
    assert choice.serves
    assert (
        64 == serving(plan, load).requests_served == planner.advise(plan, load).requests
    )
    assert 64 == solve.most_requests(plan, load=load).value == bound.requests
    assert "There is no KV cache to fill." in bound.limit
    assert "no limit" in str(bound)


def test_more_requests_than_max_num_seqs_are_served_nowhere():
    """The cache has room for many; 64 are worked on."""
    plan = start(QWEN, 100_000, 1)
    load = replace(LOAD, requests=65)
    (choice,) = planner.compare_gpus(plan, ["B300"], load=load).choices

    assert 65 < planner.speed_bound(plan, load).memory_holds
    assert 64 == planner.advise(plan, load).requests
    assert not serving(plan, load).is_served
    assert not choice.serves
    assert "max_num_seqs=64 allows fewer than 65 requests" in choice.why_not


def test_a_comparison_of_gpus_works_on_as_many_as_are_asked_for():
    """What is left open follows the load, as in the solvers."""
    load = Load(prompt_tokens=90, output_tokens=10, requests=2000)
    (choice,) = planner.compare_gpus(planner.plan(QWEN), ["H200"], load=load).choices

    assert choice.serves
    assert 2000 == choice.plan.resolved.max_num_seqs
    assert choice.plan == solve.fewest_gpus(QWEN, "H200", load=load).plan


@settings(max_examples=25)
@given(
    model=solutions.models,
    gpu=solutions.gpus,
    version=solutions.releases,
    arguments=solutions.engine_args,
    load=solutions.loads,
)
def test_what_is_served_is_what_a_plans_figures_hold(
    model, gpu, version, arguments, load
):
    """For any start: the load is served up to the most requests, and no further."""
    plan = solutions.start(model, GPU.named(gpu), version, arguments).plan()
    served = serving(plan, load)

    assert served.is_served == solutions.is_served(plan, load)
    assert served.is_served == (served.requests_served >= load.requests)
    assert served.is_served == Situation.of(plan, load).serves(plan)
