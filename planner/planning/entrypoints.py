"""A plan's arguments for vLLM's other entry points: server, `LLM` class, async engine.

Their defaults differ: a server batches fewer tokens than the class, the async engine
fewer still. Defaults that the plan relies on are therefore written out, so that its
figures stay the same.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from planner.engine.releases import Release, number_of
from planner.engine.releases.shared import FILLS_IN_ANY_BATCH
from planner.engine.settings import given_arguments, serve_words
from planner.planning.batches import batch_defaults

if TYPE_CHECKING:
    from planner.planning.result import Plan


def release_of(plan: Plan) -> Release:
    """Return the release that a plan is for."""
    return Release(number_of(plan.vllm_version))


def kept_defaults(plan: Plan, entrypoint: str) -> dict[str, int]:
    """Return the arguments that `entrypoint` needs to keep the plan's figures.

    Empty where both entry points have the same defaults, and for a refused plan.
    """
    if plan.resolved is None or plan.entrypoint == entrypoint:
        return {}
    release = release_of(plan)
    own = batch_defaults(plan.gpu, plan.entrypoint, release)
    other = batch_defaults(plan.gpu, entrypoint, release)
    # Before 0.11.1 the async engine's rule depends on the model: always write both.
    is_other_rule = "engine" in (plan.entrypoint, entrypoint) and (
        not release.has(FILLS_IN_ANY_BATCH)
    )
    values = {
        "max_num_batched_tokens": plan.resolved.max_num_batched_tokens,
        "max_num_seqs": plan.resolved.max_num_seqs,
    }
    return {
        name: values[name]
        for name, mine, theirs in zip(values, own, other, strict=True)
        if (mine != theirs or is_other_rule) and getattr(plan.settings, name) is None
    }


def serve_arguments(plan: Plan) -> dict[str, Any]:
    """Return the engine arguments with which `vllm serve` starts this plan."""
    return given_arguments(plan.settings) | kept_defaults(plan, "serve")


def serve_line(plan: Plan) -> str:
    """Return the `vllm serve` line that starts this plan."""
    return shlex.join(serve_words(plan.name, serve_arguments(plan), release_of(plan)))
