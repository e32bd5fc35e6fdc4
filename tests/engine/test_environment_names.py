"""Names and values that an environment can hold."""

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.engine.environment_names import assignments, is_variable
from planner.errors import PlannerError
from planner.export import read_yaml

WRONG = ["VLLM_A=1; touch a; B", "", "2A", "A-B", "A B", "A\n", "\u00c9", "a.b"]


@pytest.mark.parametrize("name", WRONG)
def test_a_name_that_a_shell_does_not_take_is_refused_everywhere(name: str) -> None:
    """It would be written before a command, where it starts another."""
    file = {"model": "Qwen/Qwen3-8B", "env": {name: "1"}}
    for plan in (
        lambda: planner.plan("Qwen/Qwen3-8B", env={name: "1"}),
        lambda: read_yaml(json.dumps(file)).inputs.plan(),
        lambda: assignments([(name, "1")]),
    ):
        with pytest.raises(PlannerError, match="not the name of an environment vari"):
            plan()


def test_a_value_that_no_process_takes_is_refused() -> None:
    """It ended in a traceback where the command was written."""
    with pytest.raises(PlannerError, match="VLLM_X has half a character"):
        planner.plan("Qwen/Qwen3-8B", env={"VLLM_X": "\ud800"})


@given(st.text())
def test_a_shell_reads_an_assignment_as_one_word(value: str) -> None:
    """Whatever the value holds."""
    (word,) = assignments([("VLLM_X", value)])
    assert [f"VLLM_X={value}"] == shlex.split(word)


def test_letters_digits_and_underscores_make_a_name() -> None:
    """As POSIX has it."""
    assert [True, True, True, False] == [
        is_variable(name) for name in ("VLLM_X1", "_", "a", "1a")
    ]
