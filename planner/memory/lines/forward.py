"""The forward pass of the profile run: the activations of the largest layer.

All `max_num_batched_tokens` tokens pass through the model once. Attention itself does
not run; what counts is the widest step of a layer, plus what its caller still holds.
"""

from __future__ import annotations

from planner.engine.layout import divide
from planner.memory.profile_run import ProfileRun, once_for_all_lengths
from planner.memory.sized import Sized
from planner.models.architecture import LayerKind
from planner.models.experts import FusedMoE
from planner.models.families.recorded import RecordedModule
from planner.models.layers import ColumnParallelLinear, Part, RowParallelLinear
from planner.units import MIB, format_size

# While it compiles, Inductor's benchmarks flush a buffer of the size of the L2 cache; a
# start with a warm compile cache does not. MiB by compute capability.
_L2_MIB = {(8, 0): 40, (8, 6): 6, (8, 9): 72, (9, 0): 50, (10, 0): 126, (12, 0): 128}
_MLP_PARTS = (Part.MLP, Part.SHARED_EXPERTS)


@once_for_all_lengths
def forward(run: ProfileRun) -> Sized:
    """Return the peak of a rank's forward pass, without routed experts.

    Source: vLLM 0.19.0 `v1/worker/gpu_model_runner.py` profile_run; the buffers of a
    layer are read from its model class and fit logs of models with small vocabularies.
    """
    widths = [_layer_width(run, kind) for kind in run.model.layer_kinds]
    width, shape = max(widths, default=(2 * run.model.hidden_size, "embeddings"))
    tokens, size = run.max_num_batched_tokens, run.element_size
    size_bytes = tokens * size * width
    return Sized(
        size_bytes=size_bytes,
        why=(
            f"forward pass: {tokens:,} max_num_batched_tokens x {size} bytes x "
            f"{width:,} values ({shape}) = {format_size(size_bytes)}"
        ),
    )


def cold_compile_bytes(run: ProfileRun) -> int:
    """Return the memory of compiling beside the layer, with a cold compile cache."""
    if not run.compiles:
        return 0
    return _L2_MIB.get(run.gpu.compute_capability, 0) * MIB


@once_for_all_lengths
def held_bytes(run: ProfileRun) -> int:
    """Return what the experts' callers hold: residuals and attention's output."""
    hidden = run.model.hidden_size
    widths = [
        _held(run, hidden, _attention_width(run, kind))[0]
        for kind in run.model.layer_kinds
    ]
    tokens = run.max_num_batched_tokens * run.element_size
    return tokens * max(widths, default=2 * hidden)


def _layer_width(run: ProfileRun, kind: LayerKind) -> tuple[int, str]:
    """Return the values per token alive at a layer's peak, and that peak in words."""
    steps = [(0, "residual and input")]
    for module in kind.modules:
        steps += _module_widths(run, module)
    width, shape = max(steps)
    held, text = _held(run, run.model.hidden_size, _attention_width(run, kind))
    return held + width, f"{text} + {shape}"


def _attention_width(run: ProfileRun, kind: LayerKind) -> int:
    """Return the width of attention's output, the input of the output projection."""
    ranks = run.layout.tensor_parallel_size
    return max(
        (
            module.input_size // ranks
            for module in kind.modules
            if isinstance(module, RowParallelLinear | RecordedModule)
            and module.part is Part.ATTENTION
        ),
        default=0,
    )


def _held(run: ProfileRun, hidden: int, attention: int) -> tuple[int, str]:
    """Return what a layer's caller holds: two residuals, and attention's output.

    Without compilation it is a third hidden state instead of the output, and a fourth
    with all-reduce.
    """
    if run.compiles:
        return 2 * hidden + attention, f"2 x {hidden:,} residual + {attention:,} output"
    count = 3 + int(run.layout.tensor_parallel_size > 1)
    return count * hidden, f"{count} x {hidden:,} hidden states"


def _module_widths(run: ProfileRun, module: object) -> list[tuple[int, str]]:
    ranks = run.layout.tensor_parallel_size
    if (
        isinstance(module, ColumnParallelLinear | RecordedModule)
        and module.part in _MLP_PARTS
        and module.output_sizes
    ):
        inner = divide(module.output_sizes[0], ranks)
        wide = len(module.output_sizes) * inner
        return [(wide + inner, f"{wide:,} MLP input + {inner:,} activation")]
    if isinstance(module, FusedMoE):
        router = 4 * module.num_experts // run.element_size
        return [(router, f"{router:,} router")]
    return []
