"""Buffers that live beside the weights: sampler state, input buffers, workspaces.

vLLM counts them in what it finds consumed after the profile run, not in "Model loading
took".
"""

from __future__ import annotations

from planner.memory.expert_workspace import expert_workspace_bytes
from planner.memory.profile_run import ProfileRun
from planner.result import Basis, Line
from planner.units import format_size

_LOGIT_BIAS_ENTRIES = 1024 + 1024 + 1024 + 128
_BAD_WORDS_ENTRIES = 1024 + 128 + 1
_LOGPROB_TOKEN_IDS = 128
_INT32 = 4


def line(run: ProfileRun) -> Line:
    """Return the line of persistent buffers.

    The sizes are read from vLLM's code; the range covers what FlashInfer keeps of its
    own beside an expert workspace.

    Source: vLLM 0.33.0 `v1/worker/gpu/sample/`, `v1/worker/gpu/input_batch.py`,
    `v1/worker/gpu/model_runner.py`, `v1/worker/workspace.py`.
    """
    parts = {
        "sampler state": sampler_state_bytes(run),
        "input buffers": input_buffer_bytes(run),
        "pipeline hand-over": intermediate_tensors_bytes(run),
        "expert workspace": expert_workspace_bytes(run),
    }
    size_bytes = sum(parts.values())
    why = " + ".join(f"{name} {format_size(b)}" for name, b in parts.items() if b)
    detail = _sampler_arithmetic(run)
    return Line(
        name="persistent buffers",
        size_bytes=size_bytes,
        low_bytes=size_bytes,
        high_bytes=size_bytes + parts["expert workspace"],
        basis=Basis.FORMULA,
        why=f"{why}{detail}",
    )


def _sampler_arithmetic(run: ProfileRun) -> str:
    if not run.samples:
        return ""
    return (
        f"; sampler state is mostly {run.max_num_seqs:,} max_num_seqs x "
        f"{run.model.vocab_size:,} tokens x 4 bytes, on every tensor-parallel rank"
    )


def sampler_state_bytes(run: ProfileRun) -> int:
    """Return the sampler's tables, which grow with max_num_seqs and vocabulary.

    Source: vLLM 0.33.0 `v1/worker/gpu/sample/penalties.py`, `logit_bias.py`,
    `bad_words.py`, `logprob.py`; `v1/worker/gpu/structured_outputs.py`.
    """
    if not run.samples:
        return 0
    vocabulary = run.model.vocab_size
    bit_mask = -(-vocabulary // 32)
    entries = (
        vocabulary  # output_bin_counts
        + 2 * bit_mask  # prompt_bin_mask, grammar bitmask
        + _LOGIT_BIAS_ENTRIES
        + _BAD_WORDS_ENTRIES
        + _LOGPROB_TOKEN_IDS
    )
    return run.max_num_seqs * entries * _INT32


def input_buffer_bytes(run: ProfileRun) -> int:
    """Return token ids, positions and request tables.

    Source: vLLM 0.33.0 `v1/worker/gpu/input_batch.py` InputBuffers.
    """
    return 13 * run.max_num_batched_tokens + 12 * run.max_num_seqs


def intermediate_tensors_bytes(run: ProfileRun) -> int:
    """Return hidden states and residual that a later pipeline stage receives.

    Source: vLLM 0.33.0 `v1/worker/gpu/model_runner.py` load_model.
    """
    if run.is_first_stage:
        return 0
    return 2 * run.max_num_batched_tokens * run.model.hidden_size * run.element_size
