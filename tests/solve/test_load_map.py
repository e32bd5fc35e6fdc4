"""Which loads a start serves, over prompt length and requests at once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner import Load, PlannerError, solve
from planner.planning.inputs import Inputs
from planner.show.load_map import hover_text
from planner.solve.load_map import usual_map

MODEL = "Qwen/Qwen3-32B"
LOAD = Load(prompt_tokens=16_000, output_tokens=768, requests=8)


@pytest.fixture(scope="module")
def found():
    """One H100: 61 GiB of weights leave room for two such requests."""
    return solve.load_map(MODEL, LOAD, gpu="H100")


def test_each_cell_is_the_plan_with_its_load(found):
    """State and number are those of `planner.plan(..., load=)`."""
    for cell in found.cells:
        plan = planner.plan(MODEL, gpu="H100", load=cell.load)
        served = plan.serving

        assert ("served" == cell.state) == served.is_served
        assert ("does not start" == cell.state) == (not plan.fits)
        assert min(served.requests_served, cell.load.requests) == cell.requests_served
        assert (plan.error is None) == (cell.why == "")


def test_a_served_cell_says_how_fast_each_request_is(found):
    """By the forecast of its own plan; a cell that is not served says nothing."""
    for cell in found.cells:
        each = cell.tokens_per_second_each
        assert (each is None) == (cell.state != "served")
        told = cell.to_dict()["tokens_per_second_each"]
        assert told == (None if each is None else each.to_dict())
    served = next(cell for cell in found.cells if cell.state == "served")
    assert "tokens per second for each" in hover_text(served)


def test_the_load_is_in_the_middle_and_the_model_is_the_limit(found):
    """An eighth to four times the load; Qwen3-32B ends at 40,960 tokens."""
    assert (2000, 4000, 8000, 16_000, 32_000, 40_960 - 768) == found.prompts
    assert (1, 2, 4, 8, 16, 32) == found.requests
    assert LOAD == found.cell(16_000, 8).load
    with pytest.raises(PlannerError, match="No cell for 5 prompt tokens"):
        found.cell(5, 8)


@settings(max_examples=10, deadline=None)
@given(requests=st.integers(1, 64), prompt=st.integers(64, 30_000))
def test_a_shorter_or_smaller_load_is_served_too(requests, prompt):
    """From a served cell, all cells with fewer tokens and fewer requests are."""
    load = Load(prompt_tokens=prompt, output_tokens=500, requests=requests)
    found = solve.load_map(MODEL, load, gpu="H200")
    served = {
        (cell.load.prompt_tokens, cell.load.requests)
        for cell in found.cells
        if cell.state == "served"
    }

    for tokens, number in served:
        assert {
            (few, less)
            for few in found.prompts
            for less in found.requests
            if few <= tokens and less <= number
        } <= served


def test_given_values_and_a_plans_own_load_are_taken():
    """The arguments of a plan stay in each cell."""
    plan = planner.plan(MODEL, gpu="H200", load=LOAD, kv_cache_dtype="fp8")

    found = solve.load_map(plan, prompts=[8000, 1000], requests=[3, 3, 1])

    assert ((1000, 8000), (1, 3)) == (found.prompts, found.requests)
    assert "fp8" == found.plan.settings.kv_cache_dtype
    assert 768 == found.cells[0].load.output_tokens
    assert 4 == len(found.to_dict()["cells"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"prompts": []}, "prompts=.*give at least one number"),
        ({"requests": [0]}, "requests=0: a whole number from 1"),
        ({"prompts": range(1, 42), "requests": range(1, 11)}, "more than 400 cells"),
    ],
)
def test_values_that_make_no_map_are_refused(values, words):
    """What was given, and what is allowed."""
    with pytest.raises(PlannerError, match=words):
        solve.load_map(MODEL, LOAD, gpu="H100", **values)


def test_a_load_is_needed():
    """The map is drawn around it."""
    with pytest.raises(PlannerError, match="the length of a request is needed"):
        solve.load_map(MODEL, gpu="H100")


def test_a_map_can_be_planned_cell_by_cell():
    """A page draws and answers in between."""
    search = usual_map(Inputs(model=MODEL, gpu="H100"), LOAD)
    seen = [len(search.cells) for _ in search.steps()]

    assert list(range(1, 37)) == seen
    assert 36 == len(search.result().cells)
