"""CPU memory: less of what is kept there, where a machine does not hold it."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor

from planner.advice.candidate import Burden, Candidate
from planner.advice.situation import Situation
from planner.units import GIB


def fewer_offloaded_blocks(situation: Situation) -> Iterator[Candidate]:
    """Keep fewer KV blocks in CPU memory: as many as fit, or none."""
    missing, engines = _missing(situation)
    size = situation.plan.settings.kv_offloading_size
    if not missing or not size:
        return
    left = floor(size - missing / engines / GIB)
    for gib in (left, 0):
        if 0 <= gib < size:
            yield Candidate(
                kind="kv_offloading_size",
                title=f"Keep {gib} GiB of KV blocks in CPU memory, not {size:g}"
                if gib
                else "Keep no KV blocks in CPU memory",
                changes={"kv_offloading_size": float(gib) or None},
                cost="Fewer prompts are found again once they have left the GPU.",
                burden=Burden.SPEED,
            )


def less_offloaded_weights(situation: Situation) -> Iterator[Candidate]:
    """Hold fewer weights in CPU memory: as many as fit, or none."""
    missing, _ = _missing(situation)
    size = situation.plan.settings.cpu_offload_gb
    if not missing or not size:
        return
    workers = max(account.gpus for account in situation.plan.host)
    left = floor(size - missing / workers / GIB)
    for gib in (left, 0):
        if 0 <= gib < size:
            yield Candidate(
                kind="cpu_offload_gb",
                title=f"Hold {gib} GiB of each GPU's weights in CPU memory, not "
                f"{size:g}"
                if gib
                else "Hold all weights on the GPUs",
                changes={"cpu_offload_gb": float(gib) or None},
                cost="The GPU keeps more weights, and less KV cache.",
                burden=Burden.NOTHING,
            )


def without_sleep(situation: Situation) -> Iterator[Candidate]:
    """Start without sleep mode, which needs room for the weights."""
    missing, _ = _missing(situation)
    if missing and dict(situation.plan.settings.others).get("enable_sleep_mode"):
        yield Candidate(
            kind="enable_sleep_mode",
            title="Start without sleep mode",
            changes={"enable_sleep_mode": None},
            cost="vLLM cannot give the GPU away without being stopped.",
            burden=Burden.ABILITY,
        )


def _missing(situation: Situation) -> tuple[int, int]:
    """Return the bytes that the fullest machine lacks, and its engines."""
    error = situation.plan.error
    if error is None or error.kind != "host_memory":
        return 0, 1
    short = [
        (one.certain_bytes - one.capacity_bytes, max(one.engines, 1))
        for one in situation.plan.host
        if one.capacity_bytes is not None
    ]
    return max(short, default=(0, 1))
