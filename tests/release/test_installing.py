"""The environment of a release is made once, and what prevents it is said."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from planner.confirming import installation
from planner.confirming.installation import Installation
from tools import vllm_wheel
from tools.release import installing

FOUND = Installation(
    python="python", version="0.99.0", package="vllm", is_cpu_build=False
)

METADATA = """Name: vllm
Requires-Dist: torch==2.14.0
Requires-Dist: certifi>=2026.10.19
Requires-Dist: regex
Requires-Dist: boto3; extra == "s3"
"""


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


def test_the_wheel_is_installed_as_it_asks_and_not_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyTorch as it is named, certifi of any day, extras left out.

    Compiling 10 GB of modules, few of which are imported, takes a minute of a core.
    """
    asked: list[tuple[str, ...]] = []
    wanted: list[str] = []

    def pip(*words: str) -> None:
        asked.append(words)
        if words[0] == "download":
            with zipfile.ZipFile(Path(words[3]) / "vllm-0.99.0-any.whl", "w") as wheel:
                wheel.writestr("vllm-0.99.0.dist-info/METADATA", METADATA)
        if "--requirement" in words:
            wanted.extend(Path(words[-1]).read_text(encoding="utf-8").splitlines())

    monkeypatch.setattr(vllm_wheel, "_pip", pip)
    vllm_wheel.main("0.99.0")
    assert ["torch===2.14.0", "certifi", "regex"] == wanted
    first, *others = asked
    assert "vllm==0.99.0" == first[-1]
    assert 2 == len(others)
    assert all("--no-compile" in words for words in others)


def test_the_sources_of_the_release_before_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only its modules and what it requires; downloaded once."""
    asked = []

    def download(words: list[str], *, check: bool) -> subprocess.CompletedProcess[str]:
        asked.append(words[-1])
        folder = Path(words[words.index("--dest") + 1])
        with zipfile.ZipFile(folder / "vllm-0.98.0-x.whl", "w") as archive:
            for name in ("vllm/a.py", "vllm/_C.so", "vllm-0.98.0.dist-info/METADATA"):
                archive.writestr(name, "text")
        return subprocess.CompletedProcess(words, int(check))

    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("subprocess.run", download)
    for _again in range(2):
        folder = installing.sources_of("0.98.0")
        assert (folder / "vllm-0.98.0.dist-info" / "METADATA").is_file()
    assert ["vllm==0.98.0"] == asked
    assert not (folder / "vllm" / "_C.so").exists()
    assert (folder / "vllm" / "a.py").is_file()
    assert tmp_path == installing.sources_of("0.98.0", tmp_path)
