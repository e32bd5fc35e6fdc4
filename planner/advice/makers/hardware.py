"""Another GPU: the smallest one, of the same or a newer generation, that suffices."""

from __future__ import annotations

from collections.abc import Iterator

from planner.advice.candidate import Burden, Candidate
from planner.advice.situation import Situation
from planner.gpu import GPU, catalogue
from planner.units import format_gib


def larger_gpu(situation: Situation) -> Iterator[Candidate]:
    """Try larger GPUs, the smallest first; only the largest where it does not do."""
    gpus = _larger(situation.plan.gpu)
    if not gpus:
        return
    largest = situation.again(gpu=gpus[-1].name)
    if largest is not None and not situation.serves(largest):
        gpus = gpus[-1:]
    for gpu in gpus:
        yield Candidate(
            kind="gpu",
            title=f"Use {gpu.name} ({format_gib(gpu.total_memory_bytes)})",
            changes={"gpu": gpu.name},
            cost=f"{gpu.name} in place of {situation.plan.gpu.name}.",
            burden=Burden.HARDWARE,
        )


def _larger(gpu: GPU) -> list[GPU]:
    """Return one GPU a size, of those that are larger and no older."""
    if gpu.is_cpu:
        return []
    by_size: dict[int, GPU] = {}
    for other in catalogue():
        is_newer = other.compute_capability >= gpu.compute_capability
        is_larger = other.total_memory_bytes > gpu.total_memory_bytes
        is_alike = other.is_integrated == gpu.is_integrated
        if is_newer and is_larger and is_alike and not other.mig_profile:
            by_size.setdefault(other.total_memory_bytes, other)
    return [by_size[size] for size in sorted(by_size)]
