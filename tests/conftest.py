"""What every test keeps to: this machine only, a folder of its own, no clock."""

from __future__ import annotations

import atexit
import gc
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

from planner.confirming import devices
from planner.engine.devices.processor import processor_gpu
from planner.units import GIB
from tests.starts import STAND_IN, TINY

ROOT = Path(__file__).resolve().parent.parent

# A shared machine is slow at times: a deadline would fail tests by chance. A change is
# judged by the same examples wherever it is tested; at night, `make nightly` looks for
# others, ten times as many, and what it finds becomes an `@example` of its law.
settings.register_profile("gate", deadline=None, derandomize=True)
settings.register_profile("night", deadline=None, print_blob=True)
settings.load_profile("gate")
AT_NIGHT = 10
"""Times as many examples."""
_OWN_SETTINGS = "_hypothesis_internal_use_settings"
"""Where hypothesis keeps what `@settings` says."""

# Jupyter warns about its old folders until this is said; kernels inherit it.
os.environ["JUPYTER_PLATFORM_DIRS"] = "1"

# Text is folded for the width that this says; workers of xdist are told the terminal's.
os.environ.pop("COLUMNS", None)

# What this machine's user has measured must not change a test; servers inherit it.
_DATA = tempfile.mkdtemp(prefix="planner-tests-")
atexit.register(shutil.rmtree, _DATA, ignore_errors=True)
os.environ["PLANNER_DATA_DIR"] = _DATA
os.environ.pop("PLANNER_CALIBRATION", None)
_TEST_NUMBERS = count()


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Run what needs servers after all that does not, and what drives a browser last.

    Servers stay up for the tests that follow, some of which look for processes that are
    left. While Playwright drives a browser, the main thread has a running event loop:
    what asks for one, as the widgets do, would not find itself in a plain script.
    """
    if config.getoption("hypothesis_profile", None) == "night":
        _look_further(items)
    items.sort(
        key=lambda item: (
            "browser" in getattr(item, "fixturenames", ()),
            any(item.get_closest_marker(name) for name in ("browser", "server")),
        )
    )


def _look_further(items: list[pytest.Item]) -> None:
    """Give laws more examples, whatever number they say themselves."""
    for law in {item.obj for item in items if is_hypothesis_test(item.obj)}:
        own = getattr(law, _OWN_SETTINGS, None) or settings()
        setattr(
            law, _OWN_SETTINGS, settings(own, max_examples=AT_NIGHT * own.max_examples)
        )


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """Headless Chromium from the system; one, since two cannot be driven at once."""
    from tests.ui import servers

    executable = servers.chromium()
    if executable is None:
        pytest.skip("no Chromium on this machine: install the system's chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    sync_api.expect.set_options(timeout=servers.PATIENCE_MS)
    with sync_api.sync_playwright() as playwright:
        driven = playwright.chromium.launch(
            executable_path=executable, args=list(servers.CHROMIUM_FLAGS)
        )
        new_context = driven.new_context

        def entered(**options: Any) -> Any:
            """Open a context that each app running for its owner lets in."""
            context = new_context(**options)
            context.set_default_timeout(servers.PATIENCE_MS)
            servers.let_in(context)
            return context

        driven.new_context = entered
        yield driven
        driven.close()


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return ROOT


_PLAN_REF = '"$ref": "urn:vllm-memory-planner:schema:plan"'
_SCHEMAS = {
    "planner.solve.solution:Solution": "solve",
    "planner.solve.set_ups:SetUps": "solve-set-ups",
    "planner.solve.model_fits:ModelFits": "solve-models",
    "planner.solve.advice.result:Advice": "advise",
    "planner.solve.comparing.comparison:Comparison": "compare",
    "planner.solve.comparing.gpus:GPUComparison": "compare-gpus",
    "planner.solve.comparing.grid:Grid": "sweep",
    "planner.solve.upgrading:Upgrade": "upgrade",
    "planner.solve.speed.forecast:SpeedForecast": "speed",
    "planner.ray.pipelines:Pipeline": "ray",
    "planner.reading.checking:Checks": "check",
    "planner.app.doctor.checks:Report": "doctor",
    "planner.confirming.confirmation:Confirmation": "confirm",
    "planner.confirming.dry.result:DryRun": "dry-run",
}
"""The class of each result, and the schema of what its command prints."""


@pytest.fixture(scope="session", autouse=True)
def _results_are_as_the_schemas_say() -> Iterator[None]:
    """Hold every result that a test turns into plain values to its published schema."""
    fastjsonschema = pytest.importorskip("fastjsonschema")
    from planner.engine.flags import plain
    from planner.planning import as_dict
    from planner.show.schemas import PLAN, schema

    @cache
    def validated(name: str) -> Callable[[Any], Any]:
        whole = schema(name)
        if name != PLAN:  # a plan inside it is held to its own already
            whole.get("definitions", {}).pop(PLAN, None)
            whole = json.loads(json.dumps(whole).replace(_PLAN_REF, '"title": ""'))
        found: Callable[[Any], Any] = fastjsonschema.compile(whole)
        return found

    def checked(written: Any, name: str) -> Any:
        def to_dict(result: Any) -> dict[str, Any]:
            values: dict[str, Any] = written(result)
            validated(name)(json.loads(json.dumps(plain(values), default=str)))
            return values

        return to_dict

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(as_dict, "plan_dict", checked(as_dict.plan_dict, PLAN))
        for place, name in _SCHEMAS.items():
            module, _, kind = place.partition(":")
            found = getattr(import_module(module), kind)
            patched.setattr(found, "to_dict", checked(found.to_dict, name))
        yield


@pytest.fixture(scope="module", autouse=True)
def _files_that_reach_a_line(request: pytest.FixtureRequest) -> Iterator[None]:
    """Note the file of tests beside the lines it runs, where coverage is measured."""
    coverage = sys.modules.get("coverage")
    measured = coverage.Coverage.current() if coverage else None
    if measured is None:
        yield
        return
    measured.switch_context(request.path.relative_to(ROOT).as_posix())
    yield
    measured.switch_context("")


@pytest.fixture(scope="module", autouse=True)
def _no_heap_of_other_tests() -> None:
    """Let the collector walk what this module's tests make, not what is left of all.

    The thousands of tests before would cost a test that allocates much a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _this_machine_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections to other machines, so that no test needs the internet."""
    connect = socket.socket.connect

    def connect_here(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _refuse_other_machines(address[0])
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_here)


@pytest.fixture(autouse=True)
def data_folder(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a folder of user data of its own; it is made when needed."""
    folder = Path(_DATA) / str(next(_TEST_NUMBERS))
    monkeypatch.setenv("PLANNER_DATA_DIR", str(folder))
    monkeypatch.delenv("PLANNER_CALIBRATION", raising=False)
    return folder


