"""How much is worked on in one step: requests, tokens, and what graphs are kept for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.advice.candidate import Burden, Candidate
from planner.advice.makers.ladders import halves, power_of_two_from
from planner.advice.situation import Situation

_GIVEN = "cudagraph_capture_sizes"
_LEAST_TOKENS = 256
_FEW_TOKENS = 2048
"""Below this, prompts are read noticeably slower."""
_HARDLY_MISSED = 64
"""Requests at once that few single GPUs exceed."""


def fewer_requests(situation: Situation) -> Iterator[Candidate]:
    """Run fewer requests in one step: vLLM keeps a sampler's tables for each."""
    resolved = situation.plan.resolved
    if resolved is None:
        return
    held = situation.requests(situation.plan) // resolved.data_parallel_size
    for count in halves(resolved.max_num_seqs, power_of_two_from(_wanted(situation))):
        if count >= held:
            yield Candidate(
                kind="max_num_seqs",
                title=f"Run at most {count:,} request{'s' * (count > 1)} in one step",
                changes={"max_num_seqs": count},
                cost=f"Request number {count + 1:,} waits for one to end.",
                burden=Burden.NOTHING if count >= _HARDLY_MISSED else Burden.SPEED,
            )


def _wanted(situation: Situation) -> int:
    return 1 if situation.load is None else situation.load.requests


def fewer_tokens(situation: Situation) -> Iterator[Candidate]:
    """Work on fewer tokens in one step: the peak of activations grows with them."""
    resolved = situation.plan.resolved
    if resolved is None:
        return
    least = _FEW_TOKENS if situation.is_served else _LEAST_TOKENS
    for count in halves(resolved.max_num_batched_tokens, least):
        yield Candidate(
            kind="max_num_batched_tokens",
            title=f"Work on at most {count:,} tokens in one step",
            changes={"max_num_batched_tokens": count},
            cost="Long prompts are read in more and smaller steps, so first tokens "
            "come later.",
            burden=Burden.SPEED if count >= _FEW_TOKENS else Burden.ABILITY,
        )


def fewer_graphs(situation: Situation) -> Iterator[Candidate]:
    """Capture CUDA graphs for small batches only."""
    resolved = situation.plan.resolved
    if resolved is None or not resolved.cudagraph_capture_sizes:
        return
    now = resolved.max_cudagraph_capture_size
    held = situation.requests(situation.plan)
    for size in halves(now, power_of_two_from(max(held, _wanted(situation)))):
        yield Candidate(
            kind="max_cudagraph_capture_size",
            title=f"Capture CUDA graphs up to {size} token{'s' * (size > 1)} a step, "
            f"not {now}",
            changes={"max_cudagraph_capture_size": size},
            cost="Larger steps run without a graph, and slower.",
            burden=Burden.SPEED,
        )


def fewer_sizes(situation: Situation) -> Iterator[Candidate]:
    """Leave the largest out of capture sizes that were given."""
    settings = situation.plan.settings
    config: Any = settings.compilation_config
    table = config if isinstance(config, Mapping) else {}
    own = settings.cudagraph_capture_sizes
    given = _sizes(table.get(_GIVEN) if own is None else own)
    for most in halves(max(given, default=0)):
        kept = [size for size in given if size <= most]
        if kept:
            inside = {"compilation_config": {**table, _GIVEN: kept}}
            yield Candidate(
                kind=_GIVEN,
                title=f"Capture CUDA graphs for {len(kept)} of the {len(given)} sizes "
                f"given, up to {max(kept)} token{'s' * (max(kept) > 1)}",
                changes=inside if own is None else {_GIVEN: tuple(kept)},
                cost="Larger steps run without a graph, and slower.",
                burden=Burden.SPEED,
            )


def _sizes(given: object) -> list[int]:
    """Return sizes that are a list of numbers; planning has taken all others."""
    if not isinstance(given, list | tuple):
        return []
    return [size for size in given if type(size) is int]


def eager(situation: Situation) -> Iterator[Candidate]:
    """Capture no CUDA graphs at all."""
    resolved = situation.plan.resolved
    if resolved is None or resolved.enforce_eager or situation.plan.gpu.is_cpu:
        return
    yield Candidate(
        kind="enforce_eager",
        title="Run without CUDA graphs (enforce_eager)",
        changes={"enforce_eager": True},
        cost="Every step is launched operation by operation, which slows small "
        "batches most; vLLM compiles nothing either, so it starts sooner.",
        burden=Burden.ABILITY,
    )
