"""Lines and code that the planner writes, read by the real vLLM's own parser."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from typing import Any

import pytest

import planner
from planner.confirming.installation import PYTHON_VARIABLE
from planner.errors import PlannerError
from planner.export.python_code import python_arguments
from tests.export.test_export_command import as_given, cases, figures

MODEL = "Qwen/Qwen3-8B"

# Runs in vLLM's Python: parses each line as `vllm serve` does, and makes EngineArgs.
READER = """
import dataclasses, importlib, json, sys

def parser():
    for name in ("common", "launchers", "openai"):
        try:
            module = importlib.import_module(f"vllm.entrypoints.{name}.cli_args")
        except ModuleNotFoundError:
            continue
        if hasattr(module, "make_arg_parser"):
            from vllm.utils.argparse_utils import FlexibleArgumentParser
            return module.make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))

def plain(value):
    if dataclasses.is_dataclass(value):
        return None
    json.dumps(value)
    return value

def parsed(made, words):
    from vllm.engine.arg_utils import AsyncEngineArgs
    args = made.parse_args(words)
    known = {field.name for field in dataclasses.fields(AsyncEngineArgs)}
    fresh = vars(made.parse_args([]))
    engine = AsyncEngineArgs(**{
        name: value for name, value in vars(args).items()
        if name in known and name != "model"
    })
    given = {}
    for name, value in vars(args).items():
        if name == "compilation_config":
            sizes = value.cudagraph_capture_sizes
            if sizes is not None:
                given["cudagraph_capture_sizes"] = list(sizes)
        elif name in known | {"model_tag"} and value != fresh.get(name):
            given[name] = plain(getattr(engine, name, value))
    return given

def taken(arguments):
    from vllm.engine.arg_utils import EngineArgs
    known = {field.name for field in dataclasses.fields(EngineArgs)}
    unknown = sorted(set(arguments) - known)
    if unknown:
        raise TypeError(f"no arguments of the class: {unknown}")
    return None

made = parser()
for line in sys.stdin:
    kind, given = json.loads(line)
    try:
        answer = parsed(made, given) if kind == "line" else taken(given)
        print("@" + json.dumps([True, answer]), flush=True)
    except (Exception, SystemExit) as error:
        print("@" + json.dumps([False, f"{type(error).__name__}: {error}"]), flush=True)
"""


def asked(rows: list[tuple[str, Any]]) -> list[Any]:
    """Hand rows to vLLM's Python, and return its answers."""
    found = subprocess.run(
        [os.environ[PYTHON_VARIABLE], "-c", READER],
        input="".join(json.dumps(row) + "\n" for row in rows),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    answers = [line for line in found.stdout.splitlines() if line.startswith("@")]
    assert len(rows) == len(answers), found.stderr[-3000:]
    return [json.loads(line[1:]) for line in answers]


@pytest.fixture(scope="module")
def plans(release) -> list[planner.Plan]:
    """Return a plan for each argument with each plausible value."""
    found = []
    for name, value in cases(release):
        try:
            found.append(planner.plan(MODEL, vllm_version=release, **{name: value}))
        except PlannerError:
            continue
    assert len(found) > 150
    return found


def test_every_line_parses_and_asks_for_the_same_plan(release, plans) -> None:
    """`vllm serve`'s own parser, then the engine's own arguments, then the planner."""
    rows = [("line", shlex.split(plan.command())[2:]) for plan in plans]
    wrong = []
    for plan, (is_parsed, answer) in zip(plans, asked(rows), strict=True):
        if not is_parsed:
            wrong.append(f"{answer} <- {plan.command()}")
            continue
        given = as_given(answer)
        model = given.pop("model_tag")
        again = planner.plan(model, vllm_version=release, **given)
        if figures(plan) != figures(again):
            wrong.append(f"{given} <- {plan.command()}")

    assert [] == wrong


def test_the_class_knows_every_argument_of_the_code(plans) -> None:
    """LLM(...) hands its keyword arguments to EngineArgs, which has them all."""
    rows = [
        ("code", dict.fromkeys(python_arguments(plan)))
        for plan in plans
        if (plan.settings.data_parallel_size or 1) == 1
    ]
    wrong = [answer for is_taken, answer in asked(rows) if not is_taken]

    assert [] == wrong


def test_the_parser_refuses_what_is_no_argument() -> None:
    """The check itself can fail."""
    rows = [("line", [MODEL, "--no-such-flag"]), ("code", {"no_such_argument": 1})]

    assert [False, False] == [is_taken for is_taken, _ in asked(rows)]
