"""CUDA graphs: the estimate that vLLM subtracts from the KV cache, and the actual size.

How many graphs are captured follows from vLLM's code. The size of a graph does not: it
consists of the kernels' launch parameters and a share of the graph pool, which only a
GPU can show. A pool by GPU generation and a constant per graph and layer are fitted to
published starts; latent attention (MLA) has more kernels a layer. Releases differ in
whether they make the estimate and charge it.
"""

from __future__ import annotations

from bisect import bisect_right

from planner.engine.generations import HOPPER
from planner.engine.releases.change import Change
from planner.memory.account import Basis, Line, line_of
from planner.memory.compilation import GraphMode
from planner.memory.lines.calibration import GraphFit, graphs
from planner.memory.lines.latent_context import has_latent_layers
from planner.memory.profile_run import ProfileRun
from planner.units import KIB, MIB, counted, format_size

_NAME = "CUDA graphs"
_SMALLEST_SAMPLE_BYTES = MIB
"""What the second runner charges for a whole graph at least.

It extrapolates from its second sample, for which the pool has room: graphs of pieces
and the first sample were larger. Within the sample, what the warm-up before it left is
given back. So it comes out negative, unless the batch is small: dry runs traced -42 MiB
for Qwen3.8-27B and for Llama 3.1 8B with 0.29.0, -56 MiB for Qwen3-8B-AWQ with a draft
with 0.33.0, 0 for Qwen3-0.6B with eight requests. The driver's share is not in these.

Source: vLLM 0.29.0 and 0.33.0 `v1/worker/gpu/cudagraph_utils.py`
_extrapolate_full_graph_memory (_MIN_PER_GRAPH_BYTES); PyTorch 2.13
`torch/cuda/graphs.py` graph (empty_cache).
"""
# With adapters the first runner's second sample is the largest batch again, without
# them: what that batch allocates at first use is counted for every graph. The one
# published start with adapters and graphs logged 4.79 GiB for 172 graphs.
_ADAPTERS_HIGH = 29 * MIB
_WITH_ADAPTERS = (
    "; with adapters vLLM counts what the largest batch takes without them for every "
    "graph: up to 29 MiB each were logged"
)
_V2_ESTIMATES_CUDAGRAPHS = Change(
    since=(0, 29),
    what="The second model runner estimates the size of its CUDA graphs.",
    source=(
        "vLLM 0.28.0 and 0.29.0 `v1/worker/gpu/model_runner.py` "
        "profile_cudagraph_memory"
    ),
)


