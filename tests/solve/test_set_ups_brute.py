"""The search for set-ups beside trying every number of GPUs, layout and format."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import planner
from planner import Load, PlannerError, solve
from planner.errors import UnknownArchitecture
from planner.planning.inputs import Inputs
from planner.planning.serving import serve
from planner.solve.advice.situation import CostClass
from planner.solve.formats import AS_GIVEN, QUALITIES, other_formats
from planner.solve.layouts import Layout, is_refused

LONG = Load(prompt_tokens=32_000, output_tokens=768, requests=20)
WHOLE = ("try your prompts first", 1)
MODELS = {
    "dense": "Qwen/Qwen3-32B",
    "latent attention, experts": "deepseek-ai/DeepSeek-V2-Lite",
    "experts": "Qwen/Qwen3-30B-A3B",
    "states": "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "windows": "google/gemma-3-27b-it",
}


def serves(inputs, load):
    """Whether a start serves a load; a layout that is not modelled does not."""
    try:
        start = serve(inputs, load)
    except UnknownArchitecture:
        return False
    return start.is_served and not is_refused(start.plan)


def served_by_trying_all(model, load, gpu, most=8, **changes):
    """The layouts that serve on the fewest GPUs of all numbers: nothing left out."""
    inputs = Inputs.of(planner.plan(model, gpu=gpu, **changes))
    is_moe = inputs.plan().model.is_moe
    for count in range(1, most + 1):
        served = set()
        for tensor, pipeline, data in product(range(1, count + 1), repeat=3):
            if tensor * pipeline * data != count or tensor > 8:
                continue
            if pipeline * data > most // 8 * (8 // tensor):
                continue
            for experts in {False, is_moe and tensor * data > 1}:
                layout = Layout(
                    tensor_parallel_size=tensor,
                    pipeline_parallel_size=pipeline,
                    data_parallel_size=data,
                    enable_expert_parallel=experts,
                )
                if serves(inputs.changed(**layout.arguments()), load):
                    served.add(layout)
        if served:
            return served
    return set()


@settings(max_examples=6, deadline=None)
@given(
    model=st.sampled_from(list(MODELS)),
    gpu=st.sampled_from(["L4", "A100-40GB", "H200"]),
    prompt=st.integers(100, 40_000),
    requests=st.integers(1, 300),
)
@example(model="dense", gpu="A100-40GB", prompt=32_000, requests=20)
@example(model="experts", gpu="L4", prompt=8_000, requests=30)
@example(model="windows", gpu="L4", prompt=30_000, requests=6)
def test_no_layout_that_serves_is_left_out(model, gpu, prompt, requests):
    """What memory rules out without a plan would not have served either."""
    load = Load(prompt_tokens=prompt, output_tokens=200, requests=requests)
    name = MODELS[model]

    answer = solve.set_ups(name, load, gpu, prices={})

    assert served_by_trying_all(name, load, gpu) == {one.layout for one in answer.found}
    assert [gpu] * (not answer.found) == [miss.gpu.name for miss in answer.misses]


KINDS = ("H200", "A100-40GB", "A40", "L4")
CHEAP = {"H200": 4.0, "A100-40GB": 1.9, "A40": 0.4}


def check_the_best(model, load, quality, nodes):
    """Compare the fewest and the cheapest with all numbers, layouts and formats."""
    start = planner.plan(model, gpu="H200")
    formats = [AS_GIVEN, *other_formats(start, CostClass(quality))]
    counts, prices = [], []
    for gpu, one in product(KINDS, formats):
        changes = {"model": model, "load": load, "gpu": gpu, **one.changes}
        try:
            served = served_by_trying_all(**changes, most=8 * nodes)
        except PlannerError:
            continue
        counts += [layout.gpus for layout in served]
        prices += [layout.gpus * CHEAP[gpu] for layout in served if gpu in CHEAP]

    answer = planner.set_ups(
        start, load, KINDS, prices=CHEAP, quality=quality, nodes=nodes
    )

    assert answer.is_found == bool(counts)
    if counts:
        assert min(counts) == answer.fewest.gpus_total
        assert all(one.serving.is_served for one in answer.found)
        assert all(one.plan.serving.is_served for one in answer.trade_offs())
    if prices:
        assert pytest.approx(min(prices)) == answer.cheapest.price_per_hour


@pytest.mark.parametrize(
    ("model", "load", "quality", "nodes"),
    [
        ("dense", LONG, "no loss", 1),
        ("experts", Load(prompt_tokens=9000, output_tokens=900, requests=30), *WHOLE),
        ("windows", Load(prompt_tokens=30_000, output_tokens=9, requests=9), *WHOLE),
        ("dense", replace(LONG, shared_prefix_tokens=30_000), "little loss", 1),
    ],
)
def test_the_fewest_and_the_cheapest_are_those_of_all_that_there_are(
    model, load, quality, nodes
):
    """Beside trying every number of GPUs, layout and format."""
    check_the_best(MODELS[model], load, quality, nodes)


@pytest.mark.nightly
@settings(max_examples=30, deadline=None)
@given(
    model=st.sampled_from(list(MODELS)),
    load=st.builds(
        Load,
        prompt_tokens=st.integers(100, 40_000),
        output_tokens=st.integers(0, 900),
        requests=st.integers(1, 300),
        shared_prefix_tokens=st.sampled_from([0, 100]),
    ),
    quality=st.sampled_from(list(map(str, QUALITIES))),
    nodes=st.sampled_from([1, 2]),
)
def test_nothing_is_fewer_or_cheaper(model, load, quality, nodes):
    """The same for loads at random, over two machines too."""
    check_the_best(MODELS[model], load, quality, nodes)
