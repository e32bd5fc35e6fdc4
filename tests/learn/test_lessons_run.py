"""Whole lessons in a real kernel: untouched, solved, wrong, restarted; no network."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from jupyter_client.manager import start_new_kernel

from planner import learn
from planner.learn.exercise import Exercise
from planner.learn.parts import MadePart
from tests import lesson_runs
from tests.lesson_runs import LEARNERS, LESSON_SECONDS, LESSONS, SOLVED, Ran
from tests.wrong_answers import wrong_answers
from tools.notebooks import Edition

pytestmark = pytest.mark.server


def _name(edition: Edition) -> str:
    return edition.path.stem


def _number(edition: Edition) -> int:
    return int(edition.path.stem.split("_")[0])


every_lesson = pytest.mark.parametrize("edition", LEARNERS, ids=_name)
every_solution = pytest.mark.parametrize("edition", SOLVED, ids=_name)


def _results(notebook: Any) -> list[Any]:
    """Return the cells that end with something to show."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    python = TransformerManager().transform_cell  # of "%pip install"
    return [
        cell
        for cell in code
        if isinstance(ast.parse(python(cell.source)).body[-1], ast.Expr)
    ]


def _wrong_cells(exercise: Exercise, lesson: int) -> list[tuple[str, str]]:
    """Return a cell for each wrong answer, with what has to be said to it."""
    cells = []
    for part in exercise.parts:
        answers = {repr(answer): says for answer, says in wrong_answers(part).items()}
        if isinstance(part, MadePart):
            answers = {f"learn.checkpoint({lesson})": f"The {part.name} has to"}
            if part.name != "plan":
                answers = {
                    f"learn.checkpoint({lesson})": f"is not a {part.kind.__name__}"
                }
        cells += [
            (f'learn.exercise("{exercise.name}").check({part.name}={answer})', says)
            for answer, says in answers.items()
        ]
    return cells


@cache
def _tried(edition: Edition) -> tuple[Ran, list[tuple[str, str]]]:
    """Run a lesson with each wrong answer typed behind its checks; return these too.

    One run serves both: what is typed comes after all that a learner left untouched.
    """
    notebook = nbformat.read(edition.path, as_version=4)
    typed = [
        one
        for exercise in learn.exercises(_number(edition))
        for one in _wrong_cells(exercise, _number(edition))
    ]
    at = max(n for n, cell in enumerate(notebook.cells) if ".check(" in cell.source)
    notebook.cells[at + 1 : at + 1] = [
        nbformat.v4.new_code_cell(source) for source, _says in typed
    ]
    return lesson_runs.run(notebook), typed


@every_lesson
def test_an_untouched_lesson_runs_and_calls_nothing_wrong(edition: Edition) -> None:
    """Run All over a fresh notebook: every check says "not attempted"."""
    ran, typed = _tried(edition)
    sources = {source for source, _says in typed}
    left = [cell for cell in ran.notebook.cells if cell.source not in sources]
    untouched = Ran(notebook=SimpleNamespace(cells=left), noted=ran.noted)

    checks = untouched.shown(".check(")
    assert len(learn.exercises(_number(edition))) == len(checks)
    assert all("not attempted" in check for check in checks)
    assert all(cell.outputs for cell in _results(untouched.notebook))
    assert untouched.shown("learn.progress(")[0].startswith("0 of ")


@every_lesson
def test_a_lesson_with_every_wrong_answer_says_what_is_off(edition: Edition) -> None:
    """Typed into the lesson one after the other: not yet, and none of them right."""
    ran, typed = _tried(edition)

    for source, says in typed:
        (shown,) = ran.shown(source)
        assert ": not yet" in shown.splitlines()[0], source
        assert says in shown, source
    assert ran.shown("learn.progress(")[0].startswith("0 of ")
    assert len(typed) >= 10


@every_solution
def test_a_solved_lesson_is_right(edition: Edition) -> None:
    """The answers of the solution's notebook, and the progress at its end."""
    ran = lesson_runs.ran(edition)

    checks = ran.shown(".check(")
    assert len(learn.exercises(_number(edition))) == len(checks)
    assert all(check.startswith("✔") for check in checks)
    assert all(": right" in check for check in checks)
    assert all(cell.outputs for cell in _results(ran.notebook))
    assert ran.shown("learn.progress(")[0].startswith(f"{len(checks)} of")


@pytest.mark.parametrize("edition", LESSONS, ids=lambda one: f"{_name(one)}-"
                         f"{'solved' if one.is_solution else 'untouched'}")  # fmt: skip
def test_a_lesson_asks_no_other_machine(edition: Edition) -> None:
    """The kernel has no network, and does not even try."""
    is_solved = edition.is_solution
    ran = lesson_runs.ran(edition) if is_solved else _tried(edition)[0]
    assert {"watched"} == set(ran.noted)


@pytest.mark.parametrize(
    "asks",
    [
        "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)",
        "import urllib.request; urllib.request.urlopen('https://huggingface.co')",
        "import huggingface_hub as hub; hub.model_info('Qwen/Qwen3-8B')",
    ],
)
def test_what_asks_another_machine_would_be_noted(asks: str) -> None:
    """The rule of these tests: refused at once, and written down with the host."""
    with lesson_runs.offline() as (env, asked):
        done = subprocess.run(
            [sys.executable, "-c", asks],
            env=env | {"HF_HUB_OFFLINE": "0"},
            capture_output=True,
            text=True,
        )
        noted = asked.read_text("utf-8")

    assert 0 != done.returncode
    assert "192.0.2.1" in noted or "huggingface.co" in noted


def _said(client: Any, code: str) -> str:
    """Run code in a kernel and return what it shows, or how it fails."""
    said: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        content = message["content"]
        said.append(content.get("data", {}).get("text/plain") or content.get("ename"))

    client.execute_interactive(code, output_hook=hear, timeout=LESSON_SECONDS)
    return "\n".join(filter(None, said))


def test_progress_outlives_a_restart_of_the_kernel() -> None:
    """Exercises and predictions stay; the variables are gone, so it was a restart."""
    with lesson_runs.offline() as (env, _asked):
        manager, client = start_new_kernel(kernel_name="python3", env=env)
        try:
            _said(client, "from planner import learn; desk = learn.checkpoint(1)")
            _said(client, 'learn.predict("KV cache on the L4", "5 GiB")')
            right = _said(client, 'learn.exercise("1.2").check("c")')
            manager.restart_kernel(now=True)
            client.wait_for_ready(timeout=LESSON_SECONDS)
            gone = _said(client, "desk")
            _said(client, "from planner import learn")
            progress = _said(client, "learn.progress(1)")
            guess = _said(client, 'learn.predict("KV cache on the L4", ...)')
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)

    assert right.startswith("✔")
    assert "NameError" == gone
    assert "1 of 4 exercises right" in progress
    assert "✔ 1.2 Which line grows?: right" in progress
    assert "you expect 5 GiB" in guess
