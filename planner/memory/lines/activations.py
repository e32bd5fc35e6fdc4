"""Peak activation: what the profile run allocates temporarily and frees again.

The peak is the larger of two moments: the forward pass of `max_num_batched_tokens`
tokens, and sampling for `max_num_seqs` requests over the whole vocabulary. Up to 0.26
vLLM's figure also includes what the run leaves allocated (workspaces, a top-k buffer).

All tokens pass through the model once. Attention itself does not run; what counts is
the widest step of the largest layer, plus what its caller still holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.engine.releases.change import Change
from planner.engine.releases.shared import SUBTRACTS_CONSUMED
from planner.memory.account import Basis, Line, Ranged, Sized, Variant, around
from planner.memory.allocator import beyond_tensor
from planner.memory.lines.calibration import experts_range
from planner.memory.lines.compiled_pieces import cleared_bytes
from planner.memory.lines.compiling import (
    beyond_after_bytes,
    blas_after_layers_bytes,
    examples,
    flush_bytes,
    flushes_as_it_runs,
    pinned,
)
from planner.memory.lines.drafting import (
    block_draft_pass,
    checking_bytes,
    draft_step_bytes,
    states_in_draft_bytes,
)
from planner.memory.lines.expert_workspace import (
    draft_transient,
    expert_transient,
    expert_transient_bytes,
    expert_workspace_bytes,
    growth_for_draft_bytes,
)
from planner.memory.lines.forward_pass import (
    forward,
    normed_bytes,
    unpacked_bytes,
)
from planner.memory.lines.held_states import held_bytes, states_beside_experts
from planner.memory.lines.latent_context import (
    has_latent_layers,
    has_own_attention,
    latent_context,
)
from planner.memory.lines.persistent import (
    BLAS_WORKSPACE,
    TOP_K_BUFFER,
    kept_during,
    layer_inputs_bytes,
)
from planner.memory.lines.rounding import rounding_bytes
from planner.memory.lines.sampler import (
    blas_workspace_bytes,
    changes_stream,
    depends_on_installed,
    sampling,
)
from planner.memory.lines.tuning import tuning
from planner.memory.media.encoder import encoder_kept_bytes
from planner.memory.media.peak import encoder_peak_bytes, tuned_activation_bytes
from planner.memory.profile_run import ProfileRun, once
from planner.units import MIB, format_size

_SMALL_BYTES = 192 * MIB
"""A first start is planned where it takes no more than this beside later ones."""
_KEEPS_EXPERT_INPUT_ONCE = Change(
    since=(0, 17),
    what=(
        "Experts and shared experts read the same hidden states. Before, shared "
        "experts had a copy."
    ),
    source=(
        "vLLM 0.15.1 `layers/fused_moe/layer.py` (hidden_states_clone); 0.17.1 "
        "`layers/fused_moe/runner/`"
    ),
)
_EXAMPLES_SPREAD_PERCENT = 2
"""Dry runs and logs differ from the sum of the example values by less."""


def line(run: ProfileRun) -> Line:
    """Return the line of the peak activation on one rank.

    Source: vLLM 0.33.0 `v1/worker/gpu/model_runner.py` profile_run and _dummy_run;
    0.19.0 `v1/worker/gpu_model_runner.py` the same; `utils/mem_utils.py`
    memory_profiling.
    """
    later, first = _peaks(run)
    more = max(0, first.size_bytes - later.size_bytes)
    is_first = run.compile_cache == "cold" or (
        run.compile_cache is None and more <= _SMALL_BYTES
    )
    peak = first if is_first else later
    below, above = experts_range(_expert_bytes(run), is_batch_given=run.is_batch_given)
    return Line(
        name="peak activation",
        size_bytes=peak.size_bytes,
        low_bytes=max(0, _lowest(run, later, peak) - below),
        high_bytes=peak.high_bytes + above,
        basis=Basis.FORMULA,
        why=peak.why,
        variants=(
            *_starts(run, more, is_first=is_first),
            *_samplers(run, peak.size_bytes, is_first=is_first),
        ),
    )


def compile_bytes(run: ProfileRun) -> int:
    """Return how much more a first start takes at its peak than later ones."""
    later, first = _peaks(run)
    return max(0, first.size_bytes - later.size_bytes)


def _lowest(run: ProfileRun, later: Ranged, peak: Ranged) -> int:
    """Return the low end: that of later starts where it may be one of them."""
    is_open = run.compile_cache is None
    return min(later.low_bytes, peak.low_bytes) if is_open else peak.low_bytes


def _starts(run: ProfileRun, more: int, *, is_first: bool) -> tuple[Variant, ...]:
    """Return what a first start takes beside later ones, where it matters."""
    is_open = run.compile_cache is None
    if not more or (is_open and is_first):
        return ()
    return tuple(
        Variant(argument="compile_cache", value=value, more_bytes=size, is_open=is_open)
        for value, size in (
            ("cold", 0 if is_first else more),
            ("warm", -more if is_first else 0),
        )
    )


def _samplers(run: ProfileRun, planned: int, *, is_first: bool) -> tuple[Variant, ...]:
    """Return the peak with either sampler, where FlashInfer may be installed."""
    if not depends_on_installed(run):
        return ()
    other = replace(run, use_flashinfer_sampler=True)
    size_bytes = _peaks(other)[is_first].size_bytes
    if size_bytes == planned:
        return ()
    return tuple(
        Variant(argument="sampler", value=value, more_bytes=more, is_open=True)
        for value, more in (("flashinfer", size_bytes - planned), ("pytorch", 0))
    )


@once
def _peaks(run: ProfileRun) -> tuple[Ranged, Ranged]:
    """Return the peaks of later starts and of a first one, which compiles as well."""
    shared = [_encoder(run, encoder_peak_bytes(run))]
    if run.samples:
        shared += [_sampling(run), *_checking(run), *_drafting(run)]
    pass_ = _forward_moment(run, is_first=False)
    later = _largest([pass_, *shared])
    tuned = tuning(run)
    if tuned.size_bytes:
        shared.append(around(tuned.size_bytes, 0, tuned.why))
    if not run.compiles:
        return later, _largest([pass_, *shared])
    first = [_forward_moment(run, is_first=True), _compiling(run), *shared]
    tuned_encoder = tuned_activation_bytes(run, flush_bytes(run))
    if tuned_encoder.size_bytes:
        first.append(_encoder(run, tuned_encoder))
    return later, _pinning(run, _largest(first))


def _pinning(run: ProfileRun, peak: Ranged) -> Ranged:
    """Add what a first start cannot give back, whichever moment is its peak."""
    kept = pinned(run)
    if not kept.size_bytes:
        return peak
    return Ranged(
        size_bytes=peak.size_bytes + kept.size_bytes,
        low_bytes=peak.low_bytes,
        high_bytes=peak.high_bytes + kept.size_bytes,
        why=f"{peak.why} + {kept.why}",
    )


def _largest(moments: Sequence[Ranged]) -> Ranged:
    """Return the largest moment, with the ranges of all of them."""
    peak = max(moments, key=lambda moment: moment.size_bytes)
    return replace(
        peak,
        low_bytes=max(moment.low_bytes for moment in moments),
        high_bytes=max(moment.high_bytes for moment in moments),
    )


def _compiling(run: ProfileRun) -> Ranged:
    """Return the compiler's example values, which are freed before the model runs.

    Where the release subtracts consumed memory, its peak is what exceeds the memory at
    the end: the workspaces of cuBLAS and of experts are not allocated yet.
    """
    held = examples(run)
    kept = 0
    if run.release.has(SUBTRACTS_CONSUMED):
        kept = blas_workspace_bytes(run) + expert_workspace_bytes(run)
    size_bytes = max(0, held.size_bytes - kept)
    spread = size_bytes * _EXAMPLES_SPREAD_PERCENT // 100
    return around(size_bytes, spread, held.why)


def _expert_bytes(run: ProfileRun) -> int:
    """Return the experts' part of the peak, with their workspace where it counts."""
    if run.release.has(SUBTRACTS_CONSUMED):
        return expert_transient_bytes(run)
    return expert_workspace_bytes(run) + expert_transient_bytes(run)


