"""The environment of a release is made once, and what prevents it is said."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from planner.confirming import installation
from planner.confirming.installation import Installation
from tools.release import installing

FOUND = Installation(
    python="python", version="0.99.0", package="vllm", is_cpu_build=False
)


class Commands:
    """Stands in for programs: keeps what was started, and answers with a status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.started: list[str] = []

    def run(
        self, words: list[object], *, check: bool
    ) -> subprocess.CompletedProcess[str]:
        """Keep the last word but one of a command: what it does."""
        self.started.append(str(words[-2]))
        folder = Path(str(words[-1]))
        if "--clear" in words:
            folder.mkdir(parents=True)
        status = 0 if check else self.status
        return subprocess.CompletedProcess([*map(str, words)], status)


def made(commands: Commands, monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """Ask for the Python of a release, with its environments in a folder."""
    monkeypatch.setenv("PLANNER_CACHE_DIR", str(folder))
    monkeypatch.setattr("subprocess.run", commands.run)
    monkeypatch.setattr(installation, "find", lambda _python: FOUND)
    return installing.python_of("0.99.0")


def test_an_environment_is_made_once(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its place is said before minutes in which nothing else is."""
    commands = Commands(status=0)
    python = made(commands, monkeypatch, tmp_path)
    assert str(tmp_path / "releases" / "0.99.0" / "bin" / "python") == python
    assert f"into {tmp_path / 'releases' / '0.99.0'}: 10 GB" in capsys.readouterr().out
    assert 2 == len(commands.started)
    assert python == made(commands, monkeypatch, tmp_path)
    assert 2 == len(commands.started)


def test_what_pip_cannot_install_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No traceback under pip's own words; the next run begins anew."""
    with pytest.raises(SystemExit, match=r"vLLM 0\.99\.0 is not installed: pip says"):
        made(Commands(status=1), monkeypatch, tmp_path)
    assert not (tmp_path / "releases" / "0.99.0" / "installed").exists()


def test_another_release_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that was given is looked at."""
    monkeypatch.setattr(installation, "find", lambda _python: FOUND)
    with pytest.raises(SystemExit, match=r"python has vLLM 0\.99\.0, not 0\.98\.0"):
        installing.python_of("0.98.0", "python")
