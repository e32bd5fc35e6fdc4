"""The same plan through vLLM's other doors: server, `LLM` class and async engine.

They differ in defaults: a server batches fewer tokens than the class, the bare engine
fewer still. What the plan leaves to its own door is then written out, so that the
figures stay.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from planner.defaults import batch_defaults
from planner.engine import given_arguments, serve_words
from planner.releases import Release, number_of

if TYPE_CHECKING:
    from planner.result import Plan


def release_of(plan: Plan) -> Release:
    """Return the release that a plan is for."""
    return Release(number_of(plan.vllm_version))


def kept_defaults(plan: Plan, entrypoint: str) -> dict[str, int]:
    """Return what `entrypoint` must be told to keep the plan's figures.

    Empty where both doors have the same defaults, and for a plan that vLLM refuses.
    """
    if plan.resolved is None or plan.entrypoint == entrypoint:
        return {}
    release = release_of(plan)
    own = batch_defaults(plan.gpu, plan.entrypoint, release)
    other = batch_defaults(plan.gpu, entrypoint, release)
    # The older engine's rule adds what the model needs: its figures are written anyway.
    is_other_rule = "engine" in (plan.entrypoint, entrypoint) and (
        not release.fills_in_any_batch
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
