"""The notebooks: built from their text, free of logic, and they run."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from nbclient import NotebookClient

from planner.planning.inputs import Inputs
from tools import notebooks
from tools.notebooks import Edition

EDITIONS = notebooks.editions()
MAX_CELL_LINES = 8
TIMEOUT_SECONDS = 600

# What a cell may hold: names, calls, attributes, literals and text with values in it.
ALLOWED = (
    *(ast.Module, ast.Import, ast.ImportFrom, ast.alias, ast.Expr, ast.Assign),
    *(ast.Call, ast.keyword, ast.Attribute, ast.Name, ast.Subscript, ast.Slice),
    *(ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Starred, ast.JoinedStr),
    *(ast.FormattedValue, ast.UnaryOp, ast.USub, ast.expr_context),
)


def _name(edition: Edition) -> str:
    return f"{edition.path.parent.name}-{edition.path.stem}"


every_notebook = pytest.mark.parametrize("edition", EDITIONS, ids=_name)
# Lessons are run by test_lessons_run.py, as a learner would.
every_tool = pytest.mark.parametrize(
    "edition", [one for one in EDITIONS if not one.left_out], ids=_name
)


def _cells(edition: Edition) -> list[Any]:
    """Return the cells of the notebook as it is committed."""
    return list(nbformat.read(edition.path, as_version=4).cells)


def _code(edition: Edition) -> list[Any]:
    """Return the cells of code but for the first, which installs what is missing."""
    return [
        cell
        for cell in _cells(edition)
        if cell.cell_type == "code" and not _is_install(cell)
    ]


def _is_install(cell: Any) -> bool:
    return notebooks.INSTALL in cell.metadata.get("tags", ())


def _headings(edition: Edition) -> list[int]:
    """Return the levels of the headings, in order."""
    text = [cell.source for cell in _cells(edition) if cell.cell_type == "markdown"]
    lines = "\n".join(text).splitlines()
    marks = [re.match(r"(#+) \S", line) for line in lines]
    return [len(mark[1]) for mark in marks if mark]


def _python(cell: Any) -> str:
    """Return the Python of a cell: neither a magic's line nor the text of `%%vllm`."""
    return "" if cell.source.startswith("%") else cell.source


def _is_import_only(cell: Any) -> bool:
    """Whether a cell only brings names; `%load_ext` brings magics."""
    if _is_install(cell):
        return True
    if cell.source.startswith("%%"):
        return False
    body = ast.parse(_python(cell)).body
    return all(isinstance(node, ast.Import | ast.ImportFrom) for node in body)


def test_there_is_a_text_for_the_explorer_and_the_app() -> None:
    """The two notebooks that `make lab` and `make app` open."""
    assert {"app", "explorer"} <= {edition.path.stem for edition in EDITIONS}


def test_no_notebook_lies_there_without_a_text() -> None:
    """Every committed notebook is built; none was written by hand."""
    built = {edition.path for edition in EDITIONS}
    folders = (notebooks.NOTEBOOKS, *notebooks.SHIPPED.values())
    lying = {path for folder in folders for path in folder.rglob("*.ipynb")}

    assert built == {path for path in lying if ".ipynb_checkpoints" not in path.parts}


def test_a_guarded_cell_installs_what_is_missing_and_only_that(monkeypatch) -> None:
    """On Colab and Kaggle; with the planner there it does nothing, offline too."""
    code = TransformerManager().transform_cell(notebooks.INSTALLS)
    ran: list[tuple[str, str]] = []
    shell = SimpleNamespace(run_line_magic=lambda *words: ran.append(words))
    exec(code, {"get_ipython": lambda: shell})
    assert [] == ran

    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    exec(code, {"get_ipython": lambda: shell})
    ((magic, words),) = ran
    extra = re.search(r'"vllm-memory-planner\[(\w+)\]"', words)

    assert "pip" == magic
    assert extra
    project = tomllib.loads((notebooks.ROOT / "pyproject.toml").read_text())["project"]
    assert extra[1] in project["optional-dependencies"]


def test_the_explorer_begins_with_the_guarded_cell() -> None:
    """Before anything of the planner is imported."""
    (edition,) = (one for one in EDITIONS if one.path.stem == "explorer")
    first = next(cell for cell in _cells(edition) if cell.cell_type == "code")

    assert notebooks.INSTALLS == first.source


