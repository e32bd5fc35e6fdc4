"""What vLLM refuses only once it runs: its profile run, its scheduler, its kernels.

Source: vLLM 0.31.0 to 0.33.0; whether older releases stop as well was not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.engine.generations import DATACENTER_BLACKWELL, HOPPER, TURING
from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.errors import Refused
from planner.memory.account import NOT_SERVED, VLLMError
from planner.memory.kv_cache.kernels import Kernels
from planner.models.architecture import ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.experts import FusedMoE
from planner.models.quantization.compressed_schemes import Int8Linear
from planner.planning.defaults import ResolvedSettings

if TYPE_CHECKING:
    from planner.planning.resolve import Question

_TRTLLM_COLUMNS = 128
_NAMES = {"float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float"}
"""Dtypes as PyTorch's errors have them."""
_STOPS_IN_PROFILE_RUN = Change(
    since=(0, 31),
    what=(
        "The profile run refuses adapters of float32, or beside a draft whose experts "
        "expect them, drafts of pooling models, and Nemotron-H's draft in a dtype that "
        "its checkpoint has not; the scheduler prefix caching without a KV cache. "
        "Older releases were not read."
    ),
)

_SINKS_FAIL = Change(
    since=(0, 31),
    what="Models with keys held as sinks end their start with an error.",
    source=(
        "vLLM 0.31.0 to 0.33.0 `v1/core/single_type_kv_cache_manager.py` "
        "SinkFullAttentionManager, which lacks an argument that it is called with. "
        "Older releases were not read"
    ),
)


_LACKS_VOLTA = Change(
    since=(0, 25),
    what=(
        "The published wheels hold no kernels for Volta. Older wheels were not looked "
        "at."
    ),
    source=(
        "vLLM 0.31.0 and 0.33.0 with PyTorch 2.13 and 2.14 for CUDA 13: "
        "torch.cuda.get_arch_list, and the architectures in vLLM's own libraries; the "
        "build flags that collect_env prints of 0.25.1 (vllm-project/vllm issue 49878)"
    ),
)


_WRITES_BFLOAT16 = Change(
    since=(0, 12),
    what=(
        "A model in float16 ends its start with an FP8 KV cache on Hopper. Releases "
        "before 0.12.0 were not read."
    ),
    source=(
        "vLLM's FlashAttention `hopper/flash_api.cpp` mha_fwd; its words are in the "
        "wheels of 0.12.0, 0.26.0 and 0.33.0"
    ),
)


def check_profile_run(
    question: Question, resolved: ResolvedSettings, kernels: Kernels
) -> None:
    """Refuse what vLLM refuses on a GPU after it has loaded the model, in its order.

    Raises:
        Refused: in vLLM's words, and an explanation of ours where it has none.
    """
    model, layout = question.model, question.layout
    has_guesses = question.settings.speculative_config is not None
    if question.gpu.is_cpu or not layout.release.has(_STOPS_IN_PROFILE_RUN):
        return
    if layout.enable_lora:
        _check_adapters(model, resolved, layout)
    if model.speculation is not None and model.speculation.draft is not None:
        _check_draft_dtype(model, resolved.dtype)
    if has_guesses and model.is_pooling and resolved.uses_v2_model_runner:
        raise Refused(
            "AssertionError: assert self.sampler is not None (speculative_config with "
            "a model that samples no tokens)"
        )
    if question.settings.enable_prefix_caching and not kernels.specs:
        raise Refused(
            "AssertionError: HybridKVCacheCoordinator requires at least one cacheable "
            "group. (enable_prefix_caching for a model without a KV cache)"
        )


def _check_adapters(
    model: ModelArchitecture, resolved: ResolvedSettings, layout: ParallelLayout
) -> None:
    """Refuse what the kernels of adapters cannot compute.

    Source: vLLM 0.33.0 `lora/ops/triton_ops/lora_expand_op.py` _lora_expand,
    `layers/fused_moe/experts/trtllm_lora_moe.py` _TrtLlmLoRAExpertsBase.apply.
    """
    if resolved.dtype == "float32":
        raise Refused(
            "AssertionError: assert weight.dtype in [torch.float16, torch.bfloat16] "
            "(enable_lora with dtype float32)"
        )
    if _has_draft_experts_for_adapters(model, layout):
        raise Refused("AssertionError: LoRA context must be set")


def _check_draft_dtype(model: ModelArchitecture, dtype: str) -> None:
    """Refuse Nemotron-H's own draft where the start has another dtype than its files.

    The projection of both inputs keeps that of config.json.

    Source: vLLM 0.31.0 and 0.33.0 `models/nemotron_h_mtp.py` (eh_proj's params_dtype);
    a dry run of Nemotron-3-Super-120B-A12B-NVFP4 with dtype float16.
    """
    config = model.files.config if model.files else {}
    stored = config.get("dtype", config.get("torch_dtype"))
    is_own = model.architecture == "NemotronHForCausalLM"
    if is_own and stored in _NAMES and stored != dtype:
        raise Refused(
            "RuntimeError: expected mat1 and mat2 to have the same dtype, but got: "
            f"{_NAMES[dtype]} != {_NAMES[stored]} (a draft in another dtype than its "
            "checkpoint's)"
        )


