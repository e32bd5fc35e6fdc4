"""Buffers and peaks of speculative decoding, beside the draft's weights and KV cache.

Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/speculator.py` DraftModelSpeculator,
`target_dependent_ar/speculator.py`, `standalone_ar/speculator.py`,
`ngram/speculator.py`; `v1/worker/gpu/states.py` RequestState; 0.25.0
`v1/spec_decode/llm_base_proposer.py`, `v1/worker/gpu_model_runner.py`
_dummy_sampler_run.
"""

from __future__ import annotations

from planner.engine.releases.change import Change
from planner.memory.account import Sized
from planner.memory.lines.sampler import (
    bytes_per_logit_without_flashinfer,
    sorts_vocabulary,
)
from planner.memory.profile_run import ProfileRun, once
from planner.models.architecture import Speculation
from planner.units import format_size

_READ_IMAGES = frozenset(
    {
        "BailingMoeV3VLForConditionalGeneration",
        "Exaone4_5_ForConditionalGeneration",
        "InklingForConditionalGeneration",
        "InternS2MobiusForConditionalGeneration",
        "MiMoV2OmniForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
        "Step5ForConditionalGeneration",
    }
)
"""Models whose own draft takes images; others give theirs the tokens alone.

Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/speculator.py` (supports_mm_inputs),
`models/*_mtp.py` SupportsMultiModal; a dry run of MiniMax-M3.
"""
_STATES = 3
_STATES_OF = {"MiniMaxM3SparseForConditionalGeneration": 6}
"""Hidden states beside a draft's experts: what was joined stays with its caller.

Source: vLLM 0.33.0 `models/minimax_m3/nvidia/mtp.py` MiniMaxM3MultiTokenPredictorLayer;
a traced dry run of MiniMax-M3.
"""
_FP32, _INT32, _INT64 = 4, 4, 8
_AUX_STATES = 3
_SCANNED_TOKENS = 256
_SAMPLES_BONUS = Change(
    since=(0, 11, 1),
    what=(
        "Rejection sampling takes the logits of both rows, and samples the bonus token."
    ),
    source="vLLM 0.11.0 and 0.11.1 `v1/sample/rejection_sampler.py`",
)
_KEEPS_RAW_LOGITS = Change(
    since=(0, 14),
    what="Rejection sampling copies the target's logits before it changes them.",
    source="vLLM 0.13.0 and 0.14.0 `v1/sample/rejection_sampler.py`",
)
_LOADS_DRAFT_INPUTS = Change(
    since=(0, 31),
    what=(
        "The buffer for a draft's images is allocated while it is loaded, and counts "
        "as weights. Releases before 0.31.0 were not read."
    ),
)
_CAPTURES_BLOCK_INPUTS = Change(
    since=(0, 33),
    what=(
        "A draft that proposes a whole block in one pass keeps the inputs of CUDA "
        "graphs of decode steps."
    ),
    source=(
        "vLLM 0.33.0 `v1/worker/gpu/spec_decode/dflash/speculator.py` DFlashSpeculator"
    ),
)


@once
def draft_buffer_bytes(run: ProfileRun) -> int:
    """Return a proposer's buffers: inputs, hidden states, logits, a table of tokens.

    All of them are on the last pipeline stage.
    """
    speculation = _speculation(run)
    if speculation is None:
        return 0
    seqs, drafted = run.max_num_seqs, speculation.num_speculative_tokens
    size_bytes = seqs * drafted * _INT64
    if speculation.method in ("ngram", "ngram_gpu"):
        return size_bytes + (_ngram_bytes(run, drafted) if run.uses_v2_runner else 0)
    if speculation.draft is None or speculation.method == "medusa":
        return size_bytes
    tokens = run.max_num_batched_tokens
    size_bytes += 13 * tokens + 12 * seqs + seqs * drafted * (_INT64 + _FP32)
    if speculation.method == "draft_model":
        size_bytes += (tokens + seqs) * (_INT32 + _INT64)
    elif speculation.guesses_at_once:
        size_bytes += _block_buffer_bytes(run, speculation)
    else:
        hidden = tokens * speculation.draft.hidden_size * run.element_size
        hidden *= speculation.num_streams
        # Images go into a buffer that later releases allocate with the draft.
        is_loaded = run.release.has(_LOADS_DRAFT_INPUTS)
        size_bytes += hidden + (0 if is_loaded else _image_buffer_bytes(run))
        # The target stores its streams for the draft before they are joined.
        size_bytes += hidden if speculation.num_streams > 1 else 0
    return size_bytes + _kept_logits_bytes(run, speculation)


def loaded_buffer_bytes(run: ProfileRun) -> int:
    """Return the buffer for images that is allocated while a draft is loaded.

    vLLM counts it as weights.

    Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/target_dependent_ar/speculator.py`
    load_model (inputs_embeds); a dry run of Qwen3.5-9B.
    """
    is_loaded = run.release.has(_LOADS_DRAFT_INPUTS)
    takes_images = run.model.architecture in _READ_IMAGES
    return _image_buffer_bytes(run) if is_loaded and takes_images else 0


def states_in_draft_bytes(run: ProfileRun) -> int:
    """Return the hidden states that there are beside a draft's experts."""
    return _STATES_OF.get(run.model.architecture, _STATES) * _state_bytes(run)


def _image_buffer_bytes(run: ProfileRun) -> int:
    """Return the buffer for images of a draft of the target's own checkpoint."""
    speculation = _speculation(run)
    if speculation is None or speculation.draft is None or not run.towers:
        return 0
    if speculation.method != "mtp":
        return 0
    size = speculation.draft.hidden_size * speculation.num_streams
    return run.max_num_batched_tokens * size * run.element_size


