"""The dense forward pass: the widest step of a layer, and what its callers hold.

All tokens pass through the model once. Attention itself does not run.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.engine.generations import ADA
from planner.engine.layout import divide
from planner.engine.releases.change import Change
from planner.memory.account import Sized
from planner.memory.lines.attention_pass import (
    attention_widths,
    delta_net_widths,
    is_left_to_transformers,
    mixer_widths,
    rotation_widths,
)
from planner.memory.lines.persistent import later_workspace_bytes
from planner.memory.profile_run import ProfileRun, once_for_all_lengths
from planner.models.architecture import LayerKind
from planner.models.caches import CrossAttentionLayer
from planner.models.experts import FusedMoE
from planner.models.families.recorded import RecordedModule
from planner.models.families.refused import is_served_by_transformers
from planner.models.layers import (
    ColumnParallelLinear,
    Part,
    ReplicatedLinear,
    RowParallelLinear,
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

NAMES_MLP_INPUT = frozenset(
    """
    CohereForCausalLM Cohere2ForCausalLM Exaone4ForCausalLM ExaoneForCausalLM
    Gemma2ForCausalLM Gemma3ForCausalLM GemmaForCausalLM GraniteForCausalLM
    Gemma4ForCausalLM Gemma4ForConditionalGeneration InternLM2ForCausalLM
    MiniCPMForCausalLM OrionForCausalLM Qwen2ForCausalLM
    Qwen2ForSequenceClassification Qwen2Model Qwen3ForCausalLM
    Qwen3ForSequenceClassification Qwen3Model Qwen3_5ForConditionalGeneration
    SolarForCausalLM StableLmForCausalLM
    """.split()
)
"""Models whose MLP has a name for gate and up, so that they outlive the activation.

Llama's reuses the name, and frees them before the down projection.

Source: vLLM 0.19.1, 0.25.1 and 0.33.0 `models/qwen2.py` Qwen2MLP.forward and the like;
`models/llama.py` LlamaMLP.forward.
"""
ADDS_UP_ANEW = frozenset(
    (
        *("GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM"),
        "Qwen3_5ForConditionalGeneration",
    )
)
"""Models with Gemma's norm, whose sums with the residual are tensors of their own."""
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
HAS_OWN_SUMS = frozenset("Gemma4ForCausalLM Gemma4ForConditionalGeneration".split())
"""Models that add to the residual with an operator instead of a norm."""
_BIG_CODE = "GPTBigCodeForCausalLM"
_HOLDS_MORE = {
    **dict.fromkeys(("StableLmForCausalLM", "StableLMEpochForCausalLM"), 1),
    _BIG_CODE: 3,
    **dict.fromkeys(("ChatGLMModel", "ChatGLMForConditionalGeneration"), 2),
}
"""Hidden states that names refer to beside the usual three.

Source: vLLM 0.33.0 `models/stablelm.py` StableLMEpochModel.forward (the last layer's
residual), `models/chatglm.py` ChatGLMModel.forward, GLMBlock.forward (the embeddings,
attention's output); Transformers 5 `models/gpt_bigcode/modeling_gpt_bigcode.py`
(words, positions, attention's output), traced in a dry run of WizardCoder-15B.
"""
_ADDS_UP_BEFORE_NORM = ("bert", "roberta", "xlm-roberta")
"""Types of models whose layers add the MLP's output to its input, then normalise.

Source: vLLM 0.33.0 `models/bert.py` BertOutput.forward, BertModel.forward.
"""
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


@once_for_all_lengths
def held_bytes(run: ProfileRun) -> int:
    """Return what the experts' callers hold: residuals and attention's output."""
    hidden = run.model.hidden_size
    widths = [_held(run, hidden, _attention_width(run, kind))[0] for kind in kinds(run)]
    tokens = run.max_num_batched_tokens * run.element_size
    return tokens * max(widths, default=2 * hidden)


@once_for_all_lengths
def states_beside_experts(run: ProfileRun) -> int:
    """Return the hidden states beside routed experts, without compilation.

    The residual, their input, and the output of the layer before, to which its caller
    still refers. Where experts are a layer of their own, that output is their input.
    Transformers' classes have a name for the embeddings too.

    Source: vLLM 0.33.0 `models/nemotron_h.py` NemotronHModel.forward,
    NemotronHMoEDecoderLayer; Transformers 5.20 `models/mistral4/modeling_mistral4.py`
    Mistral4Model.forward; traced dry runs of MiMo-V2.5-Pro, Nemotron 3 Nano and Mistral
    Small 4.
    """
    with_experts = (k for k in kinds(run) if _has_experts(k))
    count = 3 if any(kind.caches for kind in with_experts) else 2
    count += int(is_served_by_transformers(run.model.architecture))
    return count - int(_adds_up_in_buffer(run))


