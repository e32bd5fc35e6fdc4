"""What the kernel of one visitor may take of the machine, in a published app.

What takes more ends that kernel's work, and no other's.
"""

from __future__ import annotations

import resource

MEMORY_BYTES = 512 << 20
"""Of data: a kernel has 160 MB of it at work, most of which it never touches."""
FILE_BYTES = 64 << 20
OPEN_FILES = 512
CPU_SECONDS = 3600
"""A page is closed after an hour without a use; half a day of moving sliders fits."""

_LIMITS = {
    resource.RLIMIT_DATA: MEMORY_BYTES,
    resource.RLIMIT_FSIZE: FILE_BYTES,
    resource.RLIMIT_NOFILE: OPEN_FILES,
    resource.RLIMIT_CPU: CPU_SECONDS,
    resource.RLIMIT_CORE: 0,
}


def limit() -> None:
    """Bound this process; what is bounded tighter already stays so."""
    for kind, most in _LIMITS.items():
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(kind, (most, most))
