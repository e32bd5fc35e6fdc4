"""The dense forward pass: the widest step of a layer, and what its callers hold.

All tokens pass through the model once. Attention itself does not run.
"""

from __future__ import annotations

from planner.engine.generations import ADA
from planner.engine.layout import divide
from planner.engine.releases.change import Change
from planner.memory.account import Sized
from planner.memory.lines.attention_pass import (
    attention_widths,
    delta_net_widths,
    first_mixer_widths,
    gated_attention_widths,
    is_left_to_transformers,
    kinds,
    language_model,
    mixer_widths,
    rotation_widths,
    short_conv_widths,
)
from planner.memory.lines.compiled_pieces import compiled_widths, has_fitted_sums
from planner.memory.lines.held_states import (
    ADDS_UP_ANEW,
    MORE_ACTIVATIONS,
    NAMES_MLP_INPUT,
    held_of,
    is_own_of_old,
    later_sum,
)
from planner.memory.lines.persistent import later_workspace_bytes
from planner.memory.profile_run import ProfileRun, once_for_all_lengths
from planner.models.architecture import LayerKind
from planner.models.experts import FusedMoE
from planner.models.families.recorded import RecordedModule
from planner.models.layers import (
    ColumnParallelLinear,
    Part,
    ReplicatedLinear,
)
from planner.models.quantization.choosing import PLUGINS
from planner.models.quantization.compressed_schemes import Fp8Linear
from planner.models.quantization.fp8 import (
    Fp8BlockLinear,
    Fp8ChannelLinear,
    Fp8OnlineBlockLinear,
    Fp8TensorLinear,
)
from planner.models.quantization.fp8_kernels import BLOCK, quantises_block_inputs
from planner.models.quantization.linear_kernels import ModelOptChannelLinear
from planner.models.quantization.quark_schemes import QuarkFp8Linear
from planner.units import format_size

_NORMALISES_AS_GEMMA = (
    *ADDS_UP_ANEW,
    *("Qwen3NextForCausalLM", "Qwen3_5MoeForConditionalGeneration"),
)
_GEMMA_NORM_WIDTH = 11
_NORMALISES_IN_FP32 = Change(
    since=(0, 31),
    what="Gemma's norm, with weights in fp32, is PyTorch's own without compilation.",
    source="vLLM 0.31.0 and 0.33.0 `layers/layernorm.py` GemmaRMSNorm.forward_cuda",
)
_ADDS_UP_BEFORE_NORM = ("bert", "roberta", "xlm-roberta")
"""Types of models whose layers add the MLP's output to its input, then normalise.

Source: vLLM 0.33.0 `models/bert.py` BertOutput.forward, BertModel.forward.
"""
_ADDS_UP_BRANCHES = ("CohereForCausalLM", "Cohere2ForCausalLM")
"""Models that add attention's and the MLP's outputs up, and then the residual.

Source: vLLM 0.33.0 `models/commandr.py` CohereDecoderLayer.forward; a traced dry run of
Command R on eight ranks.
"""
_BESIDE_ATTENTION = ("GPTJForCausalLM",)
"""Models whose MLP reads attention's input, so that a kernel computes more than it."""
_FP32 = 4
_QUANTISES_WHOLE_INPUTS = (
    *(Fp8TensorLinear, Fp8ChannelLinear, Fp8Linear),
    *(ModelOptChannelLinear, QuarkFp8Linear),
)
_MLP_PARTS = (Part.MLP, Part.SHARED_EXPERTS)


@once_for_all_lengths
def forward(run: ProfileRun) -> Sized:
    """Return the peak of a rank's forward pass, without routed experts.

    Source: vLLM 0.19.0 `v1/worker/gpu_model_runner.py` profile_run; the buffers of a
    layer are read from its model class and fit logs of models with small vocabularies.
    """
    widths = [_layer_width(run, kind) for kind in kinds(run)]
    least = (2 * run.model.hidden_size, "embeddings", ())
    width, shape, parts = max(widths, default=least)
    tokens, size = run.max_num_batched_tokens, run.element_size
    size_bytes = tokens * size * width
    return Sized(
        size_bytes=size_bytes,
        tensors=tuple(tokens * size * part for part in parts),
        why=(
            f"forward pass: {tokens:,} max_num_batched_tokens x {size} bytes x "
            f"{width:,} values ({shape}) = {format_size(size_bytes)}"
        ),
    )