def _has_draft_experts_for_adapters(
    model: ModelArchitecture, layout: ParallelLayout
) -> bool:
    """Whether a draft's experts have a kernel that needs adapters, which it has not.

    On B200 unquantised experts have TRT-LLM's kernel for adapters; a draft is built
    with it and gets none.

    Source: vLLM 0.33.0 `layers/fused_moe/oracle/unquantized.py`
    select_unquantized_moe_backend (_trtllm_bf16_lora_supported).
    """
    draft = None if model.speculation is None else model.speculation.draft
    if draft is None or layout.compute_capability[0] != DATACENTER_BLACKWELL.major:
        return False
    return any(
        isinstance(module, FusedMoE)
        and module.method is None
        and module.activation == "silu"
        and module.is_renormalized
        and not module.intermediate_size_per_rank(layout) % _TRTLLM_COLUMNS
        for module in draft.last_stage
    )


def end_of_start(
    question: Question, resolved: ResolvedSettings, kernels: Kernels
) -> VLLMError | None:
    """Return with what a start ends that loads and measures what is planned."""
    message = _sinks(question) or _int8(question) or _volta(question)
    message = message or _fp8_of_fp16(question, resolved, kernels)
    return None if message is None else VLLMError(kind=NOT_SERVED, message=message)


def _sinks(question: Question) -> str | None:
    """Say that the newest release does not serve keys held as sinks."""
    has_sinks = any(
        isinstance(cache, AttentionLayer) and cache.num_sink_tokens
        for kind in question.model.layer_kinds
        for cache in kind.caches
    )
    if not has_sinks or not question.layout.release.has(_SINKS_FAIL):
        return None
    return (
        f"vLLM {question.release.version} does not serve this model: it measures what "
        "is planned here, and then ends with SinkFullAttentionManager.__init__() got "
        "an unexpected keyword argument 'needs_kv_cache_zeroing'. Use a release in "
        "which that is mended."
    )


def _int8(question: Question) -> str | None:
    """Say that no kernel multiplies INT8 activations on Blackwell.

    vLLM's answers that were recorded without kernels have these starts.

    Source: vLLM 0.31.0 and 0.33.0 `csrc/libtorch_stable/quantization/w8a8/cutlass/c3x/
    scaled_mm_helper.hpp` dispatch_scaled_mm, and a dry run of 0.31.0 on GB10; the same
    file under `csrc/quantization/cutlass_w8a8/` of the releases of 2025.
    """
    if question.layout.compute_capability < DATACENTER_BLACKWELL:
        return None
    modules = (m for kind in question.model.layer_kinds for m in kind.modules)
    if not any(isinstance(getattr(m, "method", None), Int8Linear) for m in modules):
        return None
    return (
        f"vLLM {question.release.version} does not serve INT8 weights and activations "
        "on this GPU: it loads what is planned here, and its profile run then ends, "
        "since CUTLASS has no kernel for Int8 there. Use FP8 weights of this model, or "
        "INT8 weights alone (w8a16)."
    )


def _fp8_of_fp16(
    question: Question, resolved: ResolvedSettings, kernels: Kernels
) -> str | None:
    """Say that FlashAttention 3 writes bfloat16 alone from an FP8 KV cache.

    It runs first where CUDA graphs are captured; without them, in the first request.

    Source: vLLM 0.33.0's FlashAttention `hopper/flash_api.cpp` mha_fwd; dry runs of
    WizardCoder-15B and of Qwen3-0.6B on H100 with dtype float16.
    """
    gpu, release = question.gpu, question.release
    names = {held.backend.name for held in kernels.layers.caches if held.backend}
    is_so = resolved.dtype == "float16" and resolved.kv_cache_dtype.startswith("fp8")
    is_flash_3 = gpu.compute_capability == HOPPER and "FLASH_ATTN" in names
    if not (is_so and is_flash_3 and release.has(_WRITES_BFLOAT16)):
        return None
    if resolved.enforce_eager:
        return None
    return (
        f"vLLM {release.version} loads what is planned here, and ends while it "
        "captures CUDA graphs: RuntimeError: mha_fwd: For FP8 input, output must have "
        "dtype BF16. Use dtype bfloat16 or a KV cache in 16 bits."
    )


def _volta(question: Question) -> str | None:
    """Say that published wheels have no kernels for compute capability 7.0."""
    gpu, release = question.gpu, question.release
    if gpu.is_cpu or gpu.compute_capability >= TURING:
        return None
    if not release.has(_LACKS_VOLTA):
        return None
    return (
        f"vLLM {release.version} as it is published does not run on {gpu.name}: its "
        "wheels and PyTorch's hold kernels for compute capability 7.5 and later, so "
        "that the start ends with CUDA error: no kernel image is available for "
        "execution on the device. The plan is that of a build of your own for 7.0 "
        "(PyTorch for CUDA 12.6). Otherwise use a newer GPU."
    )
