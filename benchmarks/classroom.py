"""What a class needs: learners' kernels that run a lesson, all on this machine.

    python -m benchmarks.classroom                          thirty, into the kit
    python -m benchmarks.classroom --learners 2 --no-write  a rehearsal

Each learner has a kernel of their own and, as under JupyterHub, a server of their own.
A lesson is run twice: by everybody in the same moment (Run All), and cell by cell with
a pause for reading. All of it, this program too, has two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from benchmarks.app import figures, processes
from benchmarks.app.figures import MB
from tests.ui import servers

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "workshop" / "setting-up.md"
LESSONS = ROOT / "notebooks" / "workshop"
_CORES = 2
_CELL_SECONDS = 600


@dataclass(slots=True, kw_only=True)
class Round:
    """A lesson, run by everybody."""

    lesson: int
    pause_seconds: float
    """Mean time that a learner reads between two cells; 0 is Run All."""
    ready_seconds: float = 0.0
    """From the first kernel asked for to the last one that answers."""
    all_seconds: float = 0.0
    """From the first cell to the last learner's end."""
    cells: list[float] = field(default_factory=list)
    """Seconds from sending a cell to its result."""
    kernels: tuple[processes.Process, ...] = ()
    """As they are when every learner has run the last cell."""

    @property
    def row(self) -> str:
        """The row of the table."""
        sizes = [one.pss_bytes / MB for one in self.kernels]
        spent = [one.cpu_seconds for one in self.kernels]
        how = f"a cell every {self.pause_seconds:g} s" if self.pause_seconds else "all"
        told = (
            f"{self.lesson}, {how}",
            f"{self.ready_seconds:.1f} s",
            f"{self.all_seconds:.1f} s",
            f"{median(self.cells):.2f} s",
            f"{max(self.cells):.1f} s",
            f"{median(sizes):.0f} MB",
            f"{max(sizes):.0f} MB",
            f"{sum(sizes):.0f} MB",
            f"{median(spent):.1f} s",
        )
        return f"| {' | '.join(told)} |"


_HEAD = (
    "| Lesson | kernels ready | lesson run by all | cell, median | slowest cell "
    "| memory of a kernel | largest | of all | processor time of a kernel |"
)


def main() -> int:
    """Measure, print, and write unless told not to."""
    parser = argparse.ArgumentParser(prog="benchmarks.classroom", description=__doc__)
    parser.add_argument("--learners", type=int, default=30)
    parser.add_argument("--lessons", type=int, nargs="+", default=[1, 3, 6])
    parser.add_argument(
        "--pause", type=float, default=10, help="seconds between cells; 0: Run All only"
    )
    parser.add_argument("--no-servers", action="store_true", help="kernels alone")
    parser.add_argument("--no-write", action="store_true", help="print only")
    asked = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:_CORES]
    os.sched_setaffinity(0, cores)
    load = os.getloadavg()[0]
    text = [_machine(len(cores), load, asked.learners), "", _HEAD, _rule(_HEAD)]
    pauses = [0.0, asked.pause] if asked.pause else [0.0]
    for lesson in asked.lessons:
        for pause in pauses if lesson == asked.lessons[0] else pauses[:1]:
            print(f"Lesson {lesson}, pause {pause:g} s ...", file=sys.stderr)
            text.append(asyncio.run(_round(lesson, pause, asked.learners)).row)
    if not asked.no_servers:
        print("Servers ...", file=sys.stderr)
        text += ["", _servers(asked.learners)]
    told = "\n".join(text)
    print(told)
    if not asked.no_write:
        figures.write("classroom", told, page=PAGE)
    return 0


def _rule(head: str) -> str:
    return "| --- |" + " ---: |" * (head.count("|") - 2)


def _machine(cores: int, load: float, learners: int) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    named = figures.versions("ipykernel", "jupyterlab")
    return (
        f"{learners} learners on {cores} cores ({platform.machine()}) and "
        f"{memory / 2**30:.0f} GiB, load {load:.1f} before the start; {named}."
    )


async def _round(lesson: int, pause: float, learners: int) -> Round:
    """Let everybody run a lesson, and look at their kernels before they end."""
    found = Round(lesson=lesson, pause_seconds=pause)
    ready, done = asyncio.Barrier(learners + 1), asyncio.Barrier(learners + 1)
    left = asyncio.Event()
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        running = [
            asyncio.create_task(
                _learner(found, Path(folder) / str(number), number, ready, done, left)
            )
            for number in range(learners)
        ]
        await _all_of(ready, running)
        found.ready_seconds = time.monotonic() - begun
        begun = time.monotonic()
        await _all_of(done, running)
        found.all_seconds = time.monotonic() - begun
        found.kernels = processes.family(os.getpid()).kernels
        left.set()
        await asyncio.gather(*running)
    return found


async def _all_of(barrier: asyncio.Barrier, running: list[asyncio.Task[None]]) -> None:
    """Wait at the barrier; a learner who fails ends the wait with their error."""
    waiting = asyncio.create_task(_at(barrier))
    await asyncio.wait([waiting, *running], return_when=asyncio.FIRST_COMPLETED)
    for one in running:
        if one.done():
            waiting.cancel()
            await one
    await waiting


async def _at(barrier: asyncio.Barrier) -> None:
    await barrier.wait()


async def _learner(  # noqa: PLR0913 - where all meet
    found: Round,
    folder: Path,
    number: int,
    ready: asyncio.Barrier,
    done: asyncio.Barrier,
    left: asyncio.Event,
) -> None:
    """Be one learner: start a kernel, run the lesson, stay until all have been seen."""
    folder.mkdir()
    (path,) = LESSONS.glob(f"{found.lesson}_*.ipynb")
    notebook: Any = nbformat.read(path, as_version=4)
    # Kernels that start in one moment are given ports which others take before them;
    # sockets that are files in the learner's own folder cannot be taken.
    manager = AsyncKernelManager(
        kernel_name="python3", transport="ipc", ip=str(folder / "kernel")
    )
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=_CELL_SECONDS,
        startup_timeout=_CELL_SECONDS,
    )
    client.resources = {"metadata": {"path": str(folder)}}
    reading = random.Random(number)  # the same pauses every time
    async with client.async_setup_kernel(
        cleanup_kc=True,  # nbclient leaves a manager that it was given as it is
        env={**os.environ, "PLANNER_DATA_DIR": str(folder), "PYTHONPATH": str(ROOT)},
    ):
        await ready.wait()
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            if found.pause_seconds:
                await asyncio.sleep(reading.uniform(0, 2 * found.pause_seconds))
            sent = time.monotonic()
            await client.async_execute_cell(cell, index)
            found.cells.append(time.monotonic() - sent)
        await done.wait()
        await left.wait()


def _servers(learners: int) -> str:
    """Start a JupyterLab server for each learner, and say what all of them take."""
    with ExitStack() as open_ones:
        begun = time.monotonic()
        for _ in range(learners):
            folder = open_ones.enter_context(tempfile.TemporaryDirectory())
            open_ones.enter_context(servers.jupyterlab(Path(folder)))
        seconds = time.monotonic() - begun
        found = processes.family(os.getpid()).descendants
    sizes = [one.pss_bytes / MB for one in found if "LabApp" in one.command]
    return (
        f"A JupyterLab server for each learner, without kernels: {median(sizes):.0f} "
        f"MB each, {sum(sizes):.0f} MB all {len(sizes)}, started one after the other "
        f"in {seconds:.0f} s."
    )


if __name__ == "__main__":
    sys.exit(main())
