"""The planner's errors in a notebook and in a terminal."""

from __future__ import annotations

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import planner
from planner.app import notebook_errors
from planner.errors import PlannerError

CELL = """\
import planner
gpu = "H100"
plan = planner.plan("Qwen/Qwen3-8B", gpu=gpu, tp=2)
"""
SENTENCE = "'tp' is not an engine argument of vLLM. Did you mean tensor_parallel_size?"


@pytest.fixture(scope="module")
def outputs() -> list[nbformat.NotebookNode]:
    """What a notebook shows of the cell."""
    cells = [nbformat.v4.new_code_cell(CELL)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3")
    with pytest.raises(CellExecutionError):
        client.execute()
    return list(notebook.cells[0].outputs)


def test_a_notebook_shows_one_sentence_and_the_readers_own_line(outputs) -> None:
    """No frame of the planner's stands before it."""
    shown = next(one for one in outputs if one.output_type == "error")

    assert shown.ename == "PlannerError"
    assert shown.traceback == [
        f"PlannerError: {SENTENCE}",
        '  line 3: plan = planner.plan("Qwen/Qwen3-8B", gpu=gpu, tp=2)',
    ]


def test_a_notebook_folds_the_inside_of_the_planner_below(outputs) -> None:
    """It opens to the whole traceback, from the reader's line on."""
    error, below = outputs
    html = below.data["text/html"]

    assert error.output_type == "error"
    assert html.startswith("<details><summary>Inside the planner</summary><pre>")
    assert "unknown_argument" in html
    assert "interactiveshell.py" not in html


def test_a_terminal_shows_the_traceback_as_ever(monkeypatch) -> None:
    """There is nothing to fold it in."""
    shell = InteractiveShell.instance()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    with pytest.raises(PlannerError) as found:
        planner.plan("Qwen/Qwen3-8B", gpu="H100", tp=2)
    written = "\n".join(notebook_errors.shown_lines(found.value))

    assert "Traceback" in written
    assert SENTENCE in written


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("tp", "tensor_parallel_size"),
        ("dp", "data_parallel_size"),
        ("ep", "enable_expert_parallel"),
        ("dtyp", "dtype"),
    ],
)
def test_a_short_name_suggests_the_argument_that_it_is_short_for(name, meant) -> None:
    """As vLLM's short flags: -tp."""
    with pytest.raises(PlannerError, match=f"Did you mean {meant}?"):
        planner.plan("Qwen/Qwen3-8B", gpu="H100", **{name: 2})
