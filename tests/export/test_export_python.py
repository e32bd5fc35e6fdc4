"""Python code: it compiles, and its call plans to the same figures."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner import PlannerError
from planner.export import python
from planner.planning.batches import ENTRYPOINTS
from tests.export.test_export_command import ARGUMENTS, MODEL, cases, figures


def called(code: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what the code calls LLM with, and the variables it sets."""
    tree = ast.parse(code)
    compile(tree, "<exported>", "exec")
    (call,) = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert isinstance(call.func, ast.Name)
    assert "LLM" == call.func.id
    assert [] == call.args
    given_arguments = {
        str(word.arg): ast.literal_eval(word.value) for word in call.keywords
    }
    variables = {
        ast.literal_eval(node.targets[0].slice): ast.literal_eval(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)
    }
    return given_arguments, variables


def planned_again(plan: planner.Plan) -> planner.Plan:
    """Plan what the exported code asks the LLM class for."""
    arguments, env = called(python(plan))
    model = arguments.pop("model")
    compilation = arguments.pop("compilation_config", {})
    sizes = arguments.pop("cuda_graph_sizes", None)
    largest = {"max_cudagraph_capture_size": sizes[0]} if sizes else {}
    return planner.plan(
        model,
        gpu=plan.gpu,
        vllm_version=plan.vllm_version,
        entrypoint="llm",
        env=env,
        **arguments,
        **compilation,
        **largest,
    )


def test_code_for_the_class_holds_what_was_given():
    """Nothing but the model and the arguments that were typed."""
    plan = planner.plan(MODEL, entrypoint="llm", max_model_len=4096, enforce_eager=True)

    assert {
        "model": MODEL,
        "max_model_len": 4096,
        "enforce_eager": True,
    } == called(python(plan))[0]


def test_code_for_a_server_s_plan_keeps_the_server_s_defaults():
    """On an H100 a server batches 8,192 tokens, the class 16,384."""
    code = python(planner.plan(MODEL, gpu="H100"))

    assert 8192 == called(code)[0]["max_num_batched_tokens"]
    assert "max_num_seqs" not in called(code)[0]
    assert "# The defaults of `vllm serve`" in code


def test_variables_are_set_before_vllm_is_imported():
    """vLLM reads some of them while it is imported."""
    code = python(planner.plan(MODEL, env={"VLLM_USE_FLASHINFER_SAMPLER": "0"}))

    assert {"VLLM_USE_FLASHINFER_SAMPLER": "0"} == called(code)[1]
    assert code.index("os.environ[") < code.index("from vllm")


def test_a_secret_is_no_part_of_the_code():
    """Code lies in repositories."""
    plan = planner.plan(MODEL, hf_token="hf_x1", env={"MY_API_KEY": "x2", "A": "b"})

    assert not {"hf_x1", "x2"} & set(python(plan).replace('"', " ").split())
    assert {"A": "b"} == called(python(plan))[1]


def test_several_engines_are_no_code():
    """The class starts one; a server would start more."""
    with pytest.raises(PlannerError, match="data_parallel_size=2"):
        python(planner.plan(MODEL, data_parallel_size=2))


def test_what_code_cannot_hold_is_named():
    """An object of the user's own has no text that Python reads."""
    with pytest.raises(PlannerError, match="cannot be written as Python"):
        python(planner.plan(MODEL, served_model_name=object()))


@pytest.mark.parametrize("release", ["0.33.0", "0.19.0", "0.11.0", "0.9.2"])
def test_each_argument_plans_to_the_same_figures(release):
    """Every argument with each plausible value."""
    newest = "0.10.2" if release == "0.9.2" else release
    tried, wrong = 0, []
    for name, value in cases(newest):
        try:
            plan = planner.plan(MODEL, vllm_version=release, **{name: value})
            again = planned_again(plan)
        except PlannerError:
            continue
        tried += 1
        if figures(plan) != figures(again):
            wrong.append(f"{name}={value!r}")

    assert [] == wrong
    assert tried > 150


@given(
    ARGUMENTS,
    st.sampled_from(["H100", "L4", "H200", "A100-80GB"]),
    st.sampled_from(ENTRYPOINTS),
)
def test_any_code_plans_to_the_same_figures(arguments, gpu, entrypoint):
    """The figures stay, whichever door the plan was made for."""
    try:
        plan = planner.plan(MODEL, gpu=gpu, entrypoint=entrypoint, **arguments)
        again = planned_again(plan)
    except PlannerError:
        return

    assert figures(plan) == figures(again)


@given(st.text())
def test_any_text_stays_the_same_text(text):
    """Quotes, line breaks, other scripts: the value is what was given."""
    plan = planner.plan(MODEL, served_model_name=text, env={"A": text})
    arguments, variables = called(python(plan))

    assert text == arguments["served_model_name"]
    assert {"A": text} == variables
