"""What blocks of PyTorch's allocator have beyond the tensors of an eager forward pass.

Tensors of 20 MiB and more get whole blocks, in steps of 2 MiB, or a free one that is
less than 20 MiB larger. Which are free depends on the order in which a layer allocates.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.memory.allocator import (
    SPLITS_ANY_BLOCK,
    Step,
    beyond_tensor,
    beyond_tensors,
)
from planner.memory.lines.attention_pass import (
    is_left_to_transformers,
    kinds,
    language_model,
    query_and_key_widths,
)
from planner.memory.lines.forward_pass import forward, mlp_width
from planner.memory.lines.held_states import (
    ADDS_UP_ANEW,
    HAS_OWN_SUMS,
    NAMES_MLP_INPUT,
)
from planner.memory.profile_run import ProfileRun, once_for_all_lengths
from planner.models.architecture import LayerKind
from planner.models.experts import FusedMoE
from planner.models.layers import Part, QKVParallelLinear

_LAYERS = 3
"""After so many, each finds the blocks that the one before it found."""


@once_for_all_lengths
def rounding_bytes(run: ProfileRun) -> int:
    """Return by how much blocks exceed their tensors at the widest step of a layer.

    Of a compiled one, each has at least a block of its own.

    Source: vLLM 0.33.0 `v1/worker/gpu_worker.py` determine_available_memory
    (_scoped_allocator_max_split); PyTorch 2.14 `c10/cuda/CUDACachingAllocator.cpp`;
    traced dry runs of Qwen2.5-Coder-14B-AWQ and Phi-3-mini.
    """
    if run.compiles:
        tensors = forward(run).tensors
        return sum(beyond_tensor(size, run.release) for size in tensors)
    if run.release.has(SPLITS_ANY_BLOCK) or _is_otherwise(run):
        return 0
    each = run.max_num_batched_tokens * run.element_size
    return max(
        beyond_tensors((name, width * each) for name, width in _steps(run, kind))
        for kind in kinds(run)
    )


def _is_otherwise(run: ProfileRun) -> bool:
    """Whether layers allocate in another order than Llama's and Qwen's."""
    model = run.model
    has_own_sums = language_model(run) in (*ADDS_UP_ANEW, *HAS_OWN_SUMS)
    return has_own_sums or model.is_encoder_decoder or is_left_to_transformers(run)


def _steps(run: ProfileRun, kind: LayerKind) -> list[Step]:
    """Return the values per token that some layers with a gated MLP allocate, in order.

    Empty for other layers.
    """
    linears = (m for m in kind.modules if isinstance(m, QKVParallelLinear))
    attention = next((m for m in linears if m.part is Part.ATTENTION), None)
    mlp = max(mlp_width(run, module) for module in kind.modules)
    has_experts = any(isinstance(module, FusedMoE) for module in kind.modules)
    if attention is None or has_experts or not mlp[0]:
        return []
    return [
        step for layer in range(_LAYERS) for step in _layer(run, attention, mlp, layer)
    ]


def _layer(
    run: ProfileRun, attention: QKVParallelLinear, mlp: tuple[int, int], number: int
) -> Iterator[Step]:
    """Yield what one layer allocates and gives up.

    The residual is the embeddings' tensor. A layer's input is the output of the MLP
    before it, which its caller keeps until the layer returns.

    Source: vLLM 0.33.0 `models/llama.py` LlamaDecoderLayer.forward, `models/qwen2.py`.
    """
    hidden, ranks = run.model.hidden_size, run.layout.tensor_parallel_size
    heads, keys = query_and_key_widths(run, attention)
    is_merged = run.has_media and run.is_first_stage
    wide, inner = mlp
    before, after = f"output {number - 1}", f"output {number}"
    if not number:
        yield from [] if is_merged else _summed("residual", hidden, ranks)
        yield before, hidden  # of the first norm
    yield "projected", heads + 2 * keys
    yield "attention", heads
    yield from _summed("states", hidden, ranks)
    yield "projected", 0
    yield "attention", 0
    yield "gate and up", wide
    yield "activation", inner
    if language_model(run) not in NAMES_MLP_INPUT:
        yield "gate and up", 0
    yield from _summed(after, hidden, ranks)
    yield "gate and up", 0
    yield "activation", 0
    yield "states", 0
    yield before, 0


def _summed(name: str, hidden: int, ranks: int) -> Iterator[Step]:
    """Yield an output and, with ranks, the sum that takes its place."""
    if ranks > 1:
        yield "part", hidden
    yield name, hidden
    yield "part", 0