def _block_buffer_bytes(run: ProfileRun, speculation: Speculation) -> int:
    """Return the buffers of a draft that proposes a whole block in one pass.

    They hold the target's hidden states, their slots, and the positions to sample from.
    Only this proposer stores the context's slots: one row for each kind of cache in its
    layers.

    Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/dflash/speculator.py`
    DFlashSpeculator.
    """
    assert speculation.draft is not None
    tokens, guesses = run.max_num_batched_tokens, run.max_num_seqs
    guesses *= speculation.num_speculative_tokens
    kinds = len({kind.caches for kind in speculation.draft.layer_kinds})
    hidden = tokens * speculation.draft.hidden_size * run.element_size
    size_bytes = hidden + (1 + kinds) * tokens * _INT64
    size_bytes += guesses * (3 * _INT64 + _INT32)
    captures = run.graph_mode.has_full and not run.enforce_eager
    if captures and run.release.has(_CAPTURES_BLOCK_INPUTS):
        rows = min(run.max_num_seqs * speculation.query_len, tokens)
        states = (speculation.num_aux_states or 0) * run.model.hidden_size
        size_bytes += rows * states * run.element_size
    return size_bytes


def _ngram_bytes(run: ProfileRun, drafted: int) -> int:
    """Return the table of all requests' tokens, which is searched on the GPU."""
    scanned = -(-run.max_model_len // _SCANNED_TOKENS)
    each = run.max_model_len * _INT32 + scanned * _INT64 + drafted * _INT64
    return run.max_num_seqs * each


def _kept_logits_bytes(run: ProfileRun, speculation: Speculation) -> int:
    """Return the draft's logits, stored to verify its tokens."""
    if not (speculation.is_probabilistic and run.uses_v2_runner and speculation.draft):
        return 0
    rows = run.max_num_seqs * speculation.num_speculative_tokens
    return rows * speculation.draft.vocab_size * run.element_size


def draft_step_bytes(run: ProfileRun) -> int:
    """Return the target's hidden states that a draft's forward pass reads.

    EAGLE-3 collects those of three layers while the target runs.
    """
    speculation = _speculation(run)
    if speculation is None or speculation.draft is None:
        return 0
    if speculation.method in ("draft_model", "medusa"):
        return 0
    return _states_read(speculation) * _state_bytes(run)


def _states_read(speculation: Speculation) -> int:
    usual = _AUX_STATES if speculation.method == "eagle3" else 1
    return usual if speculation.num_aux_states is None else speculation.num_aux_states


def _state_bytes(run: ProfileRun) -> int:
    return run.max_num_batched_tokens * run.model.hidden_size * run.element_size


def block_draft_pass(run: ProfileRun) -> Sized | None:
    """Return the memory of one pass over whole blocks; None without such a draft.

    Beside the target's hidden states it is the largest of three: those states side by
    side and projected; keys and values of all layers, twice, and the keys once more;
    logits of every draft token of every request.

    Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/dflash/speculator.py` propose,
    `models/qwen3_dflash.py` precompute_and_store_context_kv.
    """
    speculation = _speculation(run)
    if (
        speculation is None
        or not speculation.guesses_at_once
        or speculation.draft is None
    ):
        return None
    draft, tokens = speculation.draft, run.max_num_batched_tokens * run.element_size
    states = _states_read(speculation) * _state_bytes(run)
    seen = _state_bytes(run) + states
    joined = states + tokens * draft.hidden_size
    keys = draft.num_hidden_layers * draft.num_kv_heads * draft.head_size
    ranks = run.layout.tensor_parallel_size
    stored = tokens * (draft.hidden_size + 5 * -(-keys // ranks))
    rows = run.num_requests * speculation.num_speculative_tokens
    words = speculation.draft_vocab_size or draft.vocab_size
    logits = rows * words * run.element_size * (2 if ranks > 1 else 1)
    size_bytes, what = max(
        (joined, "those states side by side"),
        (stored, "keys and values of its layers"),
        (logits, f"logits of {rows:,} guesses"),
    )
    return Sized(
        size_bytes=seen + size_bytes,
        why=f"the draft's pass: hidden states of the target {format_size(seen)} + "
        f"{what} {format_size(size_bytes)}",
    )


def checking_bytes(run: ProfileRun) -> int:
    """Return what the first model runner's trial of rejection sampling holds.

    A row per request is sampled as if FlashInfer did not. Beside it there are logits
    of two rows per request; in fp32 those of the bonus token, the target's before they
    are changed, and reciprocals of random numbers, which sorting outweighs; and a
    draft's probabilities where they are stored.

    Source: vLLM 0.11.0, 0.11.1, 0.14.0, 0.17.0 and 0.33.0
    `v1/sample/rejection_sampler.py` RejectionSampler, sample_recovered_tokens; 0.25.1
    `v1/worker/gpu_model_runner.py` _dummy_sampler_run.
    """
    speculation = _speculation(run)
    if speculation is None or run.uses_v2_runner:
        return 0
    each, release = bytes_per_logit_without_flashinfer(run), run.release
    each += (2 if release.has(_SAMPLES_BONUS) else 1) * run.element_size
    each += _FP32 * (
        (release.has(_SAMPLES_BONUS))
        + (release.has(_KEEPS_RAW_LOGITS))
        + (not sorts_vocabulary(run))
        + speculation.is_probabilistic
    )
    return run.num_requests * run.model.vocab_size * each


def _speculation(run: ProfileRun) -> Speculation | None:
    return run.model.speculation if run.samples else None