def _kept(run: ProfileRun, *, sampled: bool) -> tuple[int, str]:
    """Return what the run has kept so far, where the release counts it in the peak."""
    if run.release.has(SUBTRACTS_CONSUMED):
        return 0, ""
    parts = {
        name: size
        for name, size in kept_during(run).items()
        if size and (sampled or name != TOP_K_BUFFER)
    }
    text = "".join(f" + {name} {format_size(size)}" for name, size in parts.items())
    return sum(parts.values()), text


def _sampling(run: ProfileRun) -> Ranged:
    sampled = sampling(run)
    kept, text = _kept(run, sampled=True)
    images = encoder_kept_bytes(run)
    size_bytes = sampled.size_bytes + kept + images
    spread = size_bytes * run.peak_spread_percent // 100
    return around(size_bytes, spread, f"{sampled.why}{text}{_images(images)}")


def _checking(run: ProfileRun) -> tuple[Ranged, ...]:
    """Return the first model runner's trial of rejection sampling, after sampling."""
    checked = checking_bytes(run)
    if not checked:
        return ()
    states, images = sampling(run).states_bytes, encoder_kept_bytes(run)
    kept, text = _kept(run, sampled=True)
    size_bytes = checked + states + kept + images
    spread = size_bytes * run.peak_spread_percent // 100
    why = (
        f"checking guesses: logits and copies {format_size(checked)} + hidden states "
        f"{format_size(states)}{text}{_images(images)}"
    )
    return (around(size_bytes, spread, why),)


