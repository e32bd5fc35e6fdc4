"""CUDA graphs: the estimate that vLLM takes off the KV cache budget.

How many graphs are captured follows from vLLM's code. What one costs does not: it is
the kernels' launch parameters and a share of the graph pool, which only a GPU tells.
The two constants below stand for dense models on H100 as published start-ups of vLLM
0.18 and 0.19 logged them (0.5 to 0.9 GiB for 26 to 40 layers, 1.7 to 1.9 GiB for 80
layers, 102 graphs each); the range covers those logs.
"""

from __future__ import annotations

from planner.result import Basis, Line
from planner.units import KIB, MIB

_POOL_BYTES = 150 * MIB
_BYTES_PER_LAYER_AND_GRAPH = 190 * KIB
_LOW, _HIGH = 0.5, 1.6


def num_full_graphs(sizes: tuple[int, ...], max_num_seqs: int) -> int:
    """Return how many whole-model graphs are captured for decoding.

    Source: vLLM 0.33.0 `v1/worker/gpu/cudagraph_utils.py` (sizes up to max_num_seqs).
    """
    return sum(1 for size in sizes if size <= max_num_seqs)


def line(
    sizes: tuple[int, ...],
    *,
    max_num_seqs: int,
    num_layers: int,
    is_pooling: bool,
    is_charged: bool,
) -> Line:
    """Return the line of CUDA graphs on one rank.

    `is_charged` False: vLLM measures nothing (a fixed KV cache) or was told not to
    subtract it (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0).

    Source: vLLM 0.33.0 `v1/worker/gpu/cudagraph_utils.py` profile_cudagraph_memory.
    """
    if not sizes or not is_charged:
        why = (
            "no CUDA graphs (enforce_eager)"
            if not sizes
            else "not charged to the budget"
        )
        return _line(0, 0, 0, why)
    piecewise = len(sizes)
    full = 0 if is_pooling else num_full_graphs(sizes, max_num_seqs)
    graphs = piecewise + full
    size_bytes = _POOL_BYTES + _BYTES_PER_LAYER_AND_GRAPH * num_layers * graphs
    return _line(
        size_bytes,
        int(_LOW * size_bytes),
        int(_HIGH * size_bytes),
        f"{piecewise} piecewise + {full} full graphs x {num_layers} layers x "
        f"{_BYTES_PER_LAYER_AND_GRAPH // KIB} KiB + {_POOL_BYTES // MIB} MiB pool "
        "(bytes per graph from published start-ups, not from vLLM's code)",
    )


def _line(size_bytes: int, low_bytes: int, high_bytes: int, why: str) -> Line:
    return Line(
        name="CUDA graphs",
        size_bytes=size_bytes,
        low_bytes=low_bytes,
        high_bytes=high_bytes,
        basis=Basis.FORMULA,
        why=why,
    )
