"""The doctor: what works on a machine, and what to do about the rest."""

from __future__ import annotations

import json
import shutil
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from huggingface_hub import constants

from planner.app import cli
from planner.app.doctor import (
    NAMES,
    Finding,
    Health,
    checks,
    examine,
    machine,
)
from planner.errors import PlannerError
from planner.units import GIB
from tests.fake_nvml import Board, FakeDriver
from tests.hub_server import HubServer, close_session

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def quiet_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked: the Hub's cache alone."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def test_this_python_and_the_app_work() -> None:
    """The tests run in both."""
    assert machine.python().state is Health.WORKS
    assert machine.app().state is Health.WORKS
    assert "voila" in machine.app().says


def test_another_package_of_the_name_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """`import planner` then brings that one; the remedy names the other import."""
    assert machine.package().state is Health.WORKS

    monkeypatch.setattr(machine.other_planner, "other_planner", lambda: "/x/planner.py")
    found = machine.package()

    assert found.state is Health.LIMITED
    assert "(/x/planner.py)" in found.remedy
    assert "import vllm_memory_planner" in found.remedy


def test_an_old_python_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """3.10 is no 3.11."""
    monkeypatch.setattr(sys, "version_info", (3, 10, 0))

    assert machine.python().state is Health.MISSING
    assert "3.11" in machine.python().remedy


def test_a_missing_package_is_named_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command line goes on without the app's packages."""
    monkeypatch.setattr(machine, "_APP", ("voila", "no-such-package"))
    found = machine.app()

    assert found.state is Health.MISSING
    assert found.says == "not installed: no-such-package"
    assert found.remedy == "pip install 'vllm-memory-planner[app]'"


def test_without_jupyterlab_the_app_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """`[app]` brings the page alone; the lessons need a Jupyter."""
    known = machine._version
    monkeypatch.setattr(
        machine, "_version", lambda name: known(name) if name != "jupyterlab" else None
    )
    found = machine.app()

    assert found.state is Health.LIMITED
    assert found.says.startswith("voila")
    assert found.remedy == "pip install 'vllm-memory-planner[lab]'"


def test_a_machine_without_a_browser_serves_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a server in a rack: the remedy is a way to its page."""
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(machine.platform, "system", lambda: "Linux")
    found = machine.browser()

    assert found.state is Health.LIMITED
    assert "ssh -L" in found.remedy


@pytest.mark.usefixtures("vllm_stand_in")
def test_a_vllm_of_a_planned_release_works() -> None:
    """The stand-in answers as a Python with vLLM's package does."""
    found = machine.vllm()

    assert found.state is Health.WORKS
    assert found.says.startswith("vLLM 0.3")


