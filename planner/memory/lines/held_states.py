"""What the callers of a step hold: hidden states, by how a model's class names them."""

from __future__ import annotations

from planner.memory.lines.attention_pass import (
    is_left_to_transformers,
    kinds,
    language_model,
)
from planner.memory.lines.compiled_pieces import left_width
from planner.memory.profile_run import ProfileRun, once_for_all_lengths
from planner.models.architecture import LayerKind
from planner.models.caches import CrossAttentionLayer
from planner.models.experts import FusedMoE
from planner.models.families.recorded import RecordedModule
from planner.models.families.refused import is_served_by_transformers
from planner.models.families.registry import BUILT_OTHERWISE
from planner.models.layers import (
    Part,
)

NAMES_MLP_INPUT = frozenset(
    """
    Cohere2ForCausalLM CohereForCausalLM DeepseekForCausalLM DeepseekV2ForCausalLM
    DeepseekV3ForCausalLM Ernie4_5_MoeForCausalLM Exaone4ForCausalLM ExaoneForCausalLM
    Gemma2ForCausalLM Gemma3ForCausalLM Gemma4ForCausalLM Gemma4ForConditionalGeneration
    GemmaForCausalLM Glm4MoeForCausalLM Glm4MoeLiteForCausalLM GraniteForCausalLM
    HYV3ForCausalLM InternLM2ForCausalLM KimiK25ForConditionalGeneration Lfm2ForCausalLM
    Lfm2MoeForCausalLM MiMoForCausalLM MiMoV2FlashForCausalLM MiMoV2ForCausalLM
    MiniCPMForCausalLM MiniCPMV4_6ForConditionalGeneration MolmoForCausalLM
    MuseGlimmerForConditionalGeneration OrionForCausalLM Qwen2ForCausalLM
    Qwen2ForSequenceClassification Qwen2Model Qwen2MoeForCausalLM
    Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration Qwen3ForCausalLM
    Qwen3ForSequenceClassification Qwen3Model Qwen3MoeForCausalLM Qwen3NextForCausalLM
    SarvamMoEForCausalLM SolarForCausalLM StableLmForCausalLM Step3p5ForCausalLM
    """.split()
)
"""Models whose MLP has a name for gate and up, so that they outlive the activation.

Llama's reuses the name, and frees them before the down projection.

Source: vLLM 0.19.1, 0.25.1 and 0.33.0 `models/qwen2.py` Qwen2MLP.forward,
`models/deepseek_v2.py` DeepseekV2MLP.forward and the like; `models/llama.py`
LlamaMLP.forward; a traced dry run of DeepSeek-OCR, whose shared experts are widest.
"""
ADDS_UP_ANEW = frozenset(
    (
        *("GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM"),
        *("Qwen3_5ForConditionalGeneration", "MiniCPMV4_6ForConditionalGeneration"),
    )
)
"""Models with Gemma's norm, whose sums with the residual are tensors of their own."""
HAS_OWN_SUMS = frozenset(
    (
        *("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"),
        "MuseGlimmerForConditionalGeneration",
    )
)
"""Models that add to the residual with an operator instead of a norm."""
_NAMES_SUM_OF_RANKS = ("Qwen3NextForCausalLM",)
"""Models whose layers refer to the sum over ranks that the norm before experts read.

Source: a traced dry run of Qwen3-Next-80B-A3B-Thinking-FP8 on four B200.
"""
MORE_ACTIVATIONS = {
    **dict.fromkeys(("SmolLM3ForCausalLM", "SeedOssForCausalLM"), 0),
    "GlmForCausalLM": 1,
    "PhiForCausalLM": 2,
}
"""Classes of Transformers, and how many activations more each has at once.

GLM's product with the gate is a tensor of its own; Phi's GELU is written in Python.

Source: Transformers 5.20 `models/glm/modeling_glm.py` GlmMLP.forward,
`activations.py` NewGELUActivation.forward.
"""
_HOLDS_MORE = {
    **dict.fromkeys((*MORE_ACTIVATIONS, "PhiMoEForCausalLM", "OPTForCausalLM"), 1),
    **dict.fromkeys(("StableLmForCausalLM", "StableLMEpochForCausalLM"), 1),
    "MuseGlimmerForConditionalGeneration": 1,
    **dict.fromkeys(("GPT2LMHeadModel", "GPTBigCodeForCausalLM"), 3),
    **dict.fromkeys(("ChatGLMModel", "ChatGLMForConditionalGeneration"), 2),
}
"""Hidden states that names refer to beside the usual three.

Source: vLLM 0.33.0 `models/stablelm.py` StableLMEpochModel.forward (the last layer's
residual), `models/phimoe.py` (the same), `models/opt.py` (words and positions),
`models/gpt2.py` GPT2Block.forward (the same, attention's output),
`models/chatglm.py` ChatGLMModel.forward, GLMBlock.forward (the embeddings, attention's
output), `models/muse_glimmer.py` MuseGlimmerDecoderLayer.forward (the sum before the
MLP of the layer before); Transformers 5 `models/gpt_bigcode/modeling_gpt_bigcode.py`
(words, positions, attention's output), traced in a dry run of WizardCoder-15B; the
others name words.
"""
_ONE_NORM = 2
"""Tensors of a LayerNorm: weight and bias."""


