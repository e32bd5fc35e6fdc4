"""What a sleeping engine keeps of itself in CPU memory.

At level 1 the weights are copied to pinned memory and the KV cache is dropped; at level
2 the weights are dropped as well and only buffers stay. Awake, nothing is kept.

Source: vLLM 0.33.0 `v1/worker/gpu_worker.py` Worker.sleep,
`device_allocator/cumem.py` CuMemAllocator.sleep; 0.9.2 the same.
"""

from __future__ import annotations

from planner.memory.host import HostLine
from planner.result import Basis
from planner.units import format_size


def asleep(weights_bytes: int) -> HostLine:
    """Return the copy of a worker's weights while it sleeps at level 1."""
    return HostLine(
        name="weights while asleep",
        size_bytes=weights_bytes,
        basis=Basis.FORMULA,
        why=f"sleep level 1 copies {format_size(weights_bytes)} of weights, and takes "
        "up to twice as much where PyTorch pins in powers of two; level 2 and an "
        "engine that is awake keep nothing",
    )
