"""Starts of one text on the same GPU: each is planned with what those before it leave.

vLLM takes its share of the whole card, and refuses to start where less is free.

Source: vLLM 0.33.0 `v1/worker/utils.py` request_memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from planner.engine.gpu import GPU
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.planning.result import Plan
    from planner.reading.reading import Reading
    from planner.reading.sites import Start

_MOST_NAMED = 4
_VISIBLE = "CUDA_VISIBLE_DEVICES"


def devices_of(start: Start | None) -> tuple[str, ...]:
    """Return which GPUs of its machine a start runs on; empty where it can be any."""
    if start is None or start.devices:
        return () if start is None else start.devices
    named = start.env.get(_VISIBLE)
    listed = "" if named is None else str(named.value or "")
    return tuple(one.strip() for one in listed.split(",") if one.strip())


def beside(start: Start, others: Iterable[Start]) -> list[int]:
    """Return which of the starts before it are on a GPU of a start, from 1; a few."""
    own = set(devices_of(start))
    if not own:
        return []
    found = (n for n, one in enumerate(others, 1) if own.intersection(devices_of(one)))
    return list(islice(found, _MOST_NAMED))


class Shared:
    """The GPUs of a text's starts, filled in the order of the text."""

    def __init__(self) -> None:
        """Begin with free GPUs."""
        self._held: dict[str, int] = {}

    def left(self, reading: Reading, gpu: GPU) -> tuple[GPU, str]:
        """Return the GPU with what the starts before leave free, and that in words."""
        devices = devices_of(reading.start)
        held = max((self._held.get(one, 0) for one in devices), default=0)
        if not held:
            return gpu, ""
        whole = gpu.free_memory_bytes or gpu.total_memory_bytes
        free = max(whole - held, 0)
        said = (
            f"On GPU {','.join(devices)} the starts before it hold {format_gib(held)}: "
            f"{format_gib(free)} of {format_gib(gpu.total_memory_bytes)} are free."
        )
        return replace(gpu, free_memory_bytes=free), said

    def take(self, reading: Reading, plan: Plan) -> None:
        """Count what a start holds from now on, if it comes up."""
        for device in devices_of(reading.start) if plan.error is None else ():
            self._held[device] = self._held.get(device, 0) + held_bytes(plan)


def left_for_training(reading: Reading, plan: Plan) -> Iterator[str]:
    """Yield what a framework's training has of a GPU that it shares with vLLM.

    Source: vLLM 0.33.0 `v1/worker/gpu_worker.py` Worker.sleep, for what it gives back.
    """
    start, resolved = reading.start, plan.resolved
    if start is None or not start.trainer or resolved is None or plan.error is not None:
        return
    total, held = plan.gpu.total_memory_bytes, held_bytes(plan)
    outside = held - max(rank.requested_memory_bytes for rank in plan.ranks)
    less = f", less {format_gib(outside)} outside of its budget" if outside > 0 else ""
    sleeps = reading.engine_args.get("enable_sleep_mode") is True
    yield (
        f"{start.trainer} trains on the same GPU: beside vLLM "
        f"{format_gib(total - held)} of {format_gib(total)} are left for it, (1 - "
        f"{resolved.gpu_memory_utilization:g}) x the total{less}."
        + (" Weights and KV cache are given back while vLLM sleeps." if sleeps else "")
    )


def held_bytes(plan: Plan) -> int:
    """Return what a start holds of its fullest GPU: its budget, and what is outside."""
    ranks: Sequence[int] = [
        rank.requested_memory_bytes + rank.outside_bytes for rank in plan.ranks
    ]
    return min(max(ranks, default=0), plan.gpu.total_memory_bytes)
