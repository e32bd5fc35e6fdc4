"""Laws for every bundled model: more never costs less, and answers are exact."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import planner
from planner.errors import PlannerError
from planner.models import catalogue
from planner.models.families import read
from planner.models.files import ModelFiles
from planner.units import GIB

MODELS = tuple(row.name for row in catalogue.entries())
GPUS = ("H100", "B200", "A100", "L4")

models = st.sampled_from(MODELS)
gpus = st.sampled_from(GPUS)


@cache
def planned(model: str, gpu: str, **arguments: int) -> planner.Plan | None:
    """A plan, or None where this model cannot be planned or is refused."""
    try:
        plan = planner.plan(model, gpu=gpu, **arguments)
    except PlannerError:
        return None
    return plan if plan.ranks else None


def both(
    model: str, gpu: str, less: dict[str, int], more: dict[str, int]
) -> tuple[planner.Plan, planner.Plan]:
    """Two plans that differ in one argument; another example where one is refused."""
    small, large = planned(model, gpu, **less), planned(model, gpu, **more)
    assume(small is not None)
    assume(large is not None)
    assert small is not None
    assert large is not None
    return small, large


def used(plan: planner.Plan) -> int:
    """Bytes of every line of the fullest rank but the KV cache."""
    return max(
        rank.requested_memory_bytes - rank.available_kv_cache_bytes
        for rank in plan.ranks
    )


@settings(deadline=None)
@given(model=models, gpu=gpus, length=st.integers(256, 4096), more=st.integers(1, 4096))
def test_a_longer_request_never_needs_fewer_blocks(
    model: str, gpu: str, length: int, more: int
) -> None:
    """Blocks per request over max_model_len, all else alike."""
    rest = {"max_num_batched_tokens": 8192, "max_num_seqs": 16}
    rest["kv_cache_memory_bytes"] = 40 * GIB
    short, long = both(
        model,
        gpu,
        {**rest, "max_model_len": length},
        {**rest, "max_model_len": length + more},
    )
    assume(short.resolved is not None and long.resolved is not None)
    if short.kv_groups == long.kv_groups:  # a mixer's block may be the whole length
        assert short.blocks_per_request <= long.blocks_per_request


@settings(deadline=None)
@given(
    model=models, gpu=gpus, tokens=st.integers(1024, 16384), more=st.integers(1, 8192)
)
def test_larger_steps_never_leave_more_for_the_kv_cache(
    model: str, gpu: str, tokens: int, more: int
) -> None:
    """Used bytes over max_num_batched_tokens."""
    rest = {"max_num_seqs": 64, "max_model_len": 512}
    small, large = both(
        model,
        gpu,
        {**rest, "max_num_batched_tokens": tokens},
        {**rest, "max_num_batched_tokens": tokens + more},
    )
    assert used(small) <= used(large)


@settings(deadline=None)
@given(model=models, gpu=gpus, seqs=st.integers(1, 1000), more=st.integers(1, 1000))
def test_more_sequences_never_leave_more_for_the_kv_cache(
    model: str, gpu: str, seqs: int, more: int
) -> None:
    """Used bytes over max_num_seqs; a number of its own may add a CUDA graph."""
    rest = {"max_num_batched_tokens": 8192, "max_model_len": 512, "enforce_eager": True}
    few, many = both(
        model,
        gpu,
        {**rest, "max_num_seqs": seqs},
        {**rest, "max_num_seqs": seqs + more},
    )
    assert used(few) <= used(many)


@settings(deadline=None)
@given(model=models, gpu=gpus, ranks=st.sampled_from([1, 2, 4]))
def test_more_ranks_never_hold_more_each(model: str, gpu: str, ranks: int) -> None:
    """Weights over tensor parallel; padding may take a little back."""
    rest = {"max_model_len": 512}
    few, many = both(
        model,
        gpu,
        {**rest, "tensor_parallel_size": ranks},
        {**rest, "tensor_parallel_size": 2 * ranks},
    )
    heaviest = [max(rank.weights_bytes for rank in plan.ranks) for plan in (few, many)]
    assert heaviest[1] <= heaviest[0]


@settings(deadline=None)
@given(model=models, gpu=gpus, gib=st.integers(1, 60))
def test_the_longest_request_fits_and_the_next_does_not(
    model: str, gpu: str, gib: int
) -> None:
    """max_model_len_that_fits is exact at the edge."""
    rest = {"max_num_batched_tokens": 8192, "max_num_seqs": 16, "max_model_len": 512}
    rest["kv_cache_memory_bytes"] = gib * GIB
    plan = planned(model, gpu, **rest)
    assume(plan is not None)
    assert plan is not None
    longest = plan.max_model_len_that_fits
    assume(longest is not None and plan.model is not None)
    assert longest is not None
    at_edge = planned(model, gpu, **{**rest, "max_model_len": longest})
    beyond = planned(model, gpu, **{**rest, "max_model_len": longest + 1})
    assume(at_edge is not None)
    assert at_edge is not None
    memory_kinds = ("no_kv", "max_model_len")
    assert at_edge.error is None or at_edge.error.kind not in memory_kinds
    if beyond is not None:  # None: more than the model's own context
        assert beyond.error is not None


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "mistralai/Mixtral-8x7B-v0.1"])
def test_more_layers_never_cost_less(model: str) -> None:
    """Weights and, where no group of layers is padded, the cache of one layer more."""
    files = catalogue.find(model)
    assert files is not None
    totals = []
    for layers in range(1, 40):
        config = dict(files.config) | {"num_hidden_layers": layers}
        config.pop("layer_types", None)
        changed = read(ModelFiles(name=model, config=config, source="test"))
        plan = planner.plan(changed, gpu="H100", max_model_len=4096)
        block = max(rank.bytes_per_block for rank in plan.ranks)
        totals.append((plan.ranks[0].weights_bytes, block * plan.blocks_per_request))
    assert totals == sorted(totals, key=lambda pair: pair[0])
    if len(plan.kv_groups) == 1:
        assert [kv for _, kv in totals] == sorted(kv for _, kv in totals)
