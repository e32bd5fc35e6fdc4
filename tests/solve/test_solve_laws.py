"""Laws of the solver over random models, GPUs, releases, arguments and loads.

What it finds is served, and the next larger load, or the next smaller machine, is not.
"""

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner import Load, PlannerError, solve
from planner.engine.releases import NEWEST
from planner.errors import UnknownArchitecture
from planner.units import GIB
from tests.solutions import (
    engine_args,
    gpus,
    is_served,
    loads,
    models,
    releases,
    start,
)

EXAMPLES = settings(max_examples=15, deadline=None)


def possible(find, *arguments, **named):
    """Solve; another example where the planner does not know what was asked."""
    try:
        return find(*arguments, **named)
    except UnknownArchitecture:
        assume(False)


@EXAMPLES
@given(
    model=models,
    gpu=gpus,
    version=releases,
    arguments=engine_args,
    requests=st.sampled_from((None, 1, 2, 7, 64, 1000)),
)
def test_the_longest_context_is_served_and_one_token_more_is_not(
    model, gpu, version, arguments, requests
):
    """At the edge, one token decides."""
    inputs = start(model, gpu, version, arguments)

    found = possible(solve.longest_context, inputs, requests=requests)

    if found.value is None:
        assert found.plan is None
        shortest = Load(prompt_tokens=1, output_tokens=0, requests=requests or 1)
        assert not is_served(found.next_plan, shortest)
        return
    load = found.load
    assert found.value == load.request_tokens == found.plan.resolved.max_model_len
    assert is_served(found.plan, load)
    assert load.requests == (requests or 1)
    if found.next_plan is not None:
        more = replace(load, prompt_tokens=load.prompt_tokens + 1)
        assert not is_served(found.next_plan, more)
        asked = found.next_plan.settings.max_model_len
        assert asked == found.value + 1


@EXAMPLES
@given(model=models, gpu=gpus, version=releases, arguments=engine_args, load=loads)
def test_the_most_requests_are_served_and_one_more_is_not(
    model, gpu, version, arguments, load
):
    """At the edge, one request decides."""
    inputs = start(model, gpu, version, arguments)

    found = possible(solve.most_requests, inputs, load=load)

    if found.value is None:
        assert not is_served(found.next_plan, replace(load, requests=1))
        return
    assert is_served(found.plan, replace(load, requests=found.value))
    assert found.load == replace(load, requests=found.value)
    if found.next_plan is not None:
        assert not is_served(found.next_plan, replace(load, requests=found.value + 1))


@EXAMPLES
@given(
    model=models,
    gpu=gpus,
    version=releases,
    arguments=engine_args,
    load=st.one_of(st.none(), loads),
    step=st.sampled_from((0.01, 0.005, 0.07)),
)
def test_the_smallest_utilization_serves_and_one_step_less_does_not(
    model, gpu, version, arguments, load, step
):
    """At the edge, one step decides."""
    inputs = start(model, gpu, version, arguments)

    found = possible(solve.smallest_utilization, inputs, load=load, step=step)

    if found.value is None:
        wanted = load or length_of(found.next_plan)
        assert not is_served(found.next_plan, wanted)
        return
    assert found.value == found.plan.settings.gpu_memory_utilization
    assert is_served(found.plan, load or length_of(found.plan))
    if found.next_plan is not None:
        below = found.next_plan.settings.gpu_memory_utilization
        assert round(found.value - below, 6) == step
        assert not is_served(found.next_plan, load or length_of(found.next_plan))


@EXAMPLES
@given(
    model=models,
    gpu=gpus,
    arguments=engine_args,
    load=st.one_of(st.none(), loads),
)
def test_the_smallest_kv_cache_serves_and_one_byte_less_does_not(
    model, gpu, arguments, load
):
    """At the edge, one byte decides."""
    inputs = start(model, gpu, NEWEST, arguments)

    found = possible(solve.smallest_kv_cache_memory, inputs, load=load)

    if found.value is None:
        return
    assert found.value == found.plan.settings.kv_cache_memory_bytes
    assert is_served(found.plan, load or length_of(found.plan))
    if found.next_plan is not None:
        assert found.value - 1 == found.next_plan.settings.kv_cache_memory_bytes
        assert not is_served(found.next_plan, load or length_of(found.next_plan))


@settings(max_examples=15, deadline=None)
@given(model=models, gpu=gpus, load=st.one_of(st.none(), loads))
def test_the_fewest_gpus_serve_and_no_layout_of_one_less_does(model, gpu, load):
    """Every layout of one GPU less, planned by hand, fails."""
    inputs = start(model, gpu, NEWEST, {})

    found = possible(
        solve.fewest_gpus, inputs, [gpu], load=load, gpus_per_node=4, nodes=2
    )

    if found.value is None:
        number = 8
    else:
        number = found.value - 1
        assert found.value == found.plan.gpus_total
        assert is_served(found.plan, load or length_of(found.plan))
    for tensor, pipeline, copies in shapes(number, per_node=4, nodes=2):
        assert not any_serves(inputs, load, tensor, pipeline, copies)


