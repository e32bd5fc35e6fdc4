"""The smallest share of a GPU's memory that serves a load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planner.gpu import GPU
from planner.load import Load
from planner.serving import Serving
from planner.solve.asking import Start, asked
from planner.solve.budgets import (
    STEP,
    Shares,
    at_share,
    largest_share,
    smallest_share,
)
from planner.solve.nearest import nearest
from planner.solve.solution import Solution
from planner.solve.words import fails, holds, wanted_text, where

_QUESTION = "utilization"


def smallest_utilization(
    model: Start,
    gpu: str | GPU | Load | None = None,
    *,
    load: Load | None = None,
    step: float = STEP,
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> Solution:
    """Find the smallest `gpu_memory_utilization` that serves a load.

    `max_model_len` and `max_num_seqs` follow the load unless they are given.

    Args:
        model: as `planner.plan` takes it, or a plan whose arguments count; its
            `gpu_memory_utilization` does not.
        gpu: as `planner.plan` takes it; None: the plan's, else H100. A Load counts
            as load=.
        load: also as prompt_tokens=, output_tokens= and requests=; None: one request
            of max_model_len tokens, which is what vLLM needs to start.
        step: of the shares that are tried.
        arguments: engine arguments, vllm_version, entrypoint and env.

    Raises:
        PlannerError: for input that cannot be planned; a load that nothing serves is
            an answer.
    """
    shares = Shares.of(step)
    inputs, wanted = asked(model, gpu, load, arguments)
    at = at_share(inputs, wanted, shares)
    steps = smallest_share(at, shares)
    if steps is not None:
        return _solution(at, steps, shares, wanted)
    most = largest_share(at, shares)
    short = at(most)
    share = shares.share(most)
    other = nearest(inputs.changed(gpu_memory_utilization=share), wanted)
    return Solution(
        question=_QUESTION,
        asked=_asked(short, wanted),
        value=None,
        unit="of the GPU's memory",
        plan=None,
        next_plan=short.plan,
        why=f"Even at gpu_memory_utilization={share:g}: {fails(short)}. "
        f"{other.sentence}",
        nearest=other.loads,
    )


def _solution(
    at: Callable[[int], Serving], steps: int, shares: Shares, wanted: Load | None
) -> Solution:
    edge = at(steps)
    beyond = at(steps - 1) if steps > 1 else None
    why = f"At gpu_memory_utilization={shares.share(steps):g}: {holds(edge)}. "
    if beyond is None:
        why += "It is the smallest share of this step."
    else:
        why += f"At {shares.share(steps - 1):g}: {fails(beyond)}."
    return Solution(
        question=_QUESTION,
        asked=_asked(edge, wanted),
        value=shares.share(steps),
        unit="of the GPU's memory",
        plan=edge.plan,
        next_plan=None if beyond is None else beyond.plan,
        why=why,
        load=wanted,
    )


def _asked(serving: Serving, wanted: Load | None) -> str:
    return (
        f"smallest gpu_memory_utilization of {where(serving.plan)} for "
        f"{wanted_text(wanted)}"
    )
