"""What vLLM's processes take of CPU memory before anything is kept for a model.

Assumed: a worker's libraries for CUDA and its pinned staging differ by machine. Of the
CPU build, where a start tells, a worker takes 0.6 GiB.
"""

from __future__ import annotations

from planner.memory.host import HostLine, Per
from planner.result import Basis
from planner.units import GIB

_WORKER_BYTES = 3 * GIB
_ENGINE_BYTES = GIB
_SERVER_BYTES = GIB


def worker_process() -> HostLine:
    """Return the process of one GPU."""
    return HostLine(
        name="worker processes",
        size_bytes=_WORKER_BYTES,
        basis=Basis.ASSUMED,
        why="Python, PyTorch with CUDA's libraries, and vLLM",
        is_usual=True,
    )


def engine_core() -> HostLine:
    """Return the process that schedules for the workers of an engine."""
    return HostLine(
        name="engine processes",
        size_bytes=_ENGINE_BYTES,
        basis=Basis.ASSUMED,
        why="Python, PyTorch and vLLM's scheduler",
        per=Per.ENGINE,
        is_usual=True,
    )


def api_server() -> HostLine:
    """Return the process that takes requests; on the first machine alone, in truth."""
    return HostLine(
        name="API server",
        size_bytes=_SERVER_BYTES,
        basis=Basis.ASSUMED,
        why="Python, the tokenizer and vLLM's server",
        per=Per.NODE,
        is_usual=True,
    )


def gpu_budget(requested_bytes: int) -> HostLine:
    """Return what the GPU takes of memory that it shares with the processor.

    Assumed, so that it refuses nothing: PyTorch takes it piece by piece, and a page
    cache that is in the way gives room.
    """
    return HostLine(
        name="GPU memory",
        size_bytes=requested_bytes,
        basis=Basis.ASSUMED,
        why="GPU and processor share this memory: what gpu_memory_utilization asks for "
        "leaves only the rest for everything else here, and what is moved to CPU "
        "memory stays in it",
        is_usual=True,
    )
