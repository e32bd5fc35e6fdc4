"""Another GPU: the smallest one, of the same or a newer generation, that suffices."""

from __future__ import annotations

from collections.abc import Iterator

from planner.advice.candidate import Burden, Candidate
from planner.advice.situation import Situation
from planner.gpu import GPU, catalogue
from planner.units import format_gib


def larger_gpu(situation: Situation) -> Iterator[Candidate]:
    """Try larger GPUs, the smallest first, of generations whose largest suffices."""
    gpus = _larger(situation.plan.gpu)
    largest = {gpu.compute_capability: gpu for gpu in gpus}
    enough = [
        generation for generation, gpu in largest.items() if _serves(situation, gpu)
    ]
    if not enough:
        gpus = gpus[-1:]
    for gpu in gpus:
        if enough and gpu.compute_capability not in enough:
            continue
        yield Candidate(
            kind="gpu",
            title=f"Use {gpu.name} ({format_gib(gpu.total_memory_bytes)})",
            changes={"gpu": gpu.name},
            cost=f"{gpu.name} in place of {situation.plan.gpu.name}.",
            burden=Burden.HARDWARE,
        )


def _serves(situation: Situation, gpu: GPU) -> bool:
    plan = situation.again(gpu=gpu.name)
    return plan is not None and situation.serves(plan)


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
