"""Non-torch memory: kernel modules, JIT code and all-reduce buffers, an assumption.

What is created before vLLM's first snapshot (CUDA context, NCCL) lies outside the
budget and is not in this line. What comes after it is not derivable from vLLM's code.
Published start-ups of vLLM 0.19 on H100 logged 0.24 to 0.46 GiB on one GPU and 2.1 to
2.2 GiB with tensor parallel (all-reduce buffers); of 0.11, 0.13 and 0.55 GiB.
"""

from __future__ import annotations

from planner.gpu import GPU
from planner.parallel import ParallelLayout
from planner.result import Basis, Line
from planner.units import MIB, format_size

_MODULES = (128 * MIB, 256 * MIB, 512 * MIB)
_ALL_REDUCE = (300 * MIB, 1850 * MIB, 2000 * MIB)
_ALL_REDUCE_PLAIN = (0, 64 * MIB, 400 * MIB)


def line(layout: ParallelLayout, gpu: GPU, slack_bytes: int) -> Line:
    """Return the line of memory that PyTorch does not know of.

    `slack_bytes` is what the allocator rounds the weights up by.
    """
    low, middle, high = _MODULES
    why = f"kernel modules {format_size(middle)}"
    if layout.tensor_parallel_size > 1:
        # FlashInfer's fused all-reduce is on by default on these generations only.
        fused = gpu.compute_capability[0] in (9, 10)
        extra = _ALL_REDUCE if fused else _ALL_REDUCE_PLAIN
        low, middle, high = (
            a + b for a, b in zip((low, middle, high), extra, strict=True)
        )
        why += f" + all-reduce buffers {format_size(extra[1])}"
    return Line(
        name="non-torch",
        size_bytes=middle + slack_bytes,
        low_bytes=low + slack_bytes,
        high_bytes=high + slack_bytes,
        basis=Basis.ASSUMED,
        why=f"{why} + allocator rounding {format_size(slack_bytes)}",
    )
