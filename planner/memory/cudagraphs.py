"""CUDA graphs: the estimate that vLLM takes off the KV cache, and what they take.

How many graphs are captured follows from vLLM's code. What one costs does not: it is
the kernels' launch parameters and a share of the graph pool, which only a GPU tells.
A pool by GPU generation and a constant per graph and layer are fitted to published
starts. Releases differ in whether the estimate is made, and whether it is charged.
"""

from __future__ import annotations

from bisect import bisect_right

from planner.compilation import GraphMode
from planner.memory.calibration import GraphFit, graphs
from planner.memory.profile_run import ProfileRun
from planner.parallel import HOPPER
from planner.result import Basis, Line
from planner.units import KIB, MIB, format_size

# The second runner extrapolates from its second sample. PyTorch takes memory for it in
# segments, of which the sample sees a whole one or none.
_SAMPLE_LOW, _SAMPLE_MIDDLE, _SAMPLE_HIGH = 1 * MIB, 20 * MIB, 22 * MIB
# With adapters the first runner's second sample is the largest batch again, without
# them: what that takes for the first time is counted for every graph. The one published
# start with adapters and graphs logged 4.79 GiB for 172 of them.
_ADAPTERS_HIGH = 29 * MIB
_WITH_ADAPTERS = (
    "; with adapters vLLM counts what the largest batch takes without them for every "
    "graph: up to 29 MiB each were logged"
)


def num_full_graphs(
    sizes: tuple[int, ...], max_num_seqs: int, query_len: int = 1
) -> int:
    """Return how many whole-model graphs are captured for decoding; `sizes` ascend.

    Sizes become whole requests of `query_len` tokens, each once.

    Source: vLLM 0.33.0 `v1/worker/gpu/cudagraph_utils.py` _init_candidates.
    """
    if query_len == 1:
        return bisect_right(sizes, max_num_seqs)
    largest = min(sizes[-1], max_num_seqs * query_len)
    rounded = {-(-size // query_len) for size in sizes}
    return sum(requests * query_len <= largest for requests in rounded)


def line(run: ProfileRun, *, is_charged: bool) -> Line:
    """Return the line of CUDA graphs on one rank.

    `is_charged` False: vLLM measures nothing (a fixed KV cache) or does not subtract it
    (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0, the default up to 0.19).

    Source: vLLM 0.19.0 `v1/worker/gpu_model_runner.py` and 0.33.0
    `v1/worker/gpu/cudagraph_utils.py` profile_cudagraph_memory;
    `planner/data/calibration/cudagraphs.json`.
    """
    if not run.capture_sizes:
        asked = "enforce_eager" if run.enforce_eager else "cudagraph_mode NONE"
        return _line(0, 0, 0, f"no CUDA graphs ({asked})")
    if run.uses_v2_runner and not run.release.v2_estimates_cudagraphs:
        return _line(0, 0, 0, "this release's second runner estimates nothing")
    if not is_charged:
        actual = actual_bytes(run)
        why = f"not charged to the budget; about {format_size(actual)} beside it"
        return _line(0, 0, 0, why)
    if run.uses_v2_runner:
        return _v2_estimate(run)
    fit = graphs("estimated")
    size_bytes = _fitted_bytes(run, fit)
    high = size_bytes + fit.high_bytes
    if run.graph_cases > 1:
        high = max(high, _ADAPTERS_HIGH * (num_pieces(run) + _num_full(run)))
    return _line(size_bytes, max(0, size_bytes + fit.low_bytes), high, _why(run, fit))


def actual_bytes(run: ProfileRun) -> int:
    """Return what the graphs take once captured, whether or not they are charged."""
    return _fitted_bytes(run, graphs("actual")) if run.capture_sizes else 0


def _v2_estimate(run: ProfileRun) -> Line:
    more = max(_num_full(run) - 1, 0)
    base = _fitted_bytes(run, graphs("estimated"), num_graphs=num_pieces(run))
    low, middle, high = (
        base + more * sample for sample in (_SAMPLE_LOW, _SAMPLE_MIDDLE, _SAMPLE_HIGH)
    )
    fit = graphs("estimated")
    return _line(
        middle,
        max(0, low + fit.low_bytes),
        high + fit.high_bytes,
        f"{num_pieces(run)} piecewise graphs {format_size(base)} + {more} "
        f"full graphs x {format_size(_SAMPLE_MIDDLE)}, the second sample, from which "
        "vLLM extrapolates",
        Basis.ASSUMED,
    )


def _num_full(run: ProfileRun) -> int:
    if run.graph_mode is GraphMode.FULL:
        return run.graph_cases * len(run.capture_sizes)
    if not run.graph_mode.has_full:
        return 0
    query_len = run.model.query_len
    full = num_full_graphs(run.capture_sizes, run.max_num_seqs, query_len)
    return run.graph_cases * full


def num_pieces(run: ProfileRun) -> int:
    """Return how many graphs of pieces are captured."""
    if not run.graph_mode.has_pieces:
        return 0
    return run.graph_cases * len(run.capture_sizes)


def _fitted_bytes(run: ProfileRun, fit: GraphFit, num_graphs: int | None = None) -> int:
    if num_graphs is None:
        num_graphs = num_pieces(run) + _num_full(run)
    per_graph = fit.bytes_per_layer_and_graph * _num_layers(run)
    return fit.pool_bytes[_generation(run)] + int(per_graph * num_graphs)


def _num_layers(run: ProfileRun) -> int:
    """Return the layers of a stage that are captured, its draft's among them.

    A draft model is not captured.

    Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/target_dependent_ar/speculator.py`
    and `standalone_ar/speculator.py` capture.
    """
    found = run.model.speculation if run.is_last_stage else None
    if found is None or found.draft is None or found.method == "draft_model":
        return run.num_layers
    return run.num_layers + found.draft.num_hidden_layers


def _generation(run: ProfileRun) -> str:
    return "Hopper and later" if run.gpu.compute_capability[0] >= HOPPER else "earlier"


def _why(run: ProfileRun, fit: GraphFit) -> str:
    pieces, full = num_pieces(run), _num_full(run)
    each = fit.bytes_per_layer_and_graph / KIB
    pool = fit.pool_bytes[_generation(run)]
    return (
        f"{pieces} piecewise + {full} full graphs x {_num_layers(run)} layers x "
        f"{each:.0f} KiB + {format_size(pool)} pool (fitted to {fit.starts} published "
        "starts)" + (_WITH_ADAPTERS if run.graph_cases > 1 else "")
    )


def _line(
    size_bytes: int,
    low_bytes: int,
    high_bytes: int,
    why: str,
    basis: Basis = Basis.MEASURED,
) -> Line:
    return Line(
        name="CUDA graphs",
        size_bytes=size_bytes,
        low_bytes=low_bytes,
        high_bytes=high_bytes,
        basis=basis,
        why=why,
    )
