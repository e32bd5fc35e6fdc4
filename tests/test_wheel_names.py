"""The installed package has a name of its own, beside any other called `planner`."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools.wheel_names import FOLDER, INSTALLED, renamed, write

SOURCES = sorted((ROOT / FOLDER).rglob("*.py"))
SAME = """
import vllm_memory_planner as ours
import planner
from planner.engine.gpu import GPU
from planner.export import compose
import planner.units, vllm_memory_planner.units
import pickle
load = planner.Load(prompt_tokens=1, output_tokens=2, requests=3)
assert planner is ours and planner.plan is ours.plan
assert GPU is ours.GPU and compose is ours.export.compose
assert planner.units is vllm_memory_planner.units
assert planner.units.__spec__.name == planner.units.__name__
assert pickle.loads(pickle.dumps(load)) == load
assert ours.plan("Qwen/Qwen3-8B", gpu="H100").fits
"""
BOTH = """
import planner, vllm_memory_planner, planner.errors
assert planner.THEIRS and planner.errors.THEIRS
assert vllm_memory_planner.PlannerError.__module__ == "vllm_memory_planner.errors"
assert vllm_memory_planner.plan("Qwen/Qwen3-8B", gpu="H100").fits
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel holds, as the build's hook writes it."""
    place = tmp_path_factory.mktemp("site-packages")
    write(ROOT / FOLDER, place)
    shutil.copy(ROOT / f"{INSTALLED}.py", place / f"{FOLDER}.py")
    return place


@pytest.fixture
def beside(wheel: Path) -> Iterator[Path]:
    """The same with another package's folder `planner`, as llm-d-planner brings one."""
    theirs = wheel / FOLDER
    theirs.mkdir()
    for name in ("__init__", "errors"):
        (theirs / f"{name}.py").write_text("THEIRS = True\n")
    yield wheel
    shutil.rmtree(theirs)


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these packages, and without the clone's."""
    return subprocess.run(
        [sys.executable, "-P", *words],
        cwd=place,
        env={"PYTHONPATH": str(place), "PATH": "", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_code_names_the_package_in_imports_alone() -> None:
    """So that the hook finds each place; elsewhere `__package__` names it."""
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in SOURCES
    }
    named = [
        f"{path}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant)
        if isinstance(node.value, str) and node.value.rstrip(".") in modules - {FOLDER}
    ]

    assert [] == named


def test_an_installed_module_imports_nothing_by_the_folders_name() -> None:
    """Each import is rewritten, and no other line changes."""
    for path in SOURCES:
        before = path.read_bytes()
        after = renamed(before)

        assert not re.search(rb"^\s*(from|import) planner\b(?!.*>>>)", after, re.M), (
            path
        )
        assert before == after.replace(b"from vllm_memory_planner", b"from planner")


def test_an_import_that_binds_the_folders_name_is_refused() -> None:
    """The build fails, instead of a wheel that another package's files break."""
    with pytest.raises(ValueError, match=r"from planner import"):
        renamed(b"import planner.units\n")


def test_both_names_bring_the_same_objects(wheel: Path) -> None:
    """Of the wheel, and of the checkout."""
    for place in (wheel, ROOT):
        done = run(place, "-c", SAME)

        assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("name", [FOLDER, INSTALLED])
def test_both_names_start_the_command_line(wheel: Path, name: str) -> None:
    """`python -m` with either."""
    for place in (wheel, ROOT):
        done = run(place, "-m", name, "--version")

        assert done.stdout.startswith("planner "), done.stderr
        assert "" == done.stderr


def test_another_planner_and_ours_work_in_one_process(beside: Path) -> None:
    """Neither reads a module of the other."""
    done = run(beside, "-c", BOTH)

    assert (0, "") == (done.returncode, done.stderr)


def test_another_planner_is_said_at_the_start_with_the_cure(beside: Path) -> None:
    """One sentence, beside the answer; the doctor has it too."""
    done = run(beside, "-m", INSTALLED, "plan", "Qwen/Qwen3-8B", "--gpu", "H100")
    doctor = run(beside, "-m", INSTALLED, "doctor", "--json")

    assert 0 == done.returncode
    assert done.stdout.startswith("Qwen/Qwen3-8B on H100")
    assert 1 == done.stderr.count("\n")
    assert str(beside / FOLDER / "__init__.py") in done.stderr
    assert "use `import vllm_memory_planner`" in done.stderr
    assert "import vllm_memory_planner" in doctor.stdout


def test_without_another_nothing_is_said(wheel: Path) -> None:
    """The control of the test before."""
    done = run(wheel, "-m", INSTALLED, "plan", "Qwen/Qwen3-8B", "--gpu", "H100")

    assert (0, "") == (done.returncode, done.stderr)
