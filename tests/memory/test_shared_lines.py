"""Lines that plans share: only what cannot differ is shared."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.errors import PlannerError
from planner.memory import estimate
from planner.memory.lines import (
    activations,
    cudagraphs,
    expert_workspace,
    non_torch,
    persistent,
    sampler,
)
from planner.models import catalogue

SHARED = (
    expert_workspace.expert_transient,
    expert_workspace.expert_workspace,
    activations.forward,
    activations.held_bytes,
    sampler.sampling,
)
"""What is computed once for all lengths."""
NAMES = [entry.name for entry in catalogue.entries()]


def direct(run, *, is_charged):
    """The lines of this very run, shared with none."""
    own = replace(run)
    return (
        persistent.line(own),
        activations.line(own),
        non_torch.line(own),
        cudagraphs.line(own, is_charged=is_charged),
    )


@given(
    name=st.sampled_from(NAMES),
    gpu=st.sampled_from(("H100", "B200", "A100", "L4", "GB10")),
    length=st.integers(1, 200_000),
    batch=st.sampled_from((512, 2048, 16384)),
    release=st.sampled_from(("0.33.0", "0.26.0", "0.19.0", "0.11.0")),
)
def test_shared_lines_are_those_of_the_run_itself(name, gpu, length, batch, release):
    """Whatever the model, the GPU, the release and the length."""
    arguments = {"max_model_len": length, "max_num_batched_tokens": batch}
    try:
        plan = planner.plan(name, gpu=gpu, vllm_version=release, **arguments)
    except PlannerError:
        return
    for rank in plan.ranks:
        run = rank.profile_run
        is_charged = rank.line("CUDA graphs").size_bytes > 0
        shown = [line for line in rank.lines[1:] if line.name != "KV cache"]
        if not any(line.record for line in shown):
            assert direct(run, is_charged=is_charged)[:3] == tuple(shown[:3])
        for figure in SHARED:
            assert figure.__wrapped__(replace(run)) == figure(run)


@pytest.mark.parametrize(
    ("name", "is_shared"),
    [
        ("Qwen/Qwen3-8B", True),
        ("deepseek-ai/DeepSeek-V3", False),
        ("Qwen/Qwen2.5-VL-7B-Instruct", False),
    ],
)
def test_plans_that_differ_in_length_share_a_profile_run(name, is_shared):
    """Not where latent attention or an encoder looks at the length."""
    estimate._profiled_lines.cache_clear()
    for length in (1024, 2048, 4096):
        planner.plan(name, gpu="H200", max_model_len=length, max_num_seqs=8)

    assert (1 if is_shared else 3) == estimate._profiled_lines.cache_info().misses
