"""Another GPU in place of each: the smallest that suffices, of the same class or up.

A GPU for a desk (GeForce, TITAN, Quadro, RTX) is replaced by another of them where one
suffices, else by one for a data centre; one of a data centre only by another such. None
of an older compute capability is offered, unless no other suffices. Nor is one of more
than eight times the memory: several smaller ones then do (`pairs`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product

from planner.advice.candidate import Burden, Candidate
from planner.advice.situation import Situation
from planner.gpu import GPU, catalogue
from planner.result import Plan
from planner.units import format_gib

_CLEARLY_LARGER = 1.02
"""Two totals of one size differ by what drivers keep."""
_FAR_LARGER = 8
_DESK = re.compile(r"GeForce|TITAN|Quadro|\bRTX")
_RACK = re.compile(r"Server Edition")

Suffices = Callable[[Plan], bool]


def larger_gpu(situation: Situation) -> Iterator[Candidate]:
    """Offer the smallest that serves; where none does, the smallest that starts."""
    now = situation.plan.gpu
    gpu = _smallest(situation, situation.serves)
    if gpu is None and not situation.plan.fits:
        gpu = _smallest(situation, lambda plan: plan.fits)
    if gpu is None:
        return
    taken = now.free_memory_bytes is not None
    yield Candidate(
        kind="gpu",
        title=f"Use {gpu.name} ({format_gib(gpu.total_memory_bytes)})",
        changes={"gpu": gpu.name},
        cost=f"{gpu.name} in place of {now.name}"
        f"{', taken to be empty' if taken else ''}.",
        burden=Burden.HARDWARE,
    )


def _smallest(situation: Situation, suffices: Suffices) -> GPU | None:
    """Return the smallest GPU that suffices, of the first choice that has one."""

    def check(gpu: GPU) -> bool:
        plan = situation.again(gpu=gpu.name)
        return plan is not None and suffices(plan)

    for gpus in _choices(situation.plan.gpu):
        largest = {gpu.compute_capability: gpu for gpu in gpus}
        enough = [generation for generation, gpu in largest.items() if check(gpu)]
        for gpu in gpus:
            if gpu.compute_capability in enough and check(gpu):
                return gpu
    return None


def _choices(gpu: GPU) -> Iterator[Sequence[GPU]]:
    """Yield larger GPUs by size, one a size: of its class first, older ones last."""
    if gpu.is_cpu:
        return
    classes = (True, False) if _is_for_a_desk(gpu) else (False,)
    for is_older, is_for_a_desk in product((False, True), classes):
        by_size: dict[int, GPU] = {}
        for other in _larger(gpu):
            if (other.compute_capability < gpu.compute_capability) is not is_older:
                continue
            if _is_for_a_desk(other) is is_for_a_desk:
                by_size.setdefault(other.total_memory_bytes, other)
        yield [by_size[size] for size in sorted(by_size)]


def _larger(gpu: GPU) -> Iterator[GPU]:
    for other in catalogue():
        times = other.total_memory_bytes / gpu.total_memory_bytes
        is_alike = other.is_integrated == gpu.is_integrated and not other.mig_profile
        if _CLEARLY_LARGER <= times <= _FAR_LARGER and is_alike:
            yield other


def _is_for_a_desk(gpu: GPU) -> bool:
    """Whether a GPU is sold for workstations, by the name that its driver reports."""
    name = gpu.device_name or gpu.name
    return bool(_DESK.search(name)) and not _RACK.search(name)
