"""Errors under --json: of every command, of every class, as the schema has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from planner.app import cli
from planner.app.cli.shared import Misused
from planner.app.problems import problem
from planner.errors import PlannerError
from planner.show.schemas import schema
from tests.conftest import ROOT

QWEN = "Qwen/Qwen3-8B"
COMMANDS = {
    "plan": [QWEN],
    "solve": ["context", QWEN],
    "advise": [QWEN],
    "compare": [QWEN],
    "sweep": [QWEN, "--over", "max_num_seqs=1"],
    "upgrade": [QWEN],
    "speed": [QWEN],
    "ray": [QWEN],
    "export": [QWEN],
    "confirm": [QWEN],
    "dry-run": [QWEN],
    "record": [QWEN],
    "read": ["vllm serve"],
    "check": ["a.yaml"],
    "models": [],
    "gpus": [],
    "calibration": ["show", "none"],
    "doctor": ["--need", "none"],
    "app": ["--port", "0"],
    "mcp": ["--files", "nowhere"],
    "schema": ["none"],
    "completion": [],
}
"""Every command, with words that it can begin to read."""
PLANNING = [name for name in cli.PLANNING if name not in ("confirm", "record")]
"""Without those that look for vLLM first."""


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    try:
        status: Any = cli.main(list(words))
    except SystemExit as end:
        status = end.code
    told = capsys.readouterr()
    return status, told.out, told.err


@pytest.fixture(scope="module")
def check() -> Any:
    """What refuses whatever is no error of the schema."""
    jsonschema = pytest.importorskip("jsonschema")
    return jsonschema.Draft7Validator(schema("error")).validate


def wrong() -> Iterator[tuple[str, ...]]:
    """Command lines that are refused, each in its own way."""
    for name, words in COMMANDS.items():
        yield (name, *words, "--made-up-flag", "3")
        yield (name, *words, "--made-up-flag=3")
    for name in PLANNING:
        words = COMMANDS[name]
        yield (name, *words, "--gpu", "H101")
        yield (name, *words, "--max-model-len", "1x")
        yield (name, *words, "--max-num-seqs")
        yield (name, *words, "--entrypoint", "made_up")
        yield (name, *words, "--max-modle-len", "3")
        yield (name, *words, "--hf-overrides", "[" * 2000)
        yield (name, *[word.replace(QWEN, "./nowhere") for word in words])
        yield (name, *[word.replace(QWEN, "nobody/nothing") for word in words])
        yield (name, "--", "python", "nothing.py")
    yield ("plam",)
    yield ()
    yield ("plan",)
    yield ("plan", "-f", "nowhere.yaml")
    yield ("plan", QWEN, "--vllm-version", "0.1")
    yield ("plan", QWEN, "--requests", "3")
    yield ("plan", QWEN, "--env", "3=4")
    yield ("sweep", QWEN, "--over", "x")
    yield ("solve",)
    yield ("solve", "all", QWEN)
    yield ("compare", QWEN, "--price", "L4")
    yield ("models", "x", "--hub")
    yield ("read",)
    yield ("read", "\x01" * 20)
    yield ("check", "nowhere.yaml", "--gpu", "H101")
    yield ("app", "--max-sessions", "0")
    for action in ("show", "forget", "share"):
        yield ("calibration", action, "none")
    for action in ("import", "add", "startup-plan"):
        yield ("calibration", action, "nowhere.json")
    yield ("calibration", "export", "/dev/null/measured.json")
    yield ("calibration", "forget")
    yield ("calibration", "made-up")
    yield ("export", QWEN, "--output", "nowhere/plan.yaml")
    yield ("export", QWEN, "--format", "made-up")
    yield ("confirm", "--log", "nowhere.log")
    yield ("confirm", "--log", ".")
    yield ("plan", "-f", ".")
    yield ("dry-run",)
    yield ("record",)
    yield ("ray", QWEN, "--concurrency", "x")
    yield ("gpus", "--attached=yes")
    yield ("doctor", "--need")
    yield ("models", "--limit", "x")
    yield ("mcp", "--files")
    yield ("completion", "tcsh")


def test_every_command_is_among_those_that_are_tried() -> None:
    """A new one has to be."""
    assert set(cli.COMMANDS) == set(COMMANDS)


@pytest.mark.parametrize("words", list(wrong()), ids=lambda words: " ".join(words)[:70])
def test_an_error_is_json_and_has_the_exit_status_that_it_has_as_text(
    words: tuple[str, ...],
    check: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its sentence is the same; standard error has what a start tells meanwhile."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    before, _, sentence = answer(capsys, *words)
    at = words.index("--") if "--" in words else len(words)
    status, out, err = answer(capsys, *words[:at], "--json", *words[at:])

    assert (cli.BAD_INPUT, cli.BAD_INPUT) == (before, status), sentence
    assert "planner: " not in err
    found = json.loads(out)
    check(found)
    assert all(found[name] for name in ("error", "code", "allowed", "do"))
    if "--json" not in found["error"]:  # of a command that has no such flag
        assert sentence.strip().endswith(found["error"])


@pytest.mark.parametrize(
    ("words", "code", "given", "allowed"),
    [
        ("plan Qwen/Qwen3-8B --gpu H101", "bad_input", {"--gpu": "H101"}, "catalogue"),
        ("plan ./nowhere", "model_not_found", {"words": ["./nowhere"]}, "planner plan"),
        (
            "plan Qwen/Qwen3-8B --max-model-len 1x",
            "bad_input",
            {"--max-model-len": "1x"},
            "a whole number from 1",
        ),
        (
            "plan Qwen/Qwen3-8B --entrypoint x",
            "usage",
            {"--entrypoint": "x"},
            "one of serve",
        ),
        (
            "plan Qwen/Qwen3-8B --vllm-version=0.1",
            "bad_input",
            {"--vllm-version": "0.1"},
            "a release of vLLM from 0.9.2 to",
        ),
    ],
)
def test_what_was_given_and_what_is_allowed_is_named(
    words: str,
    code: str,
    given: Mapping[str, object],
    allowed: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By flag, or as the words without one."""
    _, out, _ = answer(capsys, *words.split(), "--json")
    found = json.loads(out)

    assert code == found["code"]
    assert given == found["given"]
    assert allowed in found["allowed"]


def test_each_class_of_errors_has_a_code_of_the_schema() -> None:
    """A new one is entered there."""

    def classes(base: type[PlannerError]) -> Iterator[type[PlannerError]]:
        for one in base.__subclasses__():
            yield from (one, *classes(one))

    named = {PlannerError.code, *(one.code for one in classes(PlannerError))}

    assert Misused.code in named
    assert set(schema("error")["properties"]["code"]["enum"]) == named


def test_a_secret_is_not_given_back() -> None:
    """Nor is a value at any length."""
    error = PlannerError("Something else is wrong.")
    given = {"--api-key": "hush", "--hf-overrides": "x" * 5000}
    found = problem(error, given, "flags", "help")

    assert "***" == found["given"]["--api-key"]
    assert len(found["given"]["--hf-overrides"]) < 300
    assert ("flags", "help") == (found["allowed"], found["do"])


def test_json_behind_two_dashes_is_the_commands_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What follows them is vLLM's."""
    status, out, err = answer(capsys, "plan", "--", "nothing", "--json")

    assert (cli.BAD_INPUT, "") == (status, out)
    assert err.startswith("planner: ")


def test_the_schemas_lie_where_the_plan_has_its_own() -> None:
    """So that they ship with the package."""
    assert (ROOT / "planner/data/schemas/error.json").is_file()