def num_full_graphs(
    sizes: tuple[int, ...], max_num_seqs: int, query_len: int = 1
) -> int:
    """Return how many whole-model graphs are captured for decoding; `sizes` ascend.

    Sizes are rounded up to whole requests of `query_len` tokens, each counted once.

    Source: vLLM 0.33.0 `v1/worker/gpu/cudagraph_utils.py` _init_candidates.
    """
    if query_len == 1:
        return bisect_right(sizes, max_num_seqs)
    largest = min(sizes[-1], max_num_seqs * query_len)
    rounded = {-(-size // query_len) for size in sizes}
    return sum(requests * query_len <= largest for requests in rounded)


def line(run: ProfileRun, *, is_charged: bool) -> Line:
    """Return the line of CUDA graphs on one rank.

    `is_charged` False: vLLM does not measure the graphs (fixed KV cache), or does not
    subtract them (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0, the default up to 0.19).

    Source: vLLM 0.19.0 `v1/worker/gpu_model_runner.py` and 0.33.0
    `v1/worker/gpu/cudagraph_utils.py` profile_cudagraph_memory;
    `planner/data/calibration/cudagraphs.json`.
    """
    if not run.capture_sizes:
        cause = "enforce_eager" if run.enforce_eager else "cudagraph_mode NONE"
        return line_of(_NAME, 0, Basis.MEASURED, f"no CUDA graphs ({cause})")
    if run.uses_v2_runner and not run.release.has(_V2_ESTIMATES_CUDAGRAPHS):
        return line_of(
            _NAME, 0, Basis.MEASURED, "this release's second runner estimates nothing"
        )
    if not is_charged:
        actual = actual_bytes(run)
        why = f"not charged to the budget; about {format_size(actual)} outside it"
        return line_of(_NAME, 0, Basis.MEASURED, why)
    if run.uses_v2_runner:
        return _v2_estimate(run)
    fit = graphs("estimated")
    size_bytes = _fitted_bytes(run, fit)
    low, high = fit.range_of(size_bytes)
    if run.graph_cases > 1:
        high = max(high, _ADAPTERS_HIGH * (num_pieces(run) + _num_full(run)))
    return line_of(_NAME, (low, size_bytes, high), Basis.MEASURED, _why(run, fit))


def actual_bytes(run: ProfileRun) -> int:
    """Return the size of the captured graphs, whether or not they are charged."""
    return _fitted_bytes(run, graphs("actual")) if run.capture_sizes else 0


def beyond_estimate(run: ProfileRun) -> tuple[int, str] | None:
    """Return the most that the second runner captures beyond its estimate.

    None for the first runner. Graphs of pieces are captured for the estimate as they
    are later; of whole ones, the driver may take more than the least that is charged.
    A published start of 0.31.0 on A100 captured 0.23 GiB, less than was charged.

    Source: vLLM 0.29.0 `v1/worker/gpu/cudagraph_utils.py` profile_cudagraph_memory.
    """
    if not run.uses_v2_runner or not run.release.has(_V2_ESTIMATES_CUDAGRAPHS):
        return None
    more = max(_num_full(run) - 1, 0)
    each = int(_bytes_per_graph(run, graphs("actual")))
    beyond = more * max(0, each - _SMALLEST_SAMPLE_BYTES)
    return beyond, (
        f"at most {more} full graphs x {format_size(each)}, of which "
        f"{format_size(_SMALLEST_SAMPLE_BYTES)} each is charged"
    )


def num_pieces(run: ProfileRun) -> int:
    """Return how many piecewise graphs are captured."""
    if not run.graph_mode.has_pieces:
        return 0
    return run.graph_cases * len(run.capture_sizes)


def layers_and_graphs(run: ProfileRun) -> int:
    """Return captured layers times captured graphs, which the fit multiplies."""
    return _num_layers(run) * (num_pieces(run) + _num_full(run))


def _v2_estimate(run: ProfileRun) -> Line:
    """Return what the second runner charges; at most, no warm-up gives anything back.

    Then the sample is what the driver takes for a graph.
    """
    more = max(_num_full(run) - 1, 0)
    fit = graphs("estimated")
    base = _fitted_bytes(run, fit, num_graphs=num_pieces(run))
    driver = max(_SMALLEST_SAMPLE_BYTES, int(_bytes_per_graph(run, fit)))
    below, above = fit.range_of(base)
    least = more * _SMALLEST_SAMPLE_BYTES
    return line_of(
        _NAME,
        (below + least, base + least, above + more * driver),
        Basis.ASSUMED,
        f"{counted(num_pieces(run), 'piecewise graphs')} {format_size(base)} + {more} "
        f"full graphs x {format_size(_SMALLEST_SAMPLE_BYTES)}, the least that vLLM "
        "extrapolates from",
    )


def _num_full(run: ProfileRun) -> int:
    if run.graph_mode is GraphMode.FULL:
        return run.graph_cases * len(run.capture_sizes)
    if not run.graph_mode.has_full:
        return 0
    query_len = run.model.query_len
    full = num_full_graphs(run.capture_sizes, run.max_num_seqs, query_len)
    return run.graph_cases * full


def _fitted_bytes(run: ProfileRun, fit: GraphFit, num_graphs: int | None = None) -> int:
    if num_graphs is None:
        num_graphs = num_pieces(run) + _num_full(run)
    pool_bytes = fit.pool_bytes[_generation(run)]
    return pool_bytes + int(_bytes_per_graph(run, fit) * num_graphs)


def _bytes_per_graph(run: ProfileRun, fit: GraphFit) -> float:
    """Return what the driver takes for a graph of the whole model."""
    weight = fit.latent_weight if has_latent_layers(run) else 1
    return fit.bytes_per_layer_and_graph * weight * _num_layers(run)


def _num_layers(run: ProfileRun) -> int:
    """Return the captured layers of a stage, including those of an MTP or EAGLE draft.

    A separate draft model is not captured.

    Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/target_dependent_ar/speculator.py`
    and `standalone_ar/speculator.py` capture.
    """
    speculation = run.model.speculation if run.is_last_stage else None
    if (
        speculation is None
        or speculation.draft is None
        or speculation.method == "draft_model"
    ):
        return run.num_layers
    return run.num_layers + speculation.draft.num_hidden_layers


def _generation(run: ProfileRun) -> str:
    return (
        "Hopper and later"
        if run.gpu.compute_capability[0] >= HOPPER.major
        else "earlier"
    )


def _why(run: ProfileRun, fit: GraphFit) -> str:
    pieces, full = num_pieces(run), _num_full(run)
    weight = fit.latent_weight if has_latent_layers(run) else 1
    each = fit.bytes_per_layer_and_graph * weight / KIB
    pool = fit.pool_bytes[_generation(run)]
    return (
        f"{pieces} piecewise + {full} full graphs x {_num_layers(run)} layers x "
        f"{each:.0f} KiB + {format_size(pool)} pool (fitted to {fit.starts} published "
        "starts)" + (_WITH_ADAPTERS if run.graph_cases > 1 else "")
    )
