"""Several vLLM on one GPU: shares, and the order of their start."""

import pytest

import planner
from planner import GPU, Load, PlannerError, solve
from planner.units import GIB

MODEL = "Qwen/Qwen3-8B"
LOAD = Load(prompt_tokens=3000, output_tokens=1000, requests=8)


def beside(plan):
    """Bytes at most that a start holds beside its share."""
    return max(sum(line.high_bytes for line in rank.outside) for rank in plan.ranks)


def context(plan):
    """Bytes at most of CUDA's context."""
    return max(line.high_bytes for line in plan.limiting_rank.outside[:1])


def test_each_instance_finds_what_the_earlier_ones_leave():
    """Total - (k - 1) x (share + what lies beside it) - its own context."""
    found = solve.instances_on_one_gpu(MODEL, "H100", load=LOAD)

    first = found.plans[0]
    total = first.gpu.total_memory_bytes
    held = first.limiting_rank.requested_memory_bytes + beside(first)
    assert found.value == len(found.plans) >= 2
    for number, plan in enumerate(found.plans[1:], 1):
        free = total - number * held - context(plan)
        assert free == plan.gpu.free_memory_bytes
        assert plan.limiting_rank.requested_memory_bytes <= free
        assert plan.fits


def test_one_more_instance_does_not_start():
    """At the smallest share that serves the load, vLLM finds too little free."""
    found = solve.instances_on_one_gpu(MODEL, "H100", load=LOAD)
    least = solve.smallest_utilization(MODEL, "H100", load=LOAD)

    assert "free_memory" == found.next_plan.error.kind
    assert least.value == found.next_plan.settings.gpu_memory_utilization
    assert (
        f"With {least.value:g} each, the smallest share that serves, instance "
        f"{found.value + 1} finds" in found.why
    )


def test_the_share_is_the_largest_with_which_so_many_start():
    """Two instances: not 0.5 each, as contexts and workspaces lie beside the shares."""
    found = solve.instances_on_one_gpu(MODEL, "H100", load=LOAD, instances=2)

    share = found.plan.settings.gpu_memory_utilization
    assert 2 == found.value
    assert 0.45 < share < 0.5
    assert [share, share] == [
        plan.settings.gpu_memory_utilization for plan in found.plans
    ]
    held = [
        plan.limiting_rank.requested_memory_bytes + beside(plan) for plan in found.plans
    ]
    total = found.plan.gpu.total_memory_bytes
    assert sum(held) <= total
    step = round(0.01 * total)
    assert sum(held) + 2 * step > total


def test_too_many_instances_name_how_many_fit():
    """An answer, with the largest number that starts."""
    most = solve.instances_on_one_gpu(MODEL, "H100", load=LOAD).value
    found = solve.instances_on_one_gpu(MODEL, "H100", load=LOAD, instances=20)

    assert found.value is None
    assert f"Nearest that fits: {most} instances." in found.why
    assert not found.command()


def test_one_instance_keeps_room_beside_its_share():
    """A single vLLM may not take all that is free: its context and graphs count."""
    found = solve.instances_on_one_gpu(MODEL, "H100", load=LOAD, instances=1)

    plan = found.plan
    total = plan.gpu.total_memory_bytes
    assert plan.limiting_rank.requested_memory_bytes + beside(plan) <= total


def test_different_models_start_in_their_order():
    """Each with the smallest share that serves it, or the one it was given."""
    second = planner.plan("Qwen/Qwen3-4B", gpu="H100", gpu_memory_utilization=0.4)
    found = solve.instances_on_one_gpu([MODEL, second], "H100", load=LOAD)

    smallest = solve.smallest_utilization(MODEL, "H100", load=LOAD).value
    assert [smallest, 0.4] == [
        plan.settings.gpu_memory_utilization for plan in found.plans
    ]
    assert [MODEL, "Qwen/Qwen3-4B"] == [plan.name for plan in found.plans]
    assert 2 == found.value
    assert 2 == len(found.command().splitlines())


def test_the_order_of_different_models_decides():
    """0.92 leaves nothing for a second; it fails, whichever it is."""
    greedy = planner.plan(MODEL, gpu="H100", gpu_memory_utilization=0.92)
    found = solve.instances_on_one_gpu([greedy, "Qwen/Qwen3-4B"], "H100", load=LOAD)

    assert found.value is None
    assert "Qwen/Qwen3-4B" == found.next_plan.name
    assert "free_memory" == found.next_plan.error.kind
    assert "Nearest that fits: 1 instance without it." in found.why


def test_memory_that_others_hold_already_counts():
    """40 GiB free hold fewer instances than 79."""
    busy = GPU.named("H100", free_memory_bytes=40 * GIB)
    alone = solve.instances_on_one_gpu(MODEL, "H100", load=LOAD)
    found = solve.instances_on_one_gpu(MODEL, busy, load=LOAD)

    assert 1 <= found.value < alone.value


def test_a_model_that_does_not_fit_once_says_so():
    """131 GiB of weights on 79: no instance, but three H100 hold 131,072 tokens."""
    found = solve.instances_on_one_gpu("meta-llama/Llama-3.1-70B-Instruct", "H100")

    assert found.value is None
    assert "Not even one serves it" in found.why
    assert "Nearest that serves it: 3 x H100 (pipeline parallel 3)." in found.why


@pytest.mark.parametrize(
    ("model", "named", "message"),
    [
        (MODEL, {"instances": 0}, "instances=0"),
        ([MODEL, MODEL], {"instances": 2}, "the list already says how many"),
        ([], {}, "at least one model"),
        (MODEL, {"step": -1}, "step=-1"),
    ],
)
def test_malformed_instances_are_named(model, named, message):
    """What is allowed stands in the message."""
    with pytest.raises(PlannerError, match=message):
        solve.instances_on_one_gpu(model, "H100", **named)
