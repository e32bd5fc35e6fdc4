"""The shape of the code: small files, no circle of imports, a light core.

The direction of imports is a contract of pyproject.toml, which `make check` holds.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "planner").rglob("*.py"))
MAX_LINES = 400
MAX_ROOMS = 13
# Slow to import, or a way to the network and to processes.
HEAVY = {
    *("IPython", "huggingface_hub", "ipywidgets", "numpy", "pandas", "plotly"),
    *("pynvml", "ray", "torch", "traitlets", "vllm"),
    *("asyncio", "http.client", "socket", "ssl", "subprocess", "urllib.request"),
}

# Rules of starts with other layers, adapters or devices.
OF_OTHER_STARTS = {
    *("planner.memory.kv_cache.mamba_caches", "planner.memory.kv_cache.mla_caches"),
    *("planner.memory.kv_cache.sparse_caches", "planner.memory.kv_cache.step5_caches"),
    *("planner.memory.kv_cache.deepseek_v4_caches", "planner.memory.lora.lora"),
    *("planner.memory.kv_cache.cpu_attention", "planner.memory.cpu_account"),
    "planner.memory.checkpoint",
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


def test_every_file_can_be_read_in_one_sitting() -> None:
    """No file of the package has more than 400 lines."""
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in FILES
    }

    assert {} == {path: many for path, many in lines.items() if many > MAX_LINES}


def test_the_package_is_thirteen_rooms() -> None:
    """A newcomer sees every room at one glance."""
    inside = [path for path in (ROOT / "planner").iterdir() if path.name[0] != "_"]
    rooms = [path.name for path in inside if path.is_dir()]

    assert MAX_ROOMS >= len(rooms), rooms


@cache
def _imports() -> grimp.ImportGraph:
    """Every import of one module by another, those inside functions included."""
    return grimp.build_graph(
        "planner", exclude_type_checking_imports=True, cache_dir=None
    )


def _in_order(arrows: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_module_imports_itself_by_a_detour() -> None:
    """No circle among modules, by imports inside functions either."""
    graph = _imports()

    _in_order(
        {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    )


def test_no_room_imports_itself_by_a_detour() -> None:
    """No circle among the rooms either, where modules alone might have none."""
    graph = _imports()
    arrows: dict[str, set[str]] = {}
    for name in graph.modules:
        room = name.split(".")[1:2]
        for other in graph.find_modules_directly_imported_by(name):
            if room and other.split(".")[1:2] != room:
                arrows.setdefault(room[0], set()).update(other.split(".")[1:2])

    assert "engine" in arrows["models"]
    _in_order(arrows)


@cache
def _imported_inside() -> list[tuple[Path, ast.Import | ast.ImportFrom]]:
    """Return the imports inside functions, each with its file."""
    texts = ((path, path.read_text(encoding="utf-8")) for path in FILES)
    return [
        (path, node)
        for path, text in texts
        if re.search(r"^\s+(?:import|from) ", text, re.MULTILINE)
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]


def test_an_import_inside_a_function_says_why() -> None:
    """What few runs need, what is slow or optional: each has its reason on its line.

    Registries import what they are asked for, and programs of a dry run import vLLM
    after what it must find in place.
    """
    assert _imported_inside()
    for path, node in _imported_inside():
        if path.parent == ROOT / "planner/confirming/dry/inside_vllm":
            continue
        if path.name == "views.py" or path == ROOT / "planner/__init__.py":
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        statement = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        assert re.search(r"PLC0415 - \w", statement), f"{path}:{node.lineno}"


def test_importing_the_planner_loads_the_standard_library_only() -> None:
    """`import planner` in a fresh interpreter brings nothing that pip installed.

    Nor `typing`, which takes longer than the planner's own part of it.
    """
    loaded = {name.partition(".")[0] for name in _modules_after(LOADED_BY_IMPORT)}

    assert {"planner"} == loaded - sys.stdlib_module_names
    assert set() == loaded & {"typing", "re", "dataclasses"}


def test_a_plan_from_the_catalogue_loads_nothing_heavy() -> None:
    """No widget, chart, Hub client, network or process module is needed for a plan."""
    loaded = _modules_after(LOADED_BY_A_PLAN)

    assert "planner" in loaded
    assert set() == loaded & HEAVY


def test_a_plan_loads_no_rules_of_other_starts() -> None:
    """What latent attention, states, adapters and the CPU build need waits for them."""
    loaded = _modules_after(LOADED_BY_A_PLAN)

    assert "planner.memory.kv_cache.attention_caches" in loaded
    assert set() == loaded & OF_OTHER_STARTS


def test_the_core_has_no_dependencies() -> None:
    """What pip installs without an extra is the planner alone."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]

    assert [] == project["dependencies"]


def test_a_generation_of_gpus_stands_in_one_place() -> None:
    """No other module than engine/generations.py gives one a number."""
    own = re.compile(r"^_?(?:ADA|AMPERE|BLACKWELL|HOPPER|TURING|SM\d+) = ", re.M)
    found = [path for path in FILES if own.search(path.read_text(encoding="utf-8"))]
    assert ["generations.py"] == [path.name for path in found]
