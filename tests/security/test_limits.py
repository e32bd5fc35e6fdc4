"""What one visitor's kernel may take of the machine."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from planner.app.voila import kernels

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux"),
]


def children(pid: int) -> list[int]:
    """The processes that a process started, and those that they did."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for word in (task / "children").read_text().split():
            found += [int(word), *children(int(word))]
    return found


def limit(pid: int, name: str) -> str:
    """The soft limit of a process."""
    text = Path(f"/proc/{pid}/limits").read_text()
    found = re.search(rf"^{name}\s+(\S+)", text, re.M)
    assert found is not None
    return found[1]


def test_every_kernel_is_bounded(app, visitor) -> None:
    """Memory, files, open files, processor time; the server itself is not."""
    expected = {
        "Max data size": str(kernels.MEMORY_BYTES),
        "Max file size": str(kernels.FILE_BYTES),
        "Max open files": str(kernels.OPEN_FILES),
        "Max cpu time": str(kernels.CPU_SECONDS),
        "Max core file size": "0",
    }
    bounded = [
        pid
        for pid in children(app.process.pid)
        if {name: limit(pid, name) for name in expected} == expected
    ]

    assert visitor.kernel_id
    assert bounded
    assert limit(app.process.pid, "Max data size") == "unlimited"


def test_what_is_bounded_tighter_stays_so() -> None:
    """A limit of the publisher's own is not loosened."""
    tighter = 1 << 20
    with subprocess.Popen(["sleep", "60"]) as other:
        resource.prlimit(other.pid, resource.RLIMIT_DATA, (tighter, tighter))
        kernels.limit(other.pid)
        kept = resource.prlimit(other.pid, resource.RLIMIT_DATA)
        core = resource.prlimit(other.pid, resource.RLIMIT_CORE)
        other.kill()

    assert kept == (tighter, tighter)
    assert core == (0, 0)
