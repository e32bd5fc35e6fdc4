"""How many requests run at once: likely, and at most."""

import pytest

import planner
from planner import Load, PlannerError
from planner.solve.speed.running import Same, running
from tests import plans

LOAD = Load(prompt_tokens=2000, output_tokens=500, requests=10**6)


def test_requests_hold_half_of_their_answer_on_average() -> None:
    """2,000 + 500 / 2 tokens are 141 blocks of 16, not the 157 of a whole request."""
    plan = plans.fitting()
    found = running(plan, LOAD)
    rank = plan.ranks[0]
    high = rank.available_kv_cache_high_bytes // rank.bytes_per_block

    assert (plan.num_gpu_blocks - 1) // 141 == found.likely
    assert (high - 1) // 141 == found.most == found.held_at_most
    assert found.served.requests_held < found.likely < found.most < found.allowed


def test_no_more_run_than_are_there_or_than_vllm_admits() -> None:
    """The load's 3 requests, then max_num_seqs=8 of each replica."""
    few = Load(prompt_tokens=2000, output_tokens=500, requests=3)
    narrow = plans.fitting().changed(max_num_seqs=8)

    assert 3 == running(plans.fitting(), few).likely
    assert 8 == running(narrow, LOAD).likely == running(narrow, LOAD).most
    twice = narrow.changed(data_parallel_size=2)
    assert 16 == running(twice, LOAD).most == running(twice, LOAD).allowed


def test_a_start_that_another_sampler_allows_is_counted() -> None:
    """gpt-oss-120b ran on one H100 with vLLM 0.10.2, whose images have FlashInfer.

    Without it nothing is left for the KV cache, and one request would be counted.
    """
    plan = planner.plan(
        "openai/gpt-oss-120b", gpu="H100", vllm_version="0.10.2", max_model_len=32768
    )
    found = running(plan, Load(prompt_tokens=215, output_tokens=196, requests=1000))

    assert not plan.fits
    assert any(other.starts for other in plan.alternatives)
    assert 1 < found.likely <= found.most


def test_a_start_that_holds_nothing_counts_one_request() -> None:
    """The speed of what would not start is that of one request."""
    found = running(plans.too_large(), LOAD)

    assert 1 == found.likely == found.most


def test_a_length_that_vllm_refuses_is_refused() -> None:
    """In vLLM's words."""
    with pytest.raises(PlannerError, match="cannot be served"):
        running(plans.fitting(), Load(prompt_tokens=200_000, output_tokens=1))


def test_a_plan_equals_only_itself() -> None:
    """What is known of a plan is looked up by its identity."""
    plan = plans.fitting()
    again = plan.changed(seed=1).changed(seed=None)

    assert Same(plan) == Same(plan)
    assert hash(Same(plan)) == hash(Same(plan))
    assert Same(plan) != Same(again)
