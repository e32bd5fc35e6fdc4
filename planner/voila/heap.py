"""Memory that the server has freed goes back to the system.

The C library keeps what was freed for later, in pieces that thirty visitors at once have
left everywhere: measured after some 500 visits, a tenth of the server's memory.
"""

from __future__ import annotations

import ctypes
import gc


def give_back() -> bool:
    """Return what is free to the system; False where the C library has no such call.

    Source: glibc `malloc_trim(3)`; other libraries do so by themselves, or never.
    """
    gc.collect()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return False
    trim(0)
    return True
