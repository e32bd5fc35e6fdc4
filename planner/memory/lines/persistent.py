"""Buffers that persist beside the weights: sampler state, input buffers, workspaces.

They are not part of "Model loading took". Where they count depends on the release. From
0.27 on, the whole drop in free device memory is charged to the budget. Before, it was
PyTorch's peak during the profile run: buffers that the run itself allocates are in that
peak, and earlier ones are counted nowhere, but use memory outside the budget.
"""

from __future__ import annotations

from planner.engine.releases.shared import SUBTRACTS_CONSUMED
from planner.memory.account import Basis, Line, line_of
from planner.memory.lines.calibration import experts_range
from planner.memory.lines.drafting import draft_buffer_bytes
from planner.memory.lines.eplb import balancing_bytes
from planner.memory.lines.expert_workspace import (
    expert_workspace_bytes,
    growth_for_draft_bytes,
)
from planner.memory.lines.sampler import blas_workspace_bytes, sampling
from planner.memory.lines.shared_workspace import shared_workspace
from planner.memory.media.peak import encoder_tables_bytes
from planner.memory.profile_run import ProfileRun, once
from planner.models.architecture import LayerKind
from planner.models.experts import FusedMoE
from planner.models.layers import TokenBuffer
from planner.units import format_size

_LOGIT_BIAS_ENTRIES = (1024, 1024, 1024, 128)
_BAD_WORDS_ENTRIES = (1024, 128 + 1)
_LOGPROB_TOKEN_IDS = 128
_INT32 = 4
_LAYER_INPUTS = "per_layer_embeddings"
TOP_K_BUFFER = "top-k buffer"
BLAS_WORKSPACE = "cuBLAS workspace"


def line(run: ProfileRun) -> Line:
    """Return the line of persistent buffers.

    Source: vLLM 0.33.0 `v1/worker/gpu/sample/`, `v1/worker/gpu/input_batch.py`,
    `v1/worker/gpu/model_runner.py`, `v1/worker/workspace.py`; 0.26.0 and 0.27.0
    `utils/mem_utils.py` memory_profiling.
    """
    before, during = kept_before(run), kept_during(run)
    if not run.release.has(SUBTRACTS_CONSUMED):
        return _uncounted(before)
    parts = {**before, **during}
    size_bytes = sum(parts.values())
    below, above = experts_range(
        expert_workspace_bytes(run), is_batch_given=run.is_batch_given
    )
    return line_of(
        "persistent buffers",
        (size_bytes - below, size_bytes, size_bytes + above),
        Basis.FORMULA,
        f"{_sum(parts)}{_sampler_arithmetic(run)}",
    )


def _uncounted(before: dict[str, int]) -> Line:
    beside = sum(before.values())
    return line_of(
        "persistent buffers",
        0,
        Basis.FORMULA,
        "this release subtracts nothing for buffers allocated before the "
        f"profile run; they take {format_size(beside)} outside it",
    )


def _sum(parts: dict[str, int]) -> str:
    named = [f"{name} {format_size(size)}" for name, size in parts.items() if size]
    return " + ".join(named) or "none"


@once
def kept_before(run: ProfileRun) -> dict[str, int]:
    """Return the buffers allocated before the profile run, by name."""
    is_v2 = run.uses_v2_runner
    return {
        "sampler state": sampler_state_bytes(run),
        "input buffers": input_buffer_bytes(run),
        "draft buffers": draft_buffer_bytes(run),
        "multimodal input": multimodal_input_bytes(run),
        "hand-over between stages": intermediate_tensors_bytes(run) if is_v2 else 0,
        **balancing_bytes(run.model, run.layout, run.dtype, run.eplb_window),
    }


@once
def kept_during(run: ProfileRun) -> dict[str, int]:
    """Return the buffers that the profile run allocates and keeps, by name."""
    is_v2 = run.uses_v2_runner
    return {
        BLAS_WORKSPACE: blas_workspace_bytes(run),
        "encoder tables": encoder_tables_bytes(run),
        TOP_K_BUFFER: sampling(run).kept_bytes,
        "shared workspace": shared_workspace(
            run, kv_cache_dtype=run.kv_cache_dtype
        ).size_bytes,
        "pipeline hand-over": 0 if is_v2 else intermediate_tensors_bytes(run),
    }


def _sampler_arithmetic(run: ProfileRun) -> str:
    if not sampler_state_bytes(run):
        return ""
    return (
        f"; sampler state is mostly {run.max_num_seqs:,} max_num_seqs x "
        f"{run.model.vocab_size:,} tokens x 4 bytes, on every tensor-parallel rank"
    )


