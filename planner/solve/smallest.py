"""Solvers for the memory that a load needs: smallest share, smallest KV cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planner.engine.gpu import GPU
from planner.given import named_in_errors
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.serving import Serving
from planner.planning.words import fails, holds, low_rank, wanted_text, where
from planner.solve.arguments import Start, read_start
from planner.solve.nearest import nearest
from planner.solve.search import (
    STEP,
    Shares,
    at_share,
    is_enough,
    largest_share,
    smallest_bytes,
    smallest_share,
)
from planner.solve.solution import Solution
from planner.units import format_gib

_UTILIZATION = "utilization"
_KV_CACHE = "kv-cache-memory"


@named_in_errors
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
        model: as `planner.plan` accepts it, or a plan whose arguments are reused
            except `gpu_memory_utilization`.
        gpu: as `planner.plan` accepts it; None: the plan's, else H100. A Load here
            is treated as load=.
        load: also as prompt_tokens=, output_tokens= and requests=; None: one request
            of max_model_len tokens, which is what vLLM needs to start.
        step: difference between the shares that are tried.
        arguments: engine arguments, vllm_version, entrypoint and env.

    Raises:
        PlannerError: for input that cannot be planned; a load that nothing serves is
            not an error.
    """
    shares = Shares.of(step)
    inputs, wanted = read_start(model, gpu, load, arguments)
    at = at_share(inputs, wanted, shares)
    steps = smallest_share(at, shares)
    if steps is not None:
        return _utilization_solution(at, steps, shares, wanted)
    most = largest_share(at, shares)
    short = at(most)
    share = shares.share(most)
    other = nearest(inputs.changed(gpu_memory_utilization=share), wanted)
    return Solution(
        question=_UTILIZATION,
        asked=_utilization_question(short, wanted),
        unit="of the GPU's memory",
        next_plan=short.plan,
        why=f"Even at gpu_memory_utilization={share:g}: {fails(short)}. "
        f"{other.sentence}",
        nearest=other.loads,
    )


@named_in_errors
def smallest_kv_cache_memory(
    model: Start,
    gpu: str | GPU | Load | None = None,
    *,
    load: Load | None = None,
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> Solution:
    """Find the fewest `kv_cache_memory_bytes` that serve a load, to the byte.

    The GPU must have that much left besides weights and activations: what vLLM would
    give the KV cache at the largest free share of the GPU.

    Args:
        model: as `planner.plan` accepts it, or a plan whose arguments are reused
            except `kv_cache_memory_bytes`.
        gpu: as `planner.plan` accepts it; None: the plan's, else H100. A Load here
            is treated as load=.
        load: also as prompt_tokens=, output_tokens= and requests=; None: one request
            of max_model_len tokens, which is what vLLM needs to start.
        arguments: engine arguments, vllm_version, entrypoint and env.

    Raises:
        PlannerError: for input that cannot be planned; a load that nothing serves is
            not an error.
    """
    inputs, wanted = read_start(model, gpu, load, arguments)
    found, at = smallest_bytes(inputs, wanted)
    edge = at(found)
    room = _most_room(inputs, wanted)
    if not edge.is_served or _left(room) < found:
        return _no_kv_cache(inputs, edge, room, wanted)
    beyond = at(found - 1) if found > 1 else None
    why = f"With {found:,} bytes: {holds(edge)}. "
    if beyond is None:
        why += "It cannot be smaller."
    else:
        why += f"With one byte less: {fails(beyond)}."
    return Solution(
        question=_KV_CACHE,
        asked=_kv_cache_question(edge, wanted),
        value=found,
        unit="bytes",
        plan=edge.plan,
        next_plan=None if beyond is None else beyond.plan,
        why=f"{why} The GPU has room for {format_gib(_left(room))}.",
        load=wanted,
    )


def _utilization_solution(
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
        question=_UTILIZATION,
        asked=_utilization_question(edge, wanted),
        value=shares.share(steps),
        unit="of the GPU's memory",
        plan=edge.plan,
        next_plan=None if beyond is None else beyond.plan,
        why=why,
        load=wanted,
    )


def _utilization_question(serving: Serving, wanted: Load | None) -> str:
    return (
        f"smallest gpu_memory_utilization of {where(serving.plan)} for "
        f"{wanted_text(wanted)}"
    )


def _most_room(inputs: Inputs, load: Load | None) -> Serving:
    """Return the start whose KV cache is as large as the GPU allows."""
    measured = inputs.changed(kv_cache_memory_bytes=None)
    shares = Shares.of(STEP)
    at = at_share(measured, load, shares)
    return at(largest_share(at, shares))


def _left(room: Serving) -> int:
    """Return the memory left for each GPU's KV cache at the low end of the range."""
    rank = low_rank(room.plan)
    if rank is None:
        return room.plan.gpu.total_memory_bytes if is_enough(room) else 0
    return rank.available_kv_cache_low_bytes


def _no_kv_cache(
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
        question=_KV_CACHE,
        asked=_kv_cache_question(edge, load),
        unit="bytes",
        next_plan=room.plan,
        why=f"{why}. {other.sentence}",
        nearest=other.loads,
    )


def _kv_cache_question(serving: Serving, wanted: Load | None) -> str:
    return (
        f"smallest kv_cache_memory_bytes of {where(serving.plan)} for "
        f"{wanted_text(wanted)}"
    )