def normed_bytes(run: ProfileRun) -> int:
    """Return the peak of a layer with Gemma's norm, without compilation.

    Eleven hidden states: a layer's input, both residuals and attention's output; their
    sum, and in fp32 the sum, the normed and the weighted one. A draft's first layer has
    no residual before it, but the target's hidden states.

    Source: vLLM 0.33.0 `ir/ops/layernorm.py` fused_add_rms_norm; a traced dry run of
    Qwen3.5-9B with its own draft on eight ranks.
    """
    is_so = language_model(run) in _NORMALISES_AS_GEMMA
    if run.compiles or not is_so or not run.release.has(_NORMALISES_IN_FP32):
        return 0
    values = _GEMMA_NORM_WIDTH * run.model.hidden_size
    return run.max_num_batched_tokens * run.element_size * values


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
        for kind in kinds(run)
        for module in kind.modules
        for tensor in module.tensors(run.layout)
    )
    return max((tensor.unpacked for tensor in tensors), default=0) * run.element_size


def _layer_width(run: ProfileRun, kind: LayerKind) -> tuple[int, str, tuple[int, ...]]:
    """Return the values per token alive at a layer's peak, and that peak in words.

    Of a compiled layer also those of each tensor.
    """
    steps = [(0, "residual and input")]
    held, text = held_of(run, kind)
    sums = later_sum(run)
    parts: dict[str, tuple[int, ...]] = {}
    for module in kind.modules:
        steps += _module_widths(run, module)
        if run.compiles:
            compiled = compiled_widths(run, kind, module)
            parts |= {shape: widths for widths, shape in compiled}
            steps += [(sum(widths), shape) for widths, shape in compiled]
        else:
            steps += attention_widths(run, kind, module, sums)
            steps += first_mixer_widths(run, kind, module, sums)
            steps += mixer_widths(run, kind, module)
            steps += short_conv_widths(run, module, sums)
            steps += gated_attention_widths(run, kind, module, held)
            steps += delta_net_widths(run, kind, module, held)
            steps += rotation_widths(run, kind, module, held)
    width, shape = max(steps)
    later = later_workspace_bytes(run, kind)
    if later:
        text = f"{text} - a later workspace of {format_size(later)}"
    per_token = run.max_num_batched_tokens * run.element_size
    own = parts.get(shape) or next(
        (all_ for m in kind.modules if sum(all_ := _compiled_tensors(run, m)) == width),
        (),
    )
    hidden = run.model.hidden_size
    is_known = run.compiles and not has_fitted_sums(run)
    tensors = (hidden, hidden, held - 2 * hidden, *own) if is_known else ()
    return max(0, held + width - later // per_token), f"{text} + {shape}", tensors


def activation_width(run: ProfileRun) -> int:
    """Return the values per token of an MLP's activation: its input and output."""
    return sum(activation_widths(run))


def activation_widths(run: ProfileRun) -> tuple[int, int]:
    """Return those of either."""
    widths = (
        _compiled_mlp_width(run, module)
        for kind in kinds(run)
        for module in kind.modules
    )
    return max(widths, key=sum, default=(0, 0))


def _compiled_mlp_width(run: ProfileRun, module: object) -> tuple[int, int]:
    """Return the widths of a compiled MLP's input and activation.

    The compiler writes an activation without a gate over its input.

    Source: traced dry runs of OPT, where it does, and of Phi-1.5, whose layers are
    Transformers' and compute attention beside the MLP.
    """
    wide, inner = mlp_width(run, module)
    has_gate = wide > inner or isinstance(module, RecordedModule)
    is_shared = getattr(module, "part", None) is Part.SHARED_EXPERTS
    is_beside = language_model(run) in _BESIDE_ATTENTION
    if has_gate or is_shared or is_beside or is_left_to_transformers(run):
        return wide, inner
    return wide, 0


def mlp_width(run: ProfileRun, module: object) -> tuple[int, int]:
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


def _is_in_blocks(method: object) -> bool:
    """Whether FP8 weights have a scale for each block of 128 x 128."""
    is_block = isinstance(method, Fp8BlockLinear | Fp8OnlineBlockLinear)
    return is_block or getattr(method, "strategy", None) == "block"


def _fp8_copy_width(run: ProfileRun, module: object, inner: int) -> int:
    """Return the values that the down projection's input in FP8 is as large as.

    Blocks of 128 have a scale in fp32; weights that were quantised whole, none that
    matters.

    Source: vLLM 0.29.0 `layers/quantization/utils/fp8_utils.py`
    per_token_group_quant_fp8; 0.33.0 `layers/quantization/online/fp8.py`; dry runs of
    Qwen3-8B-FP8 on H100 and of Granite 4.2 3B with fp8_per_tensor on L40S.
    """
    method = getattr(module, "method", None)
    if isinstance(method, _QUANTISES_WHOLE_INPUTS) and not _is_in_blocks(method):
        has_kernel = run.layout.compute_capability >= ADA
        is_copied = has_kernel and not getattr(method, "is_weight_only", False)
        return inner // run.element_size if is_copied else 0
    if not _is_in_blocks(method) or not quantises_block_inputs(run.layout):
        return 0
    return (inner + _FP32 * -(-inner // BLOCK)) // run.element_size


def _summed(run: ProfileRun, inner: int) -> list[tuple[int, str]]:
    """Return what there is while an MLP's outputs are added up over ranks.

    The activation, a rank's output, and the sum, which is a tensor of its own.

    Source: vLLM 0.33.0 `device_communicators/pynccl.py` PyNcclCommunicator.all_reduce.
    """
    if run.layout.tensor_parallel_size == 1:
        return []
    hidden = run.model.hidden_size
    count = 3 if run.model.model_type in _ADDS_UP_BEFORE_NORM else 2
    text = f"{inner:,} activation + {count} x {hidden:,} output and sums"
    return [(inner + count * hidden, text)]


def _branches(run: ProfileRun) -> list[tuple[int, str]]:
    """Return what a layer holds that adds up its branches: an output and two sums."""
    hidden = run.model.hidden_size
    if language_model(run) not in _ADDS_UP_BRANCHES:
        return []
    return [(3 * hidden, f"3 x {hidden:,} output and sums")]


def _compiled_tensors(run: ProfileRun, module: object) -> tuple[int, ...]:
    """Return the widths of what a compiled MLP has, or shared experts.

    Those run as written, inside of one operator: its input is a tensor too, and their
    output one beside their activation.

    Source: vLLM 0.33.0 `layers/fused_moe/runner/moe_runner.py` moe_forward_shared; a
    traced dry run of Qwen1.5-MoE-A2.7B.
    """
    is_shared = getattr(module, "part", None) is Part.SHARED_EXPERTS
    wide, inner = _compiled_mlp_width(run, module)
    if not inner:
        return (wide, run.model.hidden_size) if wide else ()
    return (wide, inner, *[run.model.hidden_size] * (2 * is_shared))


def _compiled_step(run: ProfileRun, module: object) -> list[tuple[int, str]]:
    """Return the values per token of a compiled MLP."""
    wide, inner = _compiled_mlp_width(run, module)
    tensors = _compiled_tensors(run, module)
    text = f"{wide:,} MLP input + {inner:,} activation"
    if not inner:
        return [(sum(tensors), f"{wide:,} activation + {tensors[1]:,} MLP input")]
    beside = "".join(f" + {width:,}" for width in tensors[2:])
    return [(sum(tensors), f"{text}{beside}")]


def _module_widths(run: ProfileRun, module: object) -> list[tuple[int, str]]:
    wide, inner = mlp_width(run, module)
    if inner:
        text = f"{wide:,} MLP input + {inner:,} activation"
        if run.compiles:
            return _compiled_step(run, module)
        more = MORE_ACTIVATIONS.get(language_model(run), 0)
        if more and not is_own_of_old(run):
            text += f" + {more} x {inner:,}"
            wide += more * inner
        if language_model(run) not in NAMES_MLP_INPUT:
            return [(wide + inner, text), *_summed(run, inner)]
        hidden, copy = run.model.hidden_size, _fp8_copy_width(run, module, inner)
        if run.layout.tensor_parallel_size > 1:
            copy = max(0, copy - hidden)  # given up before the sum over ranks
            if getattr(module, "part", None) is Part.SHARED_EXPERTS:
                hidden = 0  # added to the routed output before there is a sum
        text += f" + {copy:,} in FP8" if copy else ""
        width = wide + inner + copy + hidden
        return [(width, f"{text} + {hidden:,} output"), *_branches(run)]
    if isinstance(module, FusedMoE):
        router = 4 * module.num_experts // run.element_size
        return [(router, f"{router:,} router")]
    return []
