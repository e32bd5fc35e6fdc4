"""Run a command so that nothing of it outlives the one who asked for it.

usage: supervisor.py LIMIT_SECONDS SCRATCH_FOLDER COMMAND [WORD...]

The supervisor leads a process group of its own, with the command and all that it starts
in it. It ends them all when the command ends, when the time is over, or when its
standard input says so: `quit` leaves some seconds to end in order, `stop` next to none,
and the end of input means that the asking process is gone. What leaves the group, as a
session of its own, still comes back to the supervisor as its child on Linux, and is
ended too; so are the shared memory that the processes made and the scratch folder.

The process that was started only stands before it: some programs, a worker of Ray among
them, kill their children on the way out. The supervisor then finds itself orphaned, and
ends what is below.
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
"""How long killed processes may take; a driver can hold them for seconds."""
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux: orphans below become children of this process."""
_SHARED_MEMORY = "/dev/shm/"
_PPID, _PGRP = 1, 2
"""Places in /proc/PID/stat after the name."""


def main(words: list[str]) -> int:
    """Run the command and return its exit status."""
    asking, shield = os.getppid(), os.getpid()
    _ignore_signals()
    supervisor = os.fork()
    if supervisor:
        return _stand_before(supervisor, asking)
    return _supervise(words, shield)


def _stand_before(supervisor: int, asking: int) -> int:
    """Wait for the supervisor, or for the asking process to be gone."""
    while os.getppid() == asking:
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
        preexec_fn=_heed_signals,
    )
    status, grace = _watch(child, shield, begin + limit_seconds)
    made = _shared_memory(begin)
    _end_all(grace, shield)
    for path in made:
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - as it stands in the maps
    shutil.rmtree(scratch, ignore_errors=True)
    return status


def _watch(
    child: subprocess.Popen[bytes], shield: int, deadline: float
) -> tuple[int, float]:
    """Wait for an end; return the exit status and the seconds to leave the others."""
    while True:
        status = child.poll()
        if status is not None:
            return status, STOP_GRACE_SECONDS
        if time.time() > deadline:
            return TIME_IS_OVER, STOP_GRACE_SECONDS
        if os.getppid() != shield:
            return STOPPED, STOP_GRACE_SECONDS
        if select.select([0], [], [], _STEP_SECONDS)[0]:
            is_in_order = os.read(0, 64) == b"quit"
            return STOPPED, QUIT_GRACE_SECONDS if is_in_order else STOP_GRACE_SECONDS


def _end_all(grace_seconds: float, shield: int) -> None:
    """Ask every process below to end, then make it, and wait until they are gone."""
    deadline = time.time() + grace_seconds
    _signal_all(signal.SIGTERM, shield)
    while not _is_over(shield) and time.time() < deadline:
        time.sleep(_STEP_SECONDS)
    deadline = time.time() + _KILL_SECONDS
    while not _is_over(shield) and time.time() < deadline:
        # A process may have been forked while the others were killed: look again.
        _signal_all(signal.SIGKILL, shield)
        time.sleep(_STEP_SECONDS)


def _is_over(shield: int) -> bool:
    """Collect the dead, and return whether nothing is left below.

    A process whose memory is still being freed counts: its first thread is a zombie
    already, but nobody can collect it until the others are gone.
    """
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return not _below() - {shield}
    return False


def _signal_all(number: int, shield: int) -> None:
    for pid in _below() - {shield}:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _below() -> set[int]:
    """Return all processes of the group or below this one, but for this one."""
    me, group = os.getpid(), os.getpgrp()
    table = _processes()
    if table is None:
        return _group_without_proc(group)
    below = {pid for pid, (_parent, pgrp) in table.items() if pgrp == group}
    grown = True
    while grown:
        more = {
            pid for pid, (parent, _) in table.items() if parent in below or parent == me
        }
        grown = not more <= below
        below |= more
    return below - {me}


def _processes() -> dict[int, tuple[int, int]] | None:
    """Return parent and group of each living process; None without /proc."""
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
    """Ask ps, where there is no /proc."""
    told = subprocess.run(
        ["ps", "-A", "-o", "pid=,pgid="],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    rows = [line.split() for line in told.splitlines()]
    return {int(pid) for pid, pgid in rows if int(pgid) == group} - {os.getpid()}


def _shared_memory(since: float) -> set[str]:
    """Return the shared memory that processes below have open, made since then.

    A process that is killed leaves it behind, and it counts as memory until a restart.
    """
    found: set[str] = set()
    for pid in _below():
        with contextlib.suppress(OSError):
            maps = Path("/proc", str(pid), "maps").read_text(
                encoding="utf-8", errors="replace"
            )
            found |= {
                line[line.index(_SHARED_MEMORY) :]
                for line in maps.splitlines()
                if _SHARED_MEMORY in line and not line.endswith("(deleted)")
            }
    return {path for path in found if _is_made_since(path, since)}


def _is_made_since(path: str, since: float) -> bool:
    try:
        told = os.stat(path)  # noqa: PTH116 - as it stands in the maps
    except OSError:
        return False
    return told.st_uid == os.getuid() and told.st_ctime >= since - 1


def _adopt_orphans() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _ignore_signals() -> None:
    """Leave the end to the standard input: a Ctrl+C reaches the asking process too."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _heed_signals() -> None:
    """Give the command back what the supervisor ignores."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
