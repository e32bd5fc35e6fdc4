"""Peak activation: what the profile run needs for a moment and gives back.

The peak is the largest of two moments: the forward pass of
`max_num_batched_tokens` tokens, and the sampler over the whole vocabulary for
`max_num_seqs` requests. Attention itself does not run in the profile run.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.experts import FusedMoE
from planner.layers import ColumnParallelLinear, Part, QKVParallelLinear
from planner.memory.profile_run import ProfileRun
from planner.model import LayerKind
from planner.parallel import divide
from planner.result import Basis, Line
from planner.units import format_size

# Inductor reuses buffers that the bound below keeps apart.
_FORWARD_LOW = 0.6
# FlashInfer's sampling keeps masked logits and probabilities, fp32 each; how many of
# them are alive at once is not in vLLM's tree.
_SAMPLER_COPIES = {"low": 4, "middle": 8, "high": 12}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    size_bytes: int
    low_bytes: int
    high_bytes: int
    why: str


def line(run: ProfileRun) -> Line:
    """Return the line of the peak activation on one rank.

    Source: vLLM 0.33.0 `v1/worker/gpu/model_runner.py` profile_run and _dummy_run;
    `utils/mem_utils.py` memory_profiling (peak minus what stays allocated).
    """
    moments = [_forward(run)]
    if run.samples:
        moments.append(_sampler(run))
    peak = max(moments, key=lambda moment: moment.size_bytes)
    return Line(
        name="peak activation",
        size_bytes=peak.size_bytes,
        low_bytes=max(moment.low_bytes for moment in moments),
        high_bytes=max(moment.high_bytes for moment in moments),
        basis=Basis.FORMULA,
        why=peak.why,
    )


def _sampler(run: ProfileRun) -> _Moment:
    """Logits of the sampler's second pass, on every tensor-parallel rank.

    Source: vLLM 0.33.0 `v1/worker/gpu/sample/sampler.py` (fp32 copy);
    `v1/sample/ops/topk_topp_sampler.py` (FlashInfer); all-gathered logits:
    `layers/logits_processor.py`.
    """
    tokens, seqs = run.max_num_batched_tokens, run.max_num_seqs
    hidden, vocabulary, size = (
        run.model.hidden_size,
        run.model.vocab_size,
        run.element_size,
    )
    kept = (tokens + seqs) * hidden * size
    rows = seqs * vocabulary
    copies = (
        _SAMPLER_COPIES
        if run.uses_flashinfer_sampler
        else dict.fromkeys(_SAMPLER_COPIES, 0)
    )
    total = {name: kept + rows * (size + 4 + extra) for name, extra in copies.items()}
    return _Moment(
        size_bytes=total["middle"],
        low_bytes=total["low"],
        high_bytes=total["high"],
        why=(
            f"sampling: {seqs:,} max_num_seqs x {vocabulary:,} tokens x "
            f"({size} logits + 4 fp32 copy + {copies['middle']} top-k/top-p) bytes "
            f"+ hidden states {format_size(kept)} = {format_size(total['middle'])}"
        ),
    )


def _forward(run: ProfileRun) -> _Moment:
    """The heaviest layer's activations for all tokens of a step."""
    widths = [_layer_width(run, kind) for kind in run.model.layer_kinds]
    width, shape = max(widths, default=(run.model.hidden_size, "embeddings"))
    tokens, size = run.max_num_batched_tokens, run.element_size
    size_bytes = tokens * size * width
    return _Moment(
        size_bytes=size_bytes,
        low_bytes=int(_FORWARD_LOW * size_bytes),
        high_bytes=size_bytes,
        why=(
            f"forward pass: {tokens:,} max_num_batched_tokens x {size} bytes x "
            f"{width:,} values ({shape}) = {format_size(size_bytes)}"
        ),
    )


def _layer_width(run: ProfileRun, kind: LayerKind) -> tuple[int, str]:
    """Values per token alive at once in a layer, and where the peak lies.

    An upper bound: every buffer of a step is kept until the step ends.
    """
    hidden = run.model.hidden_size
    candidates = [(hidden, "embeddings")]
    for module in kind.modules:
        candidates += _module_widths(run, module)
    # The residual stream and the embedding output stay alive throughout.
    width, shape = max(candidates)
    return 2 * hidden + width, f"2 x {hidden:,} residual and input + {shape}"


def _module_widths(run: ProfileRun, module: object) -> list[tuple[int, str]]:
    hidden, ranks = run.model.hidden_size, run.layout.tensor_parallel_size
    if isinstance(module, QKVParallelLinear):
        query = divide(module.num_heads, ranks) * module.head_size
        key = max(1, module.num_kv_heads // ranks) * module.head_size
        return [(3 * query + 3 * key + hidden, "query, key, value, attention output")]
    if isinstance(module, ColumnParallelLinear) and module.part is Part.MLP:
        inner = divide(module.output_sizes[0], ranks)
        wide = len(module.output_sizes) * inner
        return [
            (hidden + wide, f"{hidden:,} norm + {wide:,} MLP input"),
            (wide + inner, f"{wide:,} MLP input + {inner:,} activation"),
            (inner + 2 * hidden, f"{inner:,} activation + 2 x {hidden:,} output"),
        ]
    if isinstance(module, FusedMoE):
        router = 4 * module.num_experts // run.element_size
        width = 2 * hidden + router + 8 * module.top_k // run.element_size
        return [(width, f"2 x {hidden:,} expert input and output + router")]
    return []