@every_notebook
def test_a_notebook_is_what_its_text_says(edition: Edition) -> None:
    """Same text, same bytes; `make notebooks` builds them."""
    written = edition.path.read_text(encoding="utf-8")

    assert notebooks.build(edition) == written


@every_notebook
def test_links_lead_to_files_of_the_repository(edition: Edition) -> None:
    """A page that text names is a link; JupyterLab's root is the repository."""
    text = [cell.source for cell in _cells(edition) if cell.cell_type == "markdown"]
    links = re.findall(r"\]\((?!https:)([^)#]+)", "\n".join(text))

    assert all((edition.path.parent / link).is_file() for link in links)
    assert [] == re.findall(r"(?<!\[)`docs/[^`]*\.md`", "\n".join(text))


@pytest.mark.parametrize("target", ["lab", "lessons"])
def test_jupyterlab_opens_with_the_repository_as_its_root(target: str) -> None:
    """Otherwise a lesson's links to the documentation lead nowhere."""
    told = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", target],
        cwd=notebooks.ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert f'--ServerApp.root_dir="{notebooks.ROOT.resolve()}"' in told


@every_notebook
def test_a_notebook_is_committed_without_outputs(edition: Edition) -> None:
    """Readable differences, and nothing of the machine that ran it last."""
    left = [(cell.outputs, cell.execution_count) for cell in _code(edition)]

    assert [([], None)] * len(left) == left


@pytest.mark.server
@every_tool
def test_a_notebook_runs_from_top_to_bottom(edition: Edition) -> None:
    """A fresh kernel, no network, no GPU: no cell fails and each result is shown."""
    notebook = nbformat.read(edition.path, as_version=4)

    NotebookClient(notebook, timeout=TIMEOUT_SECONDS, kernel_name="python3").execute()

    shown = [cell for cell in notebook.cells if cell.get("outputs")]
    results = [cell for cell in _code(edition) if not _is_import_only(cell)]
    kinds = {output.output_type for cell in shown for output in cell.outputs}
    assert len(results) == len(shown)
    assert kinds <= {"execute_result", "display_data"}


@every_notebook
def test_a_cell_holds_no_logic(edition: Edition) -> None:
    """Imports, assignments and calls; what else is wanted belongs in the package."""
    nodes = [
        node for cell in _code(edition) for node in ast.walk(ast.parse(_python(cell)))
    ]
    refused = {type(node).__name__ for node in nodes if not isinstance(node, ALLOWED)}

    assert set() == refused


@every_notebook
def test_a_cell_is_short(edition: Edition) -> None:
    """One idea a cell, in at most eight lines."""
    lengths = [len(cell.source.splitlines()) for cell in _code(edition)]

    assert max(lengths) <= MAX_CELL_LINES


@every_notebook
def test_headings_go_in_order(edition: Edition) -> None:
    """One title, first; then no level is left out on the way down."""
    levels = _headings(edition)

    assert 1 == levels[0]
    assert 1 == levels.count(1)
    assert all(lower - upper <= 1 for upper, lower in pairwise(levels))


@every_notebook
def test_text_comes_before_code(edition: Edition) -> None:
    """Each code cell is announced; only imports may stand between text and code."""
    unannounced = [
        cell.source
        for before, cell in pairwise(_cells(edition))
        if cell.cell_type == "code"
        and before.cell_type == "code"
        and not _is_import_only(before)
    ]

    assert "markdown" == _cells(edition)[0].cell_type
    assert [] == unannounced


def test_the_run_panel_is_for_the_plan_on_the_screen() -> None:
    """Moving a control of the explorer changes what Run would start."""
    (edition,) = [one for one in EDITIONS if one.path.stem == "explorer"]
    needed = ("from ", "import ", "explorer = ", "run = ")
    names: dict[str, Any] = {}
    for cell in _code(edition):
        if cell.source.startswith(needed):
            exec(cell.source, names)
    explorer, run = names["explorer"], names["run"]
    before = explorer.plan
    explorer.take(Inputs.of(before.changed(max_model_len=4096)))

    assert before.settings.max_model_len is None
    assert explorer.plan.settings.max_model_len == 4096
    assert run.plan is explorer.plan