def _adds_up_in_buffer(run: ProfileRun) -> bool:
    """Whether the residual is the buffer in which images and text are merged."""
    own = (*ADDS_UP_ANEW, *HAS_OWN_SUMS)
    is_merged = run.has_media and run.is_first_stage
    return is_merged and language_model(run) not in own


def _has_experts(kind: LayerKind) -> bool:
    return any(
        isinstance(module, FusedMoE)
        or (isinstance(module, RecordedModule) and module.is_expert)
        for module in kind.modules
    )


def kinds(run: ProfileRun) -> Iterator[LayerKind]:
    """Yield the kinds that layers have: a family may list more."""
    for index in dict.fromkeys(run.model.layers):
        yield run.model.layer_kinds[index]


def _layer_width(run: ProfileRun, kind: LayerKind) -> tuple[int, str]:
    """Return the values per token alive at a layer's peak, and that peak in words."""
    steps = [(0, "residual and input")]
    held, text = _held_of(run, kind)
    for module in kind.modules:
        steps += _module_widths(run, module)
        if not run.compiles:
            steps += attention_widths(run, kind, module)
            steps += mixer_widths(run, kind, module)
            steps += delta_net_widths(run, kind, module, held)
            steps += rotation_widths(run, module, held)
    width, shape = max(steps)
    later = later_workspace_bytes(run, kind)
    if later:
        text = f"{text} - a later workspace of {format_size(later)}"
    per_token = run.max_num_batched_tokens * run.element_size
    return max(0, held + width - later // per_token), f"{text} + {shape}"


def _held_of(run: ProfileRun, kind: LayerKind) -> tuple[int, str]:
    """Return what a layer's caller holds, by what becomes of the first hidden states.

    Without compilation, the first residual is the buffer in which images and text are
    merged, and most classes add the others up in it. Gemma's norm returns sums anew,
    and so do Gemma 4's layers. Whisper's code also refers to its positions, and to the
    sum with them. The sum over ranks after an MLP lies beside the MLP's input only
    where that has a name.

    Source: vLLM 0.25.1 and 0.33.0 `layers/layernorm.py` GemmaRMSNorm; 0.33.0
    `models/gemma4.py` Gemma4DecoderLayer, `models/whisper.py` WhisperDecoder; dry runs
    of Llama 3.1 70B on two ranks and two stages; starts of Qwen3-8B on two T4.
    """
    hidden = run.model.hidden_size
    held, text = _held(run, hidden, _attention_width(run, kind))
    if run.compiles:
        return held, text
    more = _HOLDS_MORE.get(language_model(run), 0)
    if more and (language_model(run) != _BIG_CODE or is_left_to_transformers(run)):
        held, text = held + more * hidden, f"{text} + {more} x {hidden:,} with names"
    is_cut = run.layout.tensor_parallel_size > 1
    # Widest at the activation, before there is a sum over ranks.
    before_sum = held, text
    if is_cut and language_model(run) not in NAMES_MLP_INPUT:
        before_sum = held - hidden, f"{text} - {hidden:,} of a later sum"
    if language_model(run) in ADDS_UP_ANEW:
        return held + hidden, f"{text} + {hidden:,} sum"
    if not run.has_media or not run.is_first_stage:
        return before_sum
    if any(isinstance(cache, CrossAttentionLayer) for cache in kind.caches):
        return held + 2 * hidden, f"{text} + 2 x {hidden:,} positions"
    if language_model(run) in HAS_OWN_SUMS:
        return held, text
    held, text = before_sum
    return held - hidden, f"{text} - {hidden:,} in a buffer"


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


def language_model(run: ProfileRun) -> str:
    """Return the class of the language model, or of the model itself."""
    return run.model.language_architecture or run.model.architecture


def activation_width(run: ProfileRun) -> int:
    """Return the values per token of an MLP's activation: its input and output."""
    widths = (mlp_width(run, module) for kind in kinds(run) for module in kind.modules)
    return max((wide + inner for wide, inner in widths), default=0)


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


def _module_widths(run: ProfileRun, module: object) -> list[tuple[int, str]]:
    wide, inner = mlp_width(run, module)
    if inner:
        text = f"{wide:,} MLP input + {inner:,} activation"
        if run.compiles:
            return [(wide + inner, text)]
        if language_model(run) not in NAMES_MLP_INPUT:
            return [(wide + inner, text), *_summed(run, inner)]
        hidden, copy = run.model.hidden_size, _fp8_copy_width(run, module, inner)
        if run.layout.tensor_parallel_size > 1:
            copy = max(0, copy - hidden)  # given up before the sum over ranks
        text += f" + {copy:,} in FP8" if copy else ""
        return [(wide + inner + copy + hidden, f"{text} + {hidden:,} output")]
    if isinstance(module, FusedMoE):
        router = 4 * module.num_experts // run.element_size
        return [(router, f"{router:,} router")]
    return []