def _forward_moment(run: ProfileRun, *, is_first: bool) -> Ranged:
    """Return the largest layer: dense, of experts, or of latent attention."""
    dense, rounding = forward(run), rounding_bytes(run)
    if is_first:
        rounding = max(rounding, beyond_after_bytes(run))
    rounded = f" + {format_size(rounding)} in larger blocks" if rounding else ""
    tokens = run.max_num_batched_tokens * run.model.hidden_size * run.element_size
    held = held_bytes(run)
    streams = run.model.residual_streams
    callers = held + tokens
    beside = callers + cleared_bytes(run)
    if streams > 1:
        # Residual streams before and after mixing, the input and the previous output.
        beside = callers = (2 * streams + 2) * tokens
    elif not run.compiles and run.release.has(_KEEPS_EXPERT_INPUT_ONCE):
        # The experts' input is one of those that their callers hold.
        beside = states_beside_experts(run) * tokens
    if streams == 1 and not run.compiles and has_latent_layers(run):
        # The residual and the layer's input; V3.2's own class has the sum as well.
        is_own = has_own_attention(run) and run.layout.tensor_parallel_size > 1
        callers = (2 + int(is_own)) * tokens
    scratch, context = expert_transient(run), latent_context(run)
    of_draft, drafted = draft_transient(run), draft_step_bytes(run)
    normed = normed_bytes(run)
    larger = _beyond_tensors(run, beside, scratch)
    later = growth_for_draft_bytes(run) if run.release.has(SUBTRACTS_CONSUMED) else 0
    in_draft = max(beside, states_in_draft_bytes(run))
    steps = [
        (dense.size_bytes + rounding, f"{dense.why}{rounded}"),
        (
            beside + scratch.size_bytes + larger - later if scratch.size_bytes else 0,
            f"forward pass: hidden states {format_size(beside)} + {scratch.why}"
            + (f" + {format_size(larger)} in larger blocks" if larger else ""),
        ),
        (
            in_draft + of_draft.size_bytes if of_draft.size_bytes else 0,
            f"the draft's pass: hidden states {format_size(in_draft)} + {of_draft.why}",
        ),
        (
            callers + context.size_bytes if context.size_bytes else 0,
            f"forward pass: hidden states {format_size(callers)} + {context.why}",
        ),
        (
            max(0, normed - drafted),
            f"forward pass: a norm in fp32 {format_size(normed - drafted)}",
        ),
    ]
    widest, why = max(steps)
    unpacked = unpacked_bytes(run)
    kept, text = _kept(run, sampled=False)
    images = encoder_kept_bytes(run)
    cold = flush_bytes(run) if is_first and flushes_as_it_runs(run) else 0
    by_layer = layer_inputs_bytes(run)
    size_bytes = widest + unpacked + kept + images + cold + drafted + by_layer
    size_bytes = max(0, size_bytes - blas_after_layers_bytes(run))
    spread = widest * run.forward_spread_percent // 100
    return Ranged(
        size_bytes=size_bytes,
        low_bytes=size_bytes - cold - spread - drafted,
        high_bytes=size_bytes + spread,
        why=f"{why}{text}{_images(images)}"
        + (f" + unpacked weights {format_size(unpacked)}" if unpacked else "")
        + (f" + compiling {format_size(cold)}" if cold else "")
        + (f" + hidden states for the draft {format_size(drafted)}" if drafted else "")
        + (f" + inputs of each layer {format_size(by_layer)}" if by_layer else ""),
    )


