"""Plans to show: one of each verdict, on the bundled catalogue."""

import re
from functools import cache

import planner
from planner.planning.result import Plan

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"


@cache
def fitting() -> Plan:
    """15 GiB of weights on 79 GiB."""
    return planner.plan(LLAMA_8B, gpu="H100")


@cache
def too_long() -> Plan:
    """One request of 131,072 tokens needs 16 GiB; a 22 GiB card has less to give."""
    return planner.plan(LLAMA_8B, gpu="L4")


@cache
def too_large() -> Plan:
    """131 GiB of weights on 22 GiB."""
    return planner.plan(LLAMA_70B, gpu="L4")


@cache
def refused() -> Plan:
    """Heads that three ranks cannot share: vLLM loads nothing."""
    return planner.plan(LLAMA_8B, gpu="H100", tensor_parallel_size=3)


@cache
def refused_for_its_length() -> Plan:
    """Longer than the model's own limit, which an environment variable lifts."""
    return planner.plan(LLAMA_8B, gpu="H100", max_model_len=200_000)


@cache
def in_stages() -> Plan:
    """Two pipeline stages of two GPUs."""
    return planner.plan(
        LLAMA_8B, gpu="H100", tensor_parallel_size=2, pipeline_parallel_size=2
    )


ALL = (fitting, too_long, too_large, refused, in_stages)


def assert_draft_uncounted(plan: Plan, words: str) -> None:
    """Check that a plan leaves out a draft, and says so with these words."""
    assert plan.model is not None
    assert plan.model.speculation is None
    (found,) = (one for one in plan.conditions if one.startswith("speculative_config:"))
    assert re.search(words, found), found