@EXAMPLES
@given(
    model=models,
    gpu=gpus,
    load=st.one_of(st.none(), loads),
    given_instances=st.sampled_from((None, 1, 2, 3)),
)
def test_instances_start_one_after_the_other_and_one_more_does_not(
    model, gpu, load, given_instances
):
    """Shares and what lies beside them add up to what the GPU has."""
    inputs = start(model, gpu, NEWEST, {})

    found = possible(
        solve.instances_on_one_gpu, inputs, load=load, instances=given_instances
    )

    if found.value is None:
        return
    plans = found.plans
    assert found.value == len(plans)
    assert all(is_served(plan, load or length_of(plan)) for plan in plans)
    assert len({plan.settings.gpu_memory_utilization for plan in plans}) == 1
    held = sum(max(rank.requested_memory_bytes for rank in p.ranks) for p in plans)
    assert held <= plans[0].gpu.total_memory_bytes
    free = [plan.gpu.free_memory_bytes for plan in plans[1:]]
    assert free == sorted(free, reverse=True)
    assert found.next_plan is not None


@EXAMPLES
@given(model=models, gpu=gpus, arguments=engine_args, load=loads)
def test_what_is_called_nearest_is_served(model, gpu, arguments, load):
    """Each load that an impossible answer names can be asked for, and is found."""
    inputs = start(model, gpu, NEWEST, arguments)
    found = possible(solve.smallest_utilization, inputs, load=load)
    assume(found.value is None)

    for other in found.nearest:
        assert other.requests <= load.requests
        assert other.request_tokens <= load.request_tokens
        assert other != load
        again = solve.smallest_utilization(
            inputs.changed(max_model_len=None), load=other
        )
        assert again.is_found


@EXAMPLES
@given(model=models, gpu=gpus, load=loads, more=st.integers(1, 20))
def test_a_larger_gpu_never_serves_less(model, gpu, load, more):
    """Requests over the GPU's memory, all else alike."""
    inputs = start(model, gpu, NEWEST, {}).changed(
        max_num_seqs=64, max_num_batched_tokens=2048
    )
    small = inputs.plan().gpu
    large = replace(
        small,
        total_memory_bytes=small.total_memory_bytes + more * GIB,
        nvml_memory_bytes=small.nvml_memory_bytes or small.total_memory_bytes,
    )

    try:
        less = solve.most_requests(inputs, load=load)
        plenty = solve.most_requests(inputs.changed(gpu=large), load=load)
    except PlannerError:
        assume(False)

    assert (less.value or 0) <= (plenty.value or 0)


@EXAMPLES
@given(model=models, gpu=gpus, version=releases, load=loads)
def test_the_two_edges_of_a_load_meet(model, gpu, version, load):
    """As many requests as are served of a length may be that long, or longer."""
    inputs = start(model, gpu, version, {})
    most = possible(solve.most_requests, inputs, load=load)
    assume(most.is_found)

    found = solve.longest_context(inputs, requests=most.value)

    assert found.value >= load.request_tokens


@EXAMPLES
@given(model=models, gpu=gpus, load=loads)
def test_a_share_and_a_kv_cache_serve_the_same_loads(model, gpu, load):
    """What some share serves, a fixed KV cache of fewer bytes than it leaves does."""
    inputs = start(model, gpu, NEWEST, {})

    share = possible(solve.smallest_utilization, inputs, load=load)
    cache = solve.smallest_kv_cache_memory(inputs, load=load)

    assert share.is_found == cache.is_found
    if share.is_found and share.plan.blocks_per_request:
        left = min(rank.available_kv_cache_low_bytes for rank in share.plan.ranks)
        assert cache.value <= left


def length_of(plan):
    """One request of max_model_len tokens."""
    length = 1 if plan.resolved is None else plan.resolved.max_model_len
    return Load(prompt_tokens=length, output_tokens=0)


def shapes(number, *, per_node, nodes):
    """Every tensor, pipeline and data parallel size of so many GPUs."""
    for tensor in range(1, per_node + 1):
        for pipeline in range(1, number + 1):
            for copies in range(1, number + 1):
                stages = pipeline * copies
                if tensor * stages == number and stages <= nodes * (per_node // tensor):
                    yield tensor, pipeline, copies


def any_serves(inputs, load, tensor, pipeline, copies):
    """Whether a layout serves a load, planned without the solver."""
    # A GPU that shares the processor's memory is alone in its machine, of which are 2.
    if inputs.plan().gpu.is_integrated and tensor * pipeline * copies > 2:
        return False
    changes = {
        "tensor_parallel_size": tensor,
        "pipeline_parallel_size": pipeline,
        "data_parallel_size": copies,
    }
    if load is not None:
        changes["max_model_len"] = load.request_tokens
        changes["max_num_seqs"] = -(-load.requests // copies)
    try:
        plan = inputs.changed(**changes).plan()
    except UnknownArchitecture:
        return False
    return is_served(plan, load or length_of(plan))
