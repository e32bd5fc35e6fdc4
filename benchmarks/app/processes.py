"""Memory, processor time, files and children of a server, from Linux's /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_KERNEL_WORDS = ("ipykernel_launcher", "planner.app.voila.fork_server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process at one moment."""

    pid: int
    parent: int
    command: str
    pss_bytes: int
    """Proportional set size: pages that n processes share count one nth in each."""
    cpu_seconds: float
    """User and system time since it started."""
    num_files: int
    """Open file descriptors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A server and every process that came from it."""

    server: Process
    descendants: tuple[Process, ...]

    @property
    def kernels(self) -> tuple[Process, ...]:
        """The processes in which kernels run.

        A process that starts kernels by forking is their parent, and no kernel.
        """
        parents = {process.parent for process in self.descendants}
        return tuple(
            process
            for process in self.descendants
            if any(word in process.command for word in _KERNEL_WORDS)
            and not self._is_fork_server(process, parents)
        )

    @property
    def others_pss_bytes(self) -> int:
        """Memory of all that is no kernel: the server, and what starts kernels."""
        return self.pss_bytes - sum(kernel.pss_bytes for kernel in self.kernels)

    @property
    def pss_bytes(self) -> int:
        """Memory of all of them."""
        return sum(process.pss_bytes for process in self._all)

    @property
    def cpu_seconds(self) -> float:
        """Processor time of all that live."""
        return sum(process.cpu_seconds for process in self._all)

    @property
    def _all(self) -> tuple[Process, ...]:
        return (self.server, *self.descendants)

    def _is_fork_server(self, process: Process, parents: set[int]) -> bool:
        is_forking = "fork_server" in process.command
        return is_forking and (
            process.pid in parents or process.parent == self.server.pid
        )


def family(pid: int) -> Family:
    """Return a process with its descendants.

    Raises:
        ProcessLookupError: when there is no such process.
    """
    found = {process.pid: process for process in map(_read, _pids()) if process}
    if pid not in found:
        raise ProcessLookupError(pid)
    wanted, grown = {pid}, True
    while grown:
        more = {one.pid for one in found.values() if one.parent in wanted} - wanted
        wanted |= more
        grown = bool(more)
    return Family(
        server=found[pid],
        descendants=tuple(found[one] for one in sorted(wanted - {pid})),
    )


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that ended may still have its number."""
    return _read(pid) is not None


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _read(pid: int) -> Process | None:
    """Read a process; None where it ended meanwhile, or is another user's."""
    folder = _PROC / str(pid)
    try:
        # The name in brackets may hold anything: what counts comes after it.
        stat = (folder / "stat").read_text().rpartition(")")[2].split()
        if stat[0] in "ZX":  # ended, and its parent has not asked how
            return None
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return Process(
            pid=pid,
            parent=int(stat[1]),
            command=command.strip(),
            pss_bytes=_pss_bytes(folder / "smaps_rollup"),
            cpu_seconds=(int(stat[11]) + int(stat[12])) / _TICKS_PER_SECOND,
            num_files=len(list((folder / "fd").iterdir())),
        )
    except (OSError, ValueError):
        return None


def _pss_bytes(rollup: Path) -> int:
    for line in rollup.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "Pss":
            return int(rest.split()[0]) * 1024
    return 0
