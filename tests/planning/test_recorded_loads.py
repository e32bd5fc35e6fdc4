"""Loads beside vLLM's own scheduler and block pool: what runs at once, and its blocks.

`tests/data/loads.json` was recorded with `tools/record_loads.py`: 200 loads at random.
"""

import json
from pathlib import Path

import planner
from planner import Load
from tests.rows import each_row

CASES = json.loads(
    (Path(__file__).parents[1] / "data" / "loads.json").read_text("utf-8")
)["cases"]
VARIED = [case for case in CASES if case["kind"] == "varied"]
ALIKE = [case for case in CASES if case["kind"] != "varied"]
WINDOWS = {
    "sliding_window": 256,
    "num_hidden_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"],
}


def served(case):
    """How the planner counts the load of a case in as many blocks."""
    load = Load(
        prompt_tokens=case["prompt"],
        output_tokens=case["answer"],
        requests=case["requests"],
        shared_prefix_tokens=case["shared"],
    )
    if case["kind"] == "varied":
        load = Load(
            **load.to_dict()
            | {
                "shared_prefix_tokens": min(case["shared"], case["mean_prompt"]),
                "mean_prompt_tokens": case["mean_prompt"],
                "mean_output_tokens": case["mean_answer"],
            }
        )
    return planner.plan(
        "google/gemma-3-1b-it" if case["window"] else "Qwen/Qwen3-8B",
        gpu="B300",
        load=load,
        num_gpu_blocks_override=case["blocks"] + 1,
        enable_prefix_caching=case["caching"],
        max_num_batched_tokens=case["batched"],
        block_size=16,
        **({"hf_overrides": WINDOWS} if case["window"] else {}),
    ).serving


def runs_at_once(case):
    """Whether vLLM preempted nothing, and let nothing wait for a block."""
    return case["preemptions"] == 0 and case["ran_at_once"] == case["requests"]


@each_row("case", ALIKE)
def test_what_is_served_is_never_preempted(case):
    """And never takes more blocks than are counted for it."""
    load = served(case)

    assert load.plan.fits
    if load.is_served:
        assert 0 == case["preemptions"]
    if case["preemptions"] == 0:
        assert case["most_blocks"] <= load.needed_blocks - 1


@each_row("case", [c for c in CASES if c["kind"] == "at once" and not c["window"]])
def test_requests_that_end_together_take_exactly_what_is_counted(case):
    """Served where vLLM runs all of them at once, and only there; to the block."""
    load = served(case)

    assert load.is_served == runs_at_once(case)
    if load.is_served:
        assert load.needed_blocks - 1 == case["most_blocks"]


def test_the_cases_decide_something():
    """Shared and not, served and not, with windows and without a prefix cache."""
    kinds = {
        (bool(served(case).shared_blocks), served(case).is_served)
        for case in ALIKE
        if not case["window"]
    }

    assert 200 == len(CASES)
    assert {(True, True), (True, False), (False, True), (False, False)} == kinds
    assert {True, False} == {case["caching"] for case in ALIKE}


def test_a_mean_is_what_is_in_use_on_average():
    """Of lengths that vary, within 2 %: a mean is rounded to whole blocks."""
    over = {
        place: case["mean_blocks"] / (served(case).needed_blocks - 1)
        for place, case in enumerate(VARIED)
    }

    assert max(over.values()) < 1.03
    plain = [over[place] for place, case in enumerate(VARIED) if not case["window"]]
    assert 0.8 < sum(plain) / len(plain)


def test_few_requests_are_preempted_where_the_mean_is_served():
    """Less than one in 30, and none where all are served at their longest."""
    found = [(served(case), case) for case in VARIED]
    on_average = [case for load, case in found if load.is_served]
    certain = [
        case for load, case in found if load.requests_certain >= case["requests"]
    ]
    preempted = sum(case["preemptions"] for case in on_average)

    assert 20 <= len(on_average)
    assert 0 < preempted < sum(case["ended"] for case in on_average) / 30
    assert 0 == sum(case["preemptions"] for case in certain)
    assert certain
