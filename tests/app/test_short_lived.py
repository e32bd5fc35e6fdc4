"""The server's folder in memory: what a killed server left is removed by the next."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fcntl")
short_lived = pytest.importorskip("planner.app.voila.short_lived")

HOLDER = """
import sys
from pathlib import Path
from planner.app.voila import short_lived
short_lived._SHARED_MEMORY = Path(sys.argv[1])
print(short_lived.made(), flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a folder there, until it is ended."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_what_a_killed_server_left_is_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running server's folder stays, and so do others of a like name."""
    monkeypatch.setattr(short_lived, "_SHARED_MEMORY", tmp_path)
    unlocked = tmp_path / "planner-app-other"
    unlocked.mkdir()
    with holder(tmp_path) as (_running, kept), holder(tmp_path) as (killed, left):
        (left / "kernel.json").write_text("{}")
        killed.kill()
        killed.wait()
        assert left.is_dir()
        own = short_lived.made()

        assert not left.exists()
        assert {own, kept, unlocked} == set(tmp_path.iterdir())
        assert own.stat().st_mode & 0o777 == 0o700
        assert own.stat().st_uid == os.getuid()


def test_without_memory_for_files_it_lies_where_temporary_files_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS."""
    monkeypatch.setattr(short_lived, "_SHARED_MEMORY", tmp_path / "none")
    monkeypatch.setattr(short_lived, "gettempdir", lambda: str(tmp_path))

    assert short_lived.made().parent == tmp_path
