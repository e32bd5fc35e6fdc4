"""The shape of the code: small files, one direction of imports, a light core."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "planner").rglob("*.py"))
MAX_LINES = 400
# Slow to import, or a way to the network and to processes.
HEAVY = {
    *("IPython", "huggingface_hub", "ipywidgets", "numpy", "pandas", "plotly"),
    *("pynvml", "ray", "torch", "traitlets", "vllm"),
    *("asyncio", "http.client", "socket", "ssl", "subprocess", "urllib.request"),
}

LOADED_BY_IMPORT = """
import sys
before = set(sys.modules)
import planner
print("\\n".join(sorted(set(sys.modules) - before)))
"""
LOADED_BY_A_PLAN = """
import sys, planner
planner.plan("Qwen/Qwen3-8B", gpu="H100")
print("\\n".join(sorted(sys.modules)))
"""


def _modules_after(code: str) -> set[str]:
    """Run code in a fresh interpreter; return the names of the modules it prints.

    `-S` leaves out the site-packages' start-up files, which load modules of their own.
    """
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_can_be_read_in_one_sitting(path: Path) -> None:
    """No file of the package has more than 400 lines."""
    assert MAX_LINES >= len(path.read_text(encoding="utf-8").splitlines())


def test_imports_point_one_way() -> None:
    """The contracts of pyproject.toml hold: layers, a pure core, charts that show."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stdout + done.stderr


def test_importing_the_planner_loads_the_standard_library_only() -> None:
    """`import planner` in a fresh interpreter brings nothing that pip installed."""
    loaded = {name.partition(".")[0] for name in _modules_after(LOADED_BY_IMPORT)}

    assert {"planner"} == loaded - sys.stdlib_module_names


def test_a_plan_from_the_catalogue_loads_nothing_heavy() -> None:
    """No widget, chart, Hub client, network or process module is needed for a plan."""
    loaded = _modules_after(LOADED_BY_A_PLAN)

    assert "planner" in loaded
    assert set() == loaded & HEAVY


def test_the_core_has_no_dependencies() -> None:
    """What pip installs without an extra is the planner alone."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]

    assert [] == project["dependencies"]
