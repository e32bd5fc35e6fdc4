"""Run a command so that none of its processes outlives the caller.

usage: supervisor.py LIMIT_SECONDS SCRATCH_FOLDER COMMAND [WORD...]

The supervisor leads a process group with the command and everything the command starts.
It ends the group when the command exits, when the time limit is reached, or on standard
input: `quit` leaves some seconds for an orderly exit, `stop` almost none, and the end
of input means that the caller is gone. On Linux the supervisor also adopts and ends
processes that left the group for a session of their own. Then it removes the shared
memory that the processes created, and the scratch folder.

The process that the caller starts is only a shield in front of the supervisor: some
programs, such as a worker of Ray, kill their children when they exit. The supervisor
then sees that its parent is gone, and ends its descendants.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

STOP_GRACE_SECONDS = 0.1
QUIT_GRACE_SECONDS = 6.0
TIME_IS_OVER = 124
"""Exit status when the time limit ended the command, as that of timeout(1)."""
STOPPED = 143

_STEP_SECONDS = 0.05
_KILL_SECONDS = 20.0
"""How long killed processes may take to exit; a driver can delay it by seconds."""
_SUBREAPER = 36
"""Linux's PR_SET_CHILD_SUBREAPER: this process adopts orphaned descendants."""
_SHARED_MEMORY = "/dev/shm/"
_PPID, _PGRP = 1, 2
"""Fields of /proc/PID/stat, counted after the name."""


def main(words: list[str]) -> int:
    """Run the command and return its exit status."""
    caller, shield = os.getppid(), os.getpid()
    _ignore_signals()
    supervisor = os.fork()
    if supervisor:
        return _wait_for(supervisor, caller)
    return _supervise(words, shield)


def _wait_for(supervisor: int, caller: int) -> int:
    """Wait until the supervisor exits or the caller is gone."""
    while os.getppid() == caller:
        pid, status = os.waitpid(supervisor, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_STEP_SECONDS)
    return STOPPED


def _supervise(words: list[str], shield: int) -> int:
    limit_seconds, scratch, command = float(words[0]), words[1], words[2:]
    _adopt_orphans()
    begin = time.time()
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        preexec_fn=_restore_signals,
    )
    # A clock that is set, or a machine that sleeps, ends no run.
    status, grace = _watch(child, shield, time.monotonic() + limit_seconds)
    created = _shared_memory(begin)
    _end_all(grace, shield)
    for path in created:
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - as written in the maps
    shutil.rmtree(scratch, ignore_errors=True)
    return status


def _watch(
    child: subprocess.Popen[bytes], shield: int, deadline: float
) -> tuple[int, float]:
    """Wait for the end; return the exit status and the grace period of the others."""
    while True:
        status = child.poll()
        if status is not None:
            return status, STOP_GRACE_SECONDS
        if time.monotonic() > deadline:
            return TIME_IS_OVER, STOP_GRACE_SECONDS
        if os.getppid() != shield:
            return STOPPED, STOP_GRACE_SECONDS
        if select.select([0], [], [], _STEP_SECONDS)[0]:
            is_orderly = os.read(0, 64) == b"quit"
            return STOPPED, QUIT_GRACE_SECONDS if is_orderly else STOP_GRACE_SECONDS


def _end_all(grace_seconds: float, shield: int) -> None:
    """Terminate all descendants, kill those that remain, wait until they are gone."""
    deadline = time.monotonic() + grace_seconds
    _signal_all(signal.SIGTERM, shield)
    while not _is_over(shield) and time.monotonic() < deadline:
        time.sleep(_STEP_SECONDS)
    deadline = time.monotonic() + _KILL_SECONDS
    while not _is_over(shield) and time.monotonic() < deadline:
        # A process may have been forked while the others were killed: repeat.
        _signal_all(signal.SIGKILL, shield)
        time.sleep(_STEP_SECONDS)


def _is_over(shield: int) -> bool:
    """Reap exited children, and return whether no descendant is left.

    A process whose memory is still being freed counts as left: its first thread is
    already a zombie, but it cannot be reaped until its other threads are gone.
    """
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return not _descendants() - {shield}
    return False


def _signal_all(number: int, shield: int) -> None:
    for pid in _descendants() - {shield}:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _descendants() -> set[int]:
    """Return all processes of the group and all descendants, without this process."""
    me, group = os.getpid(), os.getpgrp()
    table = _processes()
    if table is None:
        return _group_without_proc(group)
    found = {pid for pid, (_parent, pgrp) in table.items() if pgrp == group}
    grown = True
    while grown:
        more = {
            pid for pid, (parent, _) in table.items() if parent in found or parent == me
        }
        grown = not more <= found
        found |= more
    return found - {me}


def _processes() -> dict[int, tuple[int, int]] | None:
    """Return parent and group of each running process; None without /proc."""
    table: dict[int, tuple[int, int]] = {}
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - no Path objects for thousands
    except OSError:
        return None
    for name in names:
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            stat = Path("/proc", name, "stat").read_text(
                encoding="ascii", errors="replace"
            )
            fields = stat.rpartition(")")[2].split()
            if fields[0] not in ("Z", "X"):
                table[int(name)] = int(fields[_PPID]), int(fields[_PGRP])
    return table or None


def _group_without_proc(group: int) -> set[int]:
    """Return the processes of a group from ps, where there is no /proc."""
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,pgid="],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    rows = [line.split() for line in listing.splitlines()]
    return {int(pid) for pid, pgid in rows if int(pgid) == group} - {os.getpid()}


def _shared_memory(since: float) -> set[str]:
    """Return the shared memory of descendants that was created since then.

    A killed process leaves it behind, and it takes up memory until a reboot.
    """
    found: set[str] = set()
    for pid in _descendants():
        with contextlib.suppress(OSError):
            maps = Path("/proc", str(pid), "maps").read_text(
                encoding="utf-8", errors="replace"
            )
            found |= {
                line[line.index(_SHARED_MEMORY) :]
                for line in maps.splitlines()
                if _SHARED_MEMORY in line and not line.endswith("(deleted)")
            }
    return {path for path in found if _is_created_since(path, since)}


def _is_created_since(path: str, since: float) -> bool:
    try:
        status = os.stat(path)  # noqa: PTH116 - as written in the maps
    except OSError:
        return False
    return status.st_uid == os.getuid() and status.st_ctime >= since - 1


def _adopt_orphans() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _ignore_signals() -> None:
    """Ignore signals: Ctrl+C also reaches the caller, which then closes the input."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _restore_signals() -> None:
    """Restore for the command the signals that the supervisor ignores."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