def sampler_state_bytes(run: ProfileRun) -> int:
    """Return the tables of the second model runner's sampler.

    They grow with max_num_seqs and the vocabulary.

    Source: vLLM 0.33.0 `v1/worker/gpu/sample/penalties.py`, `logit_bias.py`,
    `bad_words.py`, `logprob.py`; `v1/worker/gpu/structured_outputs.py`.
    """
    return sum(sampler_state_sizes(run))


def sampler_state_sizes(run: ProfileRun) -> tuple[int, ...]:
    """Return the bytes of each tensor of the second runner's sampler."""
    if not run.samples or not run.uses_v2_runner:
        return ()
    vocabulary = run.model.vocab_size
    bit_mask = -(-vocabulary // 32)
    entries = (
        bit_mask,  # prompt_bin_mask
        vocabulary,  # output_bin_counts
        *_LOGIT_BIAS_ENTRIES,
        *_BAD_WORDS_ENTRIES,
        _LOGPROB_TOKEN_IDS,
        run.model.query_len * bit_mask,  # grammar bitmask
    )
    return tuple(run.max_num_seqs * entry * _INT32 for entry in entries)


def input_buffer_bytes(run: ProfileRun) -> int:
    """Return the buffers of token ids, positions and request tables.

    Source: vLLM 0.33.0 `v1/worker/gpu/input_batch.py` InputBuffers.
    """
    return 13 * run.max_num_batched_tokens + 12 * run.max_num_seqs


def multimodal_input_bytes(run: ProfileRun) -> int:
    """Return the buffer in which embeddings of images or prompts and text are merged.

    Source: vLLM 0.33.0 `v1/worker/gpu/mm/encoder_runner.py`; 0.19.0
    `v1/worker/gpu_model_runner.py` (inputs_embeds).
    """
    has_vectors = run.has_media or run.takes_prompt_embeds
    if not has_vectors or not run.is_first_stage:
        return 0
    return run.max_num_batched_tokens * run.model.hidden_size * run.element_size


def layer_inputs_bytes(run: ProfileRun) -> int:
    """Return what Gemma 3n and 4 project for each layer before the first one.

    It lives as long as the forward pass.

    Source: vLLM 0.33.0 `models/gemma4.py` project_per_layer_inputs.
    """
    columns = sum(
        module.columns
        for module in run.model.every_stage
        if isinstance(module, TokenBuffer) and module.name == _LAYER_INPUTS
    )
    return run.max_num_batched_tokens * columns * run.element_size


def later_workspace_bytes(run: ProfileRun, kind: LayerKind) -> int:
    """Return the experts' workspace where all layers of a kind come before it.

    vLLM takes what is left at the end off the peak: DeepSeek's first layers are dense,
    and have no workspace beside them. All come before a draft's experts enlarge it.

    Source: vLLM 0.33.0 `utils/mem_utils.py` memory_profiling
    (transient_peak_headroom), `v1/worker/workspace.py`.
    """
    own = _layers_of(run, kind)
    return workspace_after(run, own[-1]) if own else 0


def workspace_after(run: ProfileRun, layer: int) -> int:
    """Return the part of the experts' workspace that comes after a layer."""
    if not run.release.has(SUBTRACTS_CONSUMED):
        return 0
    kinds = [one for one in run.model.layer_kinds if _has_experts(one)]
    sparse = min((n for one in kinds for n in _layers_of(run, one)), default=-1)
    if run.is_first_stage and layer <= sparse:
        return expert_workspace_bytes(run)
    return growth_for_draft_bytes(run)


def _layers_of(run: ProfileRun, kind: LayerKind) -> list[int]:
    kinds = run.model.layer_kinds
    return [n for n, at in enumerate(run.model.layers) if kinds[at] is kind]


def _has_experts(kind: LayerKind) -> bool:
    return any(isinstance(module, FusedMoE) for module in kind.modules)


def intermediate_tensors_bytes(run: ProfileRun) -> int:
    """Return the hidden states and residual that a later pipeline stage receives.

    Source: vLLM 0.33.0 `v1/worker/gpu/model_runner.py` load_model; 0.19.0
    `v1/worker/gpu_model_runner.py` _dummy_run.
    """
    if run.is_first_stage:
        return 0
    return 2 * run.max_num_batched_tokens * run.model.hidden_size * run.element_size
