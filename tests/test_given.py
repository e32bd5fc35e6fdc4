"""Arguments of a wrong type end in a sentence that names them."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import planner
from planner.given import named_in_errors
from planner.planning.result import Plan
from tests.fuzz.values import nested

PLAN = planner.plan("Qwen/Qwen3-8B", gpu="L4", max_model_len=8192)
WRONG: tuple[Any, ...] = (
    (
        planner.plan,
        ("Qwen/Qwen3-8B",),
        {"load": [1]},
        "load=.*a Load or None",
    ),
    (planner.plan, ("Qwen/Qwen3-8B",), {"gpu": {}}, "by text such as 'H100'"),
    (planner.plan, ("Qwen/Qwen3-8B",), {"vllm_version": 5}, "vllm_version=5 is not"),
    (planner.plan, ("Qwen/Qwen3-8B",), {"env": {1: 2}}, "are texts"),
    (planner.plan, ("Qwen/Qwen3-8B",), {"env": 3}, "env=3: a dictionary or None"),
    (planner.plan, ("Qwen/Qwen3-8B",), {"dtype": []}, "dtype=.*a text is needed"),
    (planner.plan, ("Qwen/Qwen3-8B",), {"async_scheduling": len}, "True or False"),
    (
        planner.plan,
        ("Qwen/Qwen3-8B",),
        {"hf_overrides": nested(900, dict)},
        "nested more than 100 deep",
    ),
    (
        planner.plan,
        ("Qwen/Qwen3-8B",),
        {"cudagraph_capture_sizes": [1, "a"]},
        "a list of whole numbers",
    ),
    (planner.advise, ({},), {}, "plan=.*a Plan is needed, not a dict"),
    (planner.compare, (PLAN, 5), {}, "takes plans, not int"),
    (planner.compare_gpus, (PLAN, [1]), {}, "text such as 'H100'"),
    (planner.speed_bound, (PLAN, "x"), {}, "load='x': a Load or None is needed"),
    (planner.speed_forecast, (PLAN, "x"), {}, "load='x': a Load or None is needed"),
    (planner.read, (5,), {}, "text=5: a text or a path is needed, not an int"),
    (planner.read_log, (None,), {}, "text=None: a text is needed, not None"),
    (planner.export.compose, (1,), {}, "plan=1: a Plan is needed"),
    (planner.export.read_link, ([],), {}, r"text=\[\]: a text is needed"),
    (planner.solve.serving, (PLAN, 1.5), {}, "load=1.5: a Load or None is needed"),
    (planner.sweep, (PLAN,), {"over": {"max_model_len": 5}}, "over="),
)


@pytest.mark.parametrize(("function", "args", "kwargs", "words"), WRONG)
def test_the_argument_is_named(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], words: str
) -> None:
    """In one sentence, as all refused input."""
    with pytest.raises(planner.PlannerError, match=words):
        function(*args, **kwargs)


def test_an_error_of_the_planners_own_is_not_hidden() -> None:
    """Where all arguments are of their types, it is no fault of the caller's."""

    @named_in_errors
    def broken(plan: Plan, names: list[str] | None = None) -> str:
        return (names or [])[len(plan.name)]

    with pytest.raises(IndexError):
        broken(PLAN)
    with pytest.raises(planner.PlannerError, match="plan='x': a Plan is needed"):
        broken("x")


def test_pythons_own_words_tell_what_is_missing() -> None:
    """A call without an argument, or with an unknown one."""
    with pytest.raises(TypeError, match="missing 1 required"):
        planner.advise()
    assert list(inspect.signature(planner.advise).parameters) == ["plan", "load"]


def test_a_long_value_is_not_repeated_whole() -> None:
    """A sentence has at most 3,000 characters."""
    with pytest.raises(planner.PlannerError) as refused:
        planner.plan("Qwen/Qwen3-8B", max_model_len="9" * 100_000)

    assert len(str(refused.value)) < 3_100