@once_for_all_lengths
def held_bytes(run: ProfileRun) -> int:
    """Return what the experts' callers hold: residuals and attention's output."""
    hidden = run.model.hidden_size
    return run.max_num_batched_tokens * run.element_size * _held(run, hidden)[0]


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
    is_summed = run.layout.tensor_parallel_size > 1
    count += int(is_summed and language_model(run) in _NAMES_SUM_OF_RANKS)
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


def held_of(run: ProfileRun, kind: LayerKind) -> tuple[int, str]:
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
    held, text = _held(run, hidden)
    if run.compiles:
        return held, text
    more = _more_states(run, kind)
    if more and not is_own_of_old(run):
        held, text = held + more * hidden, f"{text} + {more} x {hidden:,} with names"
    # Widest at the activation, before there is a sum over ranks.
    before_sum = held, text
    if later := later_sum(run):
        before_sum = held - later, f"{text} - {later:,} of a later sum"
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


def later_sum(run: ProfileRun) -> int:
    """Return the width of a sum over ranks that is not among what callers hold."""
    is_cut = run.layout.tensor_parallel_size > 1
    named = (*NAMES_MLP_INPUT, *ADDS_UP_ANEW)
    return run.model.hidden_size if is_cut and language_model(run) not in named else 0


def _more_states(run: ProfileRun, kind: LayerKind) -> int:
    """Return how many hidden states more there are than the usual three.

    Larger Falcons normalise the MLP's input apart from attention's.

    Source: vLLM 0.33.0 `models/falcon.py` FalconDecoderLayer.forward.
    """
    if language_model(run) != "FalconForCausalLM":
        return _HOLDS_MORE.get(language_model(run), 0)
    norms = (m for m in kind.modules if m.part is Part.NORMS)
    return int(any(len(m.tensors(run.layout)) > _ONE_NORM for m in norms))


def is_own_of_old(run: ProfileRun) -> bool:
    """Whether vLLM has a class of its own that Transformers' replaces later."""
    is_once_own = language_model(run) in BUILT_OTHERWISE
    return is_once_own and not is_left_to_transformers(run)


def _held(run: ProfileRun, hidden: int) -> tuple[int, str]:
    """Return what a layer's caller holds: two residuals, and what attention leaves.

    Without compilation it is a third hidden state instead of the output, and a fourth
    with all-reduce.
    """
    if run.compiles:
        left = left_width(run)
        return 2 * hidden + left, f"2 x {hidden:,} residual + {left:,} output"
    count = 3 + int(run.layout.tensor_parallel_size > 1)
    return count * hidden, f"{count} x {hidden:,} hidden states"