def _beyond_tensors(run: ProfileRun, beside: int, scratch: Sized) -> int:
    """Return what blocks have beyond tensors of experts and the states beside them.

    Each has at least a block of its own. Some take larger ones that layers before left,
    which is not counted.

    Source: traced dry runs of gpt-oss-20b, compiled, of GLM-4.7-Flash and of Nemotron
    3.5 Lightning, which take 11, 27 and 36 MiB of such blocks.
    """
    tokens = run.max_num_batched_tokens * run.model.hidden_size * run.element_size
    streams = run.model.residual_streams
    states = (*[tokens] * (beside // tokens), beside % tokens)
    if streams > 1:
        states = (*[streams * tokens] * 2, *[tokens] * 2)
    return sum(beyond_tensor(one, run.release) for one in (*states, *scratch.tensors))


def _drafting(run: ProfileRun) -> tuple[Ranged, ...]:
    """Return the pass of a draft that proposes whole blocks, after the target's."""
    draft_pass = block_draft_pass(run)
    if draft_pass is None:
        return ()
    kept, text = _kept(run, sampled=False)
    size_bytes = draft_pass.size_bytes + kept
    spread = draft_pass.size_bytes * run.forward_spread_percent // 100
    return (around(size_bytes, spread, f"{draft_pass.why}{text}"),)


def _encoder(run: ProfileRun, peak: Ranged) -> Ranged:
    """Return the encoder's moment, before the language model's.

    What the run keeps of the latter is not there yet. Where vLLM takes what is left at
    the end off the peak, it is in none of the encoder's.
    """
    if not peak.size_bytes:
        return around(0, 0, "no encoder")
    kept = kept_during(run)
    workspace = 0 if changes_stream(run) else kept[BLAS_WORKSPACE]
    beside, text = workspace, f" + {BLAS_WORKSPACE} {format_size(workspace)}"
    if run.release.has(SUBTRACTS_CONSUMED):
        beside = workspace - sum(kept.values())
        text = f" - buffers kept at the end {format_size(-beside)}"
    return Ranged(
        size_bytes=max(0, peak.size_bytes + beside),
        low_bytes=max(0, peak.low_bytes + beside),
        high_bytes=max(0, peak.high_bytes + beside),
        why=f"{peak.why}{text if beside else ''}",
    )


def _images(size_bytes: int) -> str:
    return f" + encoder outputs {format_size(size_bytes)}" if size_bytes else ""
