"""A supervised command: its lines, and that nothing of it is left, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planner.confirming.beside_vllm.supervisor import TIME_IS_OVER
from planner.confirming.process import Process
from tests.starts import PATIENCE, is_alive, wait_until

# Starts a child of its own group and one that leaves it for a session of its own, as
# vLLM's compiler does, and says their numbers.
FAMILY = """
import subprocess, sys, time
code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
sleep = [sys.executable, "-c", code]
near = subprocess.Popen(sleep)
far = subprocess.Popen(sleep, start_new_session=True)
print(near.pid, far.pid, flush=True)
time.sleep(600)
"""


class Started:
    """A process under test, with the lines it wrote."""

    def __init__(self, tmp_path: Path, code: str, limit_seconds: float = 60.0) -> None:
        self.lines: list[str] = []
        self.scratch = tmp_path / "scratch"
        self.scratch.mkdir(exist_ok=True)
        self.process = Process(
            [sys.executable, "-c", code],
            environment=os.environ,
            limit_seconds=limit_seconds,
            scratch=self.scratch,
            on_line=self.lines.append,
        )

    def family(self) -> list[int]:
        """Wait for the numbers of the children; who stands before them comes first."""
        wait_until(lambda: bool(self.lines))
        return [self.process.group, *map(int, self.lines[0].split())]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Start commands, and end them whatever the test does."""
    started: list[Started] = []

    def begin(code: str, **options: float) -> Started:
        started.append(Started(tmp_path, textwrap.dedent(code), **options))
        return started[-1]

    yield begin
    for one in started:
        one.process.stop()


def test_lines_come_one_by_one_and_the_status_at_the_end(start) -> None:
    """A progress bar's carriage returns end lines too; empty ones are left out."""
    one = start(
        r"""
        import sys
        sys.stdout.write("first\n\n10%\r20%\rlast without an end")
        sys.stderr.write("")
        sys.exit(3)
        """
    )

    assert one.process.wait(PATIENCE) == 3
    one.process.stop()
    assert one.lines == ["first", "10%", "20%", "last without an end"]


def test_stop_ends_children_even_those_that_left_the_group(start) -> None:
    """Both ignore SIGTERM, as a process that hangs in a driver may."""
    one = start(FAMILY)
    family = one.family()

    one.process.stop()

    assert [is_alive(pid) for pid in family] == [False, False, False]
    with pytest.raises(ProcessLookupError):
        os.killpg(one.process.group, 0)


def test_the_end_of_the_command_ends_what_it_left_behind(start) -> None:
    """A main process that crashes does not leave its workers alone."""
    one = start(FAMILY.removesuffix("time.sleep(600)\n") + "sys.exit(9)")
    family = one.family()

    assert one.process.wait(PATIENCE) == 9
    wait_until(lambda: not any(map(is_alive, family)))


def test_the_time_limit_ends_everything(start) -> None:
    """With a status of its own, which tells it from a crash."""
    lines: list[str] = []
    seconds = 0.5
    while not lines:  # on a busy machine its time is over before it has children
        seconds *= 2
        one = start(FAMILY, limit_seconds=seconds)
        assert one.process.wait(PATIENCE) == TIME_IS_OVER
        one.process.stop()
        lines = one.lines

    family = [*map(int, lines[0].split())]
    wait_until(lambda: not any(map(is_alive, family)))


def test_who_kills_its_children_leaves_nothing_behind(start) -> None:
    """A worker of Ray does so on its way out: the supervisor is a child of a child."""
    one = start(FAMILY)
    family = one.family()
    os.kill(one.process.group, signal.SIGKILL)

    wait_until(lambda: not any(map(is_alive, family)))
    wait_until(lambda: not one.scratch.exists())


def test_a_supervisor_that_is_killed_is_made_up_for(start) -> None:
    """What is in the group is ended by the one who asked."""
    one = start(FAMILY)
    group, near, far = one.family()
    children = Path(f"/proc/{group}/task/{group}/children")
    (supervisor,) = map(int, children.read_text().split())
    os.kill(supervisor, signal.SIGKILL)

    one.process.stop()

    wait_until(lambda: not is_alive(near))
    os.kill(far, signal.SIGKILL)  # out of reach without its supervisor


def test_a_killed_kernel_leaves_nothing(tmp_path) -> None:
    """Not even when it had no chance to say anything: SIGKILL."""
    (tmp_path / "scratch").mkdir()
    kernel = subprocess.Popen(
        [sys.executable, "-c", KERNEL, str(tmp_path / "scratch"), FAMILY],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert kernel.stdout is not None
    family = [int(word) for word in kernel.stdout.readline().split()]
    assert all(map(is_alive, family))

    kernel.kill()
    kernel.wait()
    kernel.stdout.close()

    wait_until(lambda: not any(map(is_alive, family)))
    wait_until(lambda: not (tmp_path / "scratch").exists())


KERNEL = """
import os, sys, time
from pathlib import Path
from planner.confirming.process import Process
from tests.starts import is_alive, wait_until
def show(line):
    while "process" not in globals():  # the first line may come before it is named
        time.sleep(0.01)
    print(process.group, line, flush=True)
process = Process([sys.executable, "-c", sys.argv[2]], environment=os.environ,
                  limit_seconds=60, scratch=Path(sys.argv[1]), on_line=show)
time.sleep(600)
"""


def test_shared_memory_and_scratch_files_go_too(start) -> None:
    """A killed process cannot unlink what it made; both would fill the memory."""
    one = start(
        """
        import mmap, os, time
        name = f"/dev/shm/planner-test-{os.getpid()}"
        file = os.open(name, os.O_CREAT | os.O_RDWR)
        os.ftruncate(file, 4096)
        held = mmap.mmap(file, 4096)
        print(name, flush=True)
        time.sleep(600)
        """
    )
    wait_until(lambda: bool(one.lines))
    shared = Path(one.lines[0])
    assert shared.exists()

    one.process.stop()

    assert not shared.exists()
    assert not one.scratch.exists()


def test_stopping_twice_or_after_the_end_is_no_error(start) -> None:
    """A button may be pressed again."""
    one = start("print('done')")
    one.process.wait(PATIENCE)

    one.process.ask_to_stop()
    one.process.stop()
    one.process.stop()

    assert one.process.status == 0
    assert one.lines == ["done"]


def test_a_reader_that_fails_does_not_hold_the_command_up(tmp_path) -> None:
    """A full pipe would stop it for ever; what was raised is kept."""

    def fail(line: str) -> None:
        raise LookupError(line)

    (tmp_path / "scratch").mkdir()
    process = Process(
        [sys.executable, "-c", "print('x' * 100, flush=True); print('y\\n' * 100_000)"],
        environment=os.environ,
        limit_seconds=60,
        scratch=tmp_path / "scratch",
        on_line=fail,
    )

    assert process.wait(PATIENCE) == 0
    process.stop()
    assert isinstance(process.failure, LookupError)
    assert process.failure.args == ("x" * 100,)
