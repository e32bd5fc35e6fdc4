"""How long a sweep of 10,000 plans of one model takes on one core, against its limit.

    make bench-sweep

Every cell has another context length or another number of sequences, so no plan can be
a remembered one. Processor time is counted, which other work on the machine does not
change. The exit status is 1 when a sweep is over the limit.
"""

from __future__ import annotations

import os
import sys
import time
import tracemalloc

import planner

LIMIT_SECONDS = 5.0
LENGTHS = range(4096, 4096 + 100 * 64, 64)
SEQUENCES = range(1, 101)
MODELS = (
    ("8B dense", "Qwen/Qwen3-8B", 1),
    ("70B dense, 80 layers", "meta-llama/Llama-3.1-70B-Instruct", 4),
    ("671B experts, MLA", "deepseek-ai/DeepSeek-V3", 8),
    ("80B hybrid", "Qwen/Qwen3-Next-80B-A3B-Instruct", 4),
)
"""What it is, the model, and its tensor parallel size."""


def sweep_seconds(model: str, tensor_parallel_size: int) -> tuple[float, planner.Grid]:
    """Sweep a model over two arguments; return the processor time and the grid."""
    start = time.process_time()
    grid = planner.sweep(
        model,
        gpu="H200",
        over={"max_model_len": LENGTHS, "max_num_seqs": SEQUENCES},
        tensor_parallel_size=tensor_parallel_size,
    )
    return time.process_time() - start, grid


def cell_bytes(model: str) -> float:
    """Return the memory that a cell of a grid keeps."""
    tracemalloc.start()
    grid = planner.sweep(model, gpu="H200", over={"max_model_len": range(4096, 6096)})
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept / len(grid.cells)


def main() -> int:
    """Measure, print, and say with the exit status whether the limit is kept."""
    os.environ["PLANNER_CALIBRATION"] = "off"  # plans as where nothing was measured
    is_kept = True
    for name, model, ranks in MODELS:
        planner.sweep(model, gpu="H200", over={"max_num_seqs": [8]})  # reads the model
        seconds, grid = sweep_seconds(model, ranks)
        fits = sum(cell.fits for cell in grid.cells)
        is_kept = is_kept and seconds < LIMIT_SECONDS
        outcome = "ok" if seconds < LIMIT_SECONDS else "OVER"
        print(
            f"{name:<22} {len(grid.cells):,} plans, {fits:,} fit: {seconds:5.2f} s"
            f"   limit {LIMIT_SECONDS:g} s   {outcome}"
        )
    print(f"memory of a cell: {cell_bytes(MODELS[0][1]):,.0f} bytes")
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
