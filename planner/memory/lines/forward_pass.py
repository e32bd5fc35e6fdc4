"""The dense forward pass: the widest step of a layer, and what its callers hold.

All tokens pass through the model once. Attention itself does not run.
"""

from __future__ import annotations

from planner.engine.layout import divide
from planner.memory.account import Sized
from planner.memory.profile_run import ProfileRun, once_for_all_lengths
from planner.models.architecture import LayerKind
from planner.models.experts import FusedMoE
from planner.models.families.recorded import RecordedModule
from planner.models.layers import (
    ColumnParallelLinear,
    Part,
    ReplicatedLinear,
    RowParallelLinear,
)
from planner.models.quantization.choosing import PLUGINS
from planner.units import format_size

_NAMES_MLP_INPUT = frozenset(
    """
    CohereForCausalLM Cohere2ForCausalLM Exaone4ForCausalLM ExaoneForCausalLM
    Gemma2ForCausalLM Gemma3ForCausalLM GemmaForCausalLM GraniteForCausalLM
    InternLM2ForCausalLM MiniCPMForCausalLM OrionForCausalLM Qwen2ForCausalLM
    Qwen2ForSequenceClassification Qwen2Model Qwen3ForCausalLM
    Qwen3ForSequenceClassification Qwen3Model SolarForCausalLM StableLmForCausalLM
    """.split()
)
"""Models whose MLP has a name for gate and up, so that they outlive the activation.

Llama's reuses the name, and frees them before the down projection.

Source: vLLM 0.19.1, 0.25.1 and 0.33.0 `models/qwen2.py` Qwen2MLP.forward and the like;
`models/llama.py` LlamaMLP.forward.
"""
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


@once_for_all_lengths
def unpacked_bytes(run: ProfileRun) -> int:
    """Return the largest weights that a kernel unpacks before it multiplies by them.

    Source: bitsandbytes 0.49.2 `autograd/_functions.py` MatMul4Bit; vLLM 0.23.0
    `layers/quantization/gguf.py` _fused_mul_mat_gguf.
    """
    if run.model.quantization not in PLUGINS:
        return 0
    tensors = (
        tensor
        for kind in run.model.layer_kinds
        for module in kind.modules
        for tensor in module.tensors(run.layout)
    )
    return max((tensor.unpacked for tensor in tensors), default=0) * run.element_size


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
    hidden = run.model.hidden_size
    held, text = _held(run, hidden, _attention_width(run, kind))
    if not run.compiles and run.model.towers and run.is_first_stage:
        # Residuals are added up in the buffer in which images and text are merged.
        held, text = held - hidden, f"{text} - {hidden:,} in a buffer"
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


def _language_model(run: ProfileRun) -> str:
    return run.model.language_architecture or run.model.architecture


def activation_width(run: ProfileRun) -> int:
    """Return the values per token of an MLP's activation: its input and output."""
    widths = (
        _mlp_width(run, module)
        for kind in run.model.layer_kinds
        for module in kind.modules
    )
    return max((wide + inner for wide, inner in widths), default=0)


def _mlp_width(run: ProfileRun, module: object) -> tuple[int, int]:
    """Return the widths of an MLP's input and activation on a rank; 0 for others."""
    if not (
        isinstance(module, ColumnParallelLinear | ReplicatedLinear | RecordedModule)
        and module.part in _MLP_PARTS
        and module.output_sizes
    ):
        return 0, 0
    is_whole = isinstance(module, ReplicatedLinear)
    ranks = 1 if is_whole else run.layout.tensor_parallel_size
    inner = divide(module.output_sizes[0], ranks)
    return len(module.output_sizes) * inner, inner


def _module_widths(run: ProfileRun, module: object) -> list[tuple[int, str]]:
    wide, inner = _mlp_width(run, module)
    if inner:
        text = f"{wide:,} MLP input + {inner:,} activation"
        if run.compiles or _language_model(run) not in _NAMES_MLP_INPUT:
            return [(wide + inner, text)]
        hidden = run.model.hidden_size
        return [(wide + inner + hidden, f"{text} + {hidden:,} output")]
    if isinstance(module, FusedMoE):
        router = 4 * module.num_experts // run.element_size
        return [(router, f"{router:,} router")]
    return []