@pytest.mark.parametrize("release", ["0.8.0", "0.99.0", "unknown"])
def test_a_vllm_of_another_release_is_limited(
    release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planner's own range is named, and how to get into it."""
    there = machine.installation.Installation(
        python="python", package="vllm", version=release, is_cpu_build=False
    )
    monkeypatch.setattr(machine.installation, "find", lambda: there)
    found = machine.vllm()

    assert found.state is Health.LIMITED
    assert found.remedy.startswith("pip install vllm==")


def test_no_vllm_says_how_to_install_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the installer's own words for this machine."""

    def none() -> None:
        raise PlannerError("vLLM is not installed here. Install it: pip.")

    monkeypatch.setattr(machine.installation, "find", none)

    assert machine.vllm().state is Health.MISSING
    assert machine.vllm().remedy.endswith("Install it: pip.")


def test_ray_is_there_or_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipelines are planned without it."""
    assert machine.ray().state is Health.WORKS

    monkeypatch.setattr(machine, "_version", lambda _name: None)

    assert machine.ray().state is Health.LIMITED
    assert "[ray]" in machine.ray().remedy


def test_an_attached_gpu_is_listed_with_its_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An H100 as its driver tells."""
    monkeypatch.setitem(sys.modules, "pynvml", FakeDriver([Board()]).module())
    found = machine.gpu()

    assert found.state is Health.WORKS
    assert "H100" in found.says
    assert "driver 580.95.05" in found.says


def test_a_gpu_of_no_known_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A board that the catalogue does not hold and whose driver tells no memory."""
    odd = Board(name="NVIDIA Something New", total_mib=None, capability=None)
    monkeypatch.setitem(sys.modules, "pynvml", FakeDriver([odd]).module())
    found = machine.gpu()

    assert found.state is Health.LIMITED
    assert "Something New" in found.says
    assert found.remedy


def test_little_free_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than 1 GiB."""
    monkeypatch.setattr(machine, "_LESSON_BYTES", 1 << 60)

    assert machine.memory().state is Health.LIMITED


def test_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """7 GiB are too little for vLLM's CPU build, 9 GiB are enough."""
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "not" / "yet"))
    for free, state in ((7 * GIB, Health.LIMITED), (9 * GIB, Health.WORKS)):
        monkeypatch.setattr(
            shutil, "disk_usage", lambda _path, free=free: Usage(0, 0, free)
        )
        assert machine.disk().state is state


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everywhere, so the system's answer is given."""
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(machine.os, "access", lambda _path, _mode: False)

    assert machine.disk().state is Health.LIMITED
    assert "PLANNER_DATA_DIR" in machine.disk().remedy


def test_the_hub_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that speaks the Hub's interface."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    close_session()
    with HubServer() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        found = machine.hub()
    close_session()

    assert found.state is Health.WORKS
    assert found.says.startswith(running.url)


def test_a_hub_that_is_silent_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens at the port."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    found = machine.hub()

    assert found.state is Health.LIMITED
    assert "HF_ENDPOINT" in found.remedy


@pytest.mark.usefixtures("quiet_hub")
def test_offline_on_purpose_says_so() -> None:
    """HF_HUB_OFFLINE."""
    assert "HF_HUB_OFFLINE" in machine.hub().says


@pytest.mark.usefixtures("quiet_hub")
def test_the_whole_is_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """At most 30 lines of 88 columns; every part is there."""
    assert cli.main(["doctor"]) == cli.FITS
    lines = capsys.readouterr().out.splitlines()

    assert len(lines) <= 30
    assert max(map(len, lines)) <= 120  # a path that cannot be broken
    assert [line.split()[1] for line in lines if line[0] in "✔!✘"] == list(NAMES)


@pytest.mark.usefixtures("quiet_hub")
def test_what_is_needed_decides_the_status(capsys: pytest.CaptureFixture[str]) -> None:
    """0 works, 1 does not, 2 is not looked at."""
    assert cli.main(["doctor", "--need", "python", "--need", "app"]) == cli.FITS
    assert cli.main(["doctor", "--need", "hub"]) == cli.DOES_NOT_FIT
    assert cli.main(["doctor", "--need", "car"]) == cli.BAD_INPUT
    assert "The parts are: python, app" in capsys.readouterr().err


@pytest.mark.usefixtures("quiet_hub")
def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One object a part."""
    cli.main(["doctor", "--json"])
    told = json.loads(capsys.readouterr().out)

    assert [one["name"] for one in told["findings"]] == list(NAMES)


def test_a_check_that_breaks_becomes_a_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What nobody thought of does not hide the rest."""

    def broken() -> Finding:
        raise RuntimeError("the lamp fell")

    monkeypatch.setitem(checks._CHECKS, "gpu", broken)
    report = examine(("python", "gpu"))

    assert not report.works("gpu")
    assert "the lamp fell" in str(report)
    assert report.works("python")


def test_in_a_notebook_it_is_a_table() -> None:
    """With words, not symbols alone."""
    html = examine(("python",))._repr_html_()

    assert "<caption>What works on this machine</caption>" in html
    assert "works" in html
