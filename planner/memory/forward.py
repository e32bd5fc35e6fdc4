"""The forward pass of the profile run: the heaviest layer's activations.

All `max_num_batched_tokens` tokens go through the model once. Attention itself does not
run; what counts is the widest step of a layer, with what its caller still holds.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.experts import FusedMoE
from planner.layers import ColumnParallelLinear, Part, RowParallelLinear
from planner.memory.profile_run import ProfileRun, once_for_all_lengths
from planner.model import LayerKind
from planner.parallel import divide
from planner.units import MIB, format_size

# Inductor's benchmarks flush a buffer of the size of the second-level cache while it
# compiles; a start with a warm compile cache does without. MiB by compute capability.
_L2_MIB = {(8, 0): 40, (8, 6): 6, (8, 9): 72, (9, 0): 50, (10, 0): 126, (12, 0): 128}


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """What the forward pass takes for a moment."""

    size_bytes: int
    why: str


@once_for_all_lengths
def forward(run: ProfileRun) -> Forward:
    """Return the heaviest moment of a rank's forward pass, routed experts left out.

    Source: vLLM 0.19.0 `v1/worker/gpu_model_runner.py` profile_run; the buffers of a
    layer are read from its model class and fit logs of models with small vocabularies.
    """
    widths = [_layer_width(run, kind) for kind in run.model.layer_kinds]
    width, shape = max(widths, default=(2 * run.model.hidden_size, "embeddings"))
    tokens, size = run.max_num_batched_tokens, run.element_size
    size_bytes = tokens * size * width
    return Forward(
        size_bytes=size_bytes,
        why=(
            f"forward pass: {tokens:,} max_num_batched_tokens x {size} bytes x "
            f"{width:,} values ({shape}) = {format_size(size_bytes)}"
        ),
    )


def cold_compile_bytes(run: ProfileRun) -> int:
    """Return what compiling takes beside the layer where nothing is cached yet."""
    if not run.compiles:
        return 0
    return _L2_MIB.get(run.gpu.compute_capability, 0) * MIB


def _layer_width(run: ProfileRun, kind: LayerKind) -> tuple[int, str]:
    """Values per token alive at once in a layer, and where the peak lies."""
    steps = [(0, "residual and input")]
    for module in kind.modules:
        steps += _module_widths(run, module)
    width, shape = max(steps)
    held, text = _held(run, run.model.hidden_size, _attention_width(run, kind))
    return held + width, f"{text} + {shape}"


@once_for_all_lengths
def held_bytes(run: ProfileRun) -> int:
    """Return what the callers of experts hold: residuals and attention's output."""
    hidden = run.model.hidden_size
    widths = [
        _held(run, hidden, _attention_width(run, kind))[0]
        for kind in run.model.layer_kinds
    ]
    tokens = run.max_num_batched_tokens * run.element_size
    return tokens * max(widths, default=2 * hidden)


def _attention_width(run: ProfileRun, kind: LayerKind) -> int:
    """Values of attention's output per token, which the output projection takes."""
    ranks = run.layout.tensor_parallel_size
    return max(
        (
            module.input_size // ranks
            for module in kind.modules
            if isinstance(module, RowParallelLinear) and module.part is Part.ATTENTION
        ),
        default=0,
    )


def _held(run: ProfileRun, hidden: int, attention: int) -> tuple[int, str]:
    """What a layer's caller holds: two residuals, and attention's output if compiled.

    Without compilation a third hidden state is alive, and one more beside all-reduce.
    """
    if run.compiles:
        return 2 * hidden + attention, f"2 x {hidden:,} residual + {attention:,} output"
    count = 3 + int(run.layout.tensor_parallel_size > 1)
    return count * hidden, f"{count} x {hidden:,} hidden states"


def _module_widths(run: ProfileRun, module: object) -> list[tuple[int, str]]:
    ranks = run.layout.tensor_parallel_size
    if isinstance(module, ColumnParallelLinear) and module.part in _MLP_PARTS:
        inner = divide(module.output_sizes[0], ranks)
        wide = len(module.output_sizes) * inner
        return [(wide + inner, f"{wide:,} MLP input + {inner:,} activation")]
    if isinstance(module, FusedMoE):
        router = 4 * module.num_experts // run.element_size
        return [(router, f"{router:,} router")]
    return []


_MLP_PARTS = (Part.MLP, Part.SHARED_EXPERTS)
