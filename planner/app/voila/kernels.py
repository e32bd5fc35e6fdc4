"""The app's kernels: how they start, their resource limits, and freed memory.

A kernel runs this Python, whichever kernels the machine has. In a published app its
resources are limited: work that exceeds a limit fails in that kernel and in no other.
The C library keeps freed memory, which becomes fragmented while many visitors come:
up to 10 of 135 MB, measured after some 500 visits.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from pathlib import Path
from typing import Any

import ipykernel
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager

from planner.app.voila import provisioner

_ARGUMENTS = (
    # Kernels write nothing: no history of inputs, no profile of the user.
    "--HistoryManager.enabled=False",
    "--InteractiveShell.cache_size=0",
)
MEMORY_BYTES = 512 << 20
"""Of data: a busy kernel allocates 160 MB, most of which it never touches."""
FILE_BYTES = 64 << 20
OPEN_FILES = 512
CPU_SECONDS = 3600
"""CPU time: enough for half a day of moving sliders; idle pages are closed earlier."""
_LIMITS = {
    resource.RLIMIT_DATA: MEMORY_BYTES,
    resource.RLIMIT_FSIZE: FILE_BYTES,
    resource.RLIMIT_NOFILE: OPEN_FILES,
    resource.RLIMIT_CPU: CPU_SECONDS,
    resource.RLIMIT_CORE: 0,
}

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8
_KEPT = {
    _M_ARENA_MAX: 1,
    _M_TRIM_THRESHOLD: 64 << 10,
    _M_TOP_PAD: 16 << 10,
    _M_MMAP_THRESHOLD: 64 << 10,
}
"""One heap for all threads; bytes of room at its end, and of texts apart from it."""


class OneKernelSpec(KernelSpecManager):
    """Offers one kernel, under every name."""

    def find_kernel_specs(self) -> dict[str, str]:
        """Return the kernel's name and folder."""
        return {"python3": str(Path(ipykernel.__file__).parent / "resources")}

    def get_kernel_spec(self, _kernel_name: str) -> Any:  # noqa: ANN401
        """Return the kernel's specification."""
        fork = {"kernel_provisioner": {"provisioner_name": provisioner.NAME}}
        return KernelSpec(
            argv=[
                sys.executable,
                "-P",
                "-m",
                "ipykernel_launcher",
                "-f",
                "{connection_file}",
                *_ARGUMENTS,
            ],
            display_name="Python 3",
            language="python",
            metadata=fork if provisioner.is_available() else {},
        )

    def get_all_specs(self) -> dict[str, dict[str, Any]]:
        """Return the specification by name, as Voila expects it."""
        spec = self.get_kernel_spec("python3").to_dict()
        return {name: {"spec": spec} for name in self.find_kernel_specs()}


def limit(pid: int = 0) -> None:
    """Limit a process, 0 for this one; limits that are already lower stay.

    Source: Linux `prlimit(2)`.
    """
    for kind, most in _LIMITS.items():
        hard = resource.prlimit(pid, kind)[1]
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.prlimit(pid, kind, (most, most))


def keep_little() -> None:
    """Let the C library return what is freed at once, where it can be told so.

    It otherwise learns from the states of all widgets, which a page asks for once, to
    keep room for texts as long: a megabyte in each kernel. The server, which compresses
    pages in threads, keeps a heap with holes for each of them.

    Source: glibc `mallopt(3)`, `malloc.h`.
    """
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    for setting, size in _KEPT.items():
        tell(setting, size)


def give_back() -> None:
    """Return freed memory to the system, where the C library has a call for it.

    Source: glibc `malloc_trim(3)`; other libraries do so by themselves, or never.
    """
    gc.collect()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return
    trim(0)