def _refuse_other_machines(host: str) -> None:
    if host == "localhost":
        return
    try:
        is_here = ip_address(host).is_loopback
    except ValueError:
        is_here = False
    if not is_here:
        raise AssertionError(f"A test asked another machine: {host}")


@pytest.fixture
def vllm_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Pythons find a vLLM that computes nothing, and 64 GiB of memory free."""
    here = processor_gpu()
    roomy = replace(here, total_memory_bytes=64 * GIB, free_memory_bytes=64 * GIB)
    monkeypatch.setattr(devices, "processor_gpu", lambda: roomy)
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    monkeypatch.delenv("PLANNER_VLLM_PYTHON", raising=False)


@pytest.fixture
def tiny_folder(tmp_path: Path) -> Path:
    """The folder of a model of two layers."""
    path = tmp_path / "tiny"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(TINY), encoding="utf-8")
    return path


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> str:
    """An architecture of vLLM's registry whose reader is taken away.

    Every name that is without a reader today may get one.
    """
    from planner.models.families import reading

    name = "CwmForCausalLM"
    assert name in reading.vllm_architectures()
    kept = dict(reading.readers())
    del kept[name]
    monkeypatch.setattr(reading, "readers", lambda _before=None: kept)
    reading.read.cache_clear()
    return name
