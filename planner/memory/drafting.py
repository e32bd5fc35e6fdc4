"""What guessing tokens ahead keeps and needs beside the draft's weights and KV cache.

Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/speculator.py` DraftModelSpeculator,
`target_dependent_ar/speculator.py`, `standalone_ar/speculator.py`,
`ngram/speculator.py`; `v1/worker/gpu/states.py` RequestState; 0.25.0
`v1/spec_decode/llm_base_proposer.py`, `v1/worker/gpu_model_runner.py`
_dummy_sampler_run.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.memory.profile_run import ProfileRun, once
from planner.model import Speculation
from planner.units import format_size

_FP32, _INT32, _INT64 = 4, 4, 8
_AUX_STATES = 3
_SCANNED_TOKENS = 256


def _drafts(run: ProfileRun) -> Speculation | None:
    return run.model.speculation if run.samples else None


@once
def draft_buffer_bytes(run: ProfileRun) -> int:
    """Return the buffers of who guesses: inputs, hidden states, logits, a token table.

    All lie on the last pipeline stage.
    """
    found = _drafts(run)
    if found is None:
        return 0
    seqs, guessed = run.max_num_seqs, found.num_speculative_tokens
    size_bytes = seqs * guessed * _INT64
    if found.method in ("ngram", "ngram_gpu"):
        return size_bytes + (_ngram_bytes(run, guessed) if run.uses_v2_runner else 0)
    if found.draft is None or found.method == "medusa":
        return size_bytes
    tokens = run.max_num_batched_tokens
    size_bytes += 13 * tokens + 12 * seqs + seqs * guessed * (_INT64 + _FP32)
    if found.method == "draft_model":
        size_bytes += (tokens + seqs) * (_INT32 + _INT64)
    elif found.guesses_at_once:
        size_bytes += _block_buffer_bytes(run, found)
    else:
        hidden = tokens * found.draft.hidden_size * run.element_size
        hidden *= found.num_streams
        # Drafts from the target's own checkpoint may be given images as well.
        takes_images = found.method == "mtp" and bool(run.towers)
        size_bytes += hidden * (2 if takes_images else 1)
        # The target keeps its streams for the draft, where they are not joined yet.
        size_bytes += hidden if found.num_streams > 1 else 0
    return size_bytes + _kept_logits_bytes(run, found)


def _block_buffer_bytes(run: ProfileRun, found: Speculation) -> int:
    """Return the buffers of a draft that guesses a whole block in one pass.

    What it read of the target, where that lies, and which places it samples from; what
    CUDA graphs of decode steps read, since 0.33.0. Nobody else keeps a context's slots:
    one row is taken for each kind of its layers' caches.

    Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/dflash/speculator.py`
    DFlashSpeculator.
    """
    assert found.draft is not None
    tokens, guesses = run.max_num_batched_tokens, run.max_num_seqs
    guesses *= found.num_speculative_tokens
    kinds = len({kind.caches for kind in found.draft.layer_kinds})
    hidden = tokens * found.draft.hidden_size * run.element_size
    size_bytes = hidden + (1 + kinds) * tokens * _INT64
    size_bytes += guesses * (3 * _INT64 + _INT32)
    if run.release.since(0, 33) and run.graph_mode.has_full and not run.enforce_eager:
        rows = min(run.max_num_seqs * found.query_len, tokens)
        states = (found.num_aux_states or 0) * run.model.hidden_size
        size_bytes += rows * states * run.element_size
    return size_bytes


def _ngram_bytes(run: ProfileRun, guessed: int) -> int:
    """Return the table of all requests' tokens, which the GPU searches."""
    scanned = -(-run.max_model_len // _SCANNED_TOKENS)
    each = run.max_model_len * _INT32 + scanned * _INT64 + guessed * _INT64
    return run.max_num_seqs * each


def _kept_logits_bytes(run: ProfileRun, found: Speculation) -> int:
    """Return the draft's logits, kept to check its guesses by."""
    if not (found.is_probabilistic and run.uses_v2_runner and found.draft):
        return 0
    rows = run.max_num_seqs * found.num_speculative_tokens
    return rows * found.draft.vocab_size * run.element_size


def draft_step_bytes(run: ProfileRun) -> int:
    """Return the target's hidden states that a draft's forward pass looks at.

    EAGLE-3 gathers those of three layers while the target runs.
    """
    found = _drafts(run)
    if found is None or found.draft is None:
        return 0
    if found.method in ("draft_model", "medusa"):
        return 0
    return _states_read(found) * _state_bytes(run)


def _states_read(found: Speculation) -> int:
    usual = _AUX_STATES if found.method == "eagle3" else 1
    return usual if found.num_aux_states is None else found.num_aux_states


def _state_bytes(run: ProfileRun) -> int:
    return run.max_num_batched_tokens * run.model.hidden_size * run.element_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """What a draft's own pass takes in the profile run."""

    size_bytes: int
    why: str


def block_guess(run: ProfileRun) -> Guess | None:
    """Return what one pass over whole blocks takes; None: there is no such draft.

    Beside what the target saw, the larger of three: those states side by side and
    projected; keys and values of all layers, twice over and the keys once more; logits
    of every guess of every request.

    Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/dflash/speculator.py` propose,
    `models/qwen3_dflash.py` precompute_and_store_context_kv.
    """
    found = _drafts(run)
    if found is None or not found.guesses_at_once or found.draft is None:
        return None
    draft, tokens = found.draft, run.max_num_batched_tokens * run.element_size
    states = _states_read(found) * _state_bytes(run)
    seen = _state_bytes(run) + states
    joined = states + tokens * draft.hidden_size
    keys = draft.num_hidden_layers * draft.num_kv_heads * draft.head_size
    ranks = run.layout.tensor_parallel_size
    stored = tokens * (draft.hidden_size + 5 * -(-keys // ranks))
    rows = run.num_requests * found.num_speculative_tokens
    words = found.draft_vocab_size or draft.vocab_size
    logits = rows * words * run.element_size * (2 if ranks > 1 else 1)
    size_bytes, what = max(
        (joined, "those states side by side"),
        (stored, "keys and values of its layers"),
        (logits, f"logits of {rows:,} guesses"),
    )
    return Guess(
        size_bytes=seen + size_bytes,
        why=f"the draft's pass: hidden states of the target {format_size(seen)} + "
        f"{what} {format_size(size_bytes)}",
    )


def checking_bytes(run: ProfileRun) -> int:
    """Return the logits with which the first model runner tries its checks out.

    Two rows a request, beside the row each that was sampled from; a draft's
    probabilities where they are kept.
    """
    found = _drafts(run)
    if found is None or run.uses_v2_runner:
        return 0
    entries = run.num_requests * run.model.vocab_size
    kept = 2 * _FP32 if found.is_probabilistic else 0
    return entries * (3 * run.element_size + kept)
