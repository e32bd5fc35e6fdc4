"""The smallest KV cache that serves a load, to the byte."""

from __future__ import annotations

from typing import Any

from planner.gpu import GPU
from planner.inputs import Inputs
from planner.load import Load
from planner.serving import Serving
from planner.solve.asking import Start, asked
from planner.solve.budgets import (
    STEP,
    Shares,
    at_share,
    is_enough,
    largest_share,
    smallest_bytes,
)
from planner.solve.nearest import nearest
from planner.solve.solution import Solution
from planner.solve.words import fails, holds, low_rank, wanted_text, where
from planner.units import format_gib

_QUESTION = "kv-cache-memory"


def smallest_kv_cache_memory(
    model: Start,
    gpu: str | GPU | Load | None = None,
    *,
    load: Load | None = None,
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> Solution:
    """Find the fewest `kv_cache_memory_bytes` that serve a load; one less does not.

    The GPU must have as much beside weights and activations: what vLLM would give the
    KV cache at the largest share of the GPU that is free.

    Args:
        model: as `planner.plan` takes it, or a plan whose arguments count; its
            `kv_cache_memory_bytes` does not.
        gpu: as `planner.plan` takes it; None: the plan's, else H100. A Load counts
            as load=.
        load: also as prompt_tokens=, output_tokens= and requests=; None: one request
            of max_model_len tokens, which is what vLLM needs to start.
        arguments: engine arguments, vllm_version, entrypoint and env.

    Raises:
        PlannerError: for input that cannot be planned; a load that nothing serves is
            an answer.
    """
    inputs, wanted = asked(model, gpu, load, arguments)
    found, at = smallest_bytes(inputs, wanted)
    edge = at(found)
    room = _most_room(inputs, wanted)
    if not edge.is_served or _left(room) < found:
        return _impossible(inputs, edge, room, wanted)
    beyond = at(found - 1) if found > 1 else None
    why = f"With {found:,} bytes: {holds(edge)}. "
    if beyond is None:
        why += "There is no smaller one."
    else:
        why += f"With one byte less: {fails(beyond)}."
    return Solution(
        question=_QUESTION,
        asked=_asked(edge, wanted),
        value=found,
        unit="bytes",
        plan=edge.plan,
        next_plan=None if beyond is None else beyond.plan,
        why=f"{why} The GPU has room for {format_gib(_left(room))}.",
        load=wanted,
    )


def _most_room(inputs: Inputs, load: Load | None) -> Serving:
    """Return the start whose KV cache is as large as the GPU allows."""
    measured = inputs.changed(kv_cache_memory_bytes=None)
    shares = Shares.of(STEP)
    at = at_share(measured, load, shares)
    return at(largest_share(at, shares))


def _left(room: Serving) -> int:
    """Return what is left for the KV cache of each GPU at the low end of the range."""
    rank = low_rank(room.plan)
    if rank is None:
        return room.plan.gpu.total_memory_bytes if is_enough(room) else 0
    return rank.available_kv_cache_low_bytes


def _impossible(
    inputs: Inputs, edge: Serving, room: Serving, load: Load | None
) -> Solution:
    share = room.plan.settings.gpu_memory_utilization
    if edge.is_served:
        size = edge.plan.settings.kv_cache_memory_bytes
        why = (
            f"{wanted_text(load)} would take {int(size or 0):,} bytes, and the GPU has "
            f"room for {format_gib(_left(room))} of KV cache"
        )
    else:
        why = fails(room if load is None or not room.is_served else edge)
    measured = inputs.changed(kv_cache_memory_bytes=None, gpu_memory_utilization=share)
    other = nearest(measured, load)
    return Solution(
        question=_QUESTION,
        asked=_asked(edge, load),
        value=None,
        unit="bytes",
        plan=None,
        next_plan=room.plan,
        why=f"{why}. {other.sentence}",
        nearest=other.loads,
    )


def _asked(serving: Serving, wanted: Load | None) -> str:
    return (
        f"smallest kv_cache_memory_bytes of {where(serving.plan)} for "
        f"{wanted_text(wanted)}"
    )
