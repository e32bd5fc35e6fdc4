"""What vLLM refuses only once it runs: assertions of its profile run and scheduler.

Source: vLLM 0.33.0; whether older releases stop as well was not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.engine.generations import DATACENTER_BLACKWELL
from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.errors import Refused
from planner.memory.kv_cache.kernels import Kernels
from planner.models.architecture import ModelArchitecture
from planner.models.experts import FusedMoE
from planner.planning.defaults import ResolvedSettings

if TYPE_CHECKING:
    from planner.planning.resolve import Question

_TRTLLM_COLUMNS = 128
_STOPS_IN_PROFILE_RUN = Change(
    since=(0, 33),
    what=(
        "The profile run refuses adapters of float32, or beside a draft whose experts "
        "expect them, and drafts of pooling models; the scheduler prefix caching "
        "without a KV cache. Older releases were not read."
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
