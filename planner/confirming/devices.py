"""Which GPUs a start gets, and whether enough of their memory is free.

The driver is asked, not CUDA: that would take memory on the GPU, and keep it until the
kernel ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planner.confirming.installation import Installation
from planner.errors import PlannerError
from planner.gpu import GPU
from planner.result import Plan
from planner.sources.device import AttachedGPU, Process, Survey, attached_line, survey
from planner.sources.processor import processor_gpu
from planner.units import format_gib

_SAME_TOTAL = 0.02
"""How far an attached GPU's total may lie from the planned one's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """What a start runs on."""

    device_name: str
    driver_version: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that show vLLM these devices and no others."""
    free_bytes: tuple[tuple[str, int], ...] = ()
    """Free memory of each GPU before the start, by its UUID."""
    notes: tuple[str, ...] = ()

    def moved_bytes(self, asked: Survey | None = None) -> int | None:
        """Return by how much the free memory changed since; None where unknown.

        After vLLM has ended, the difference is what other programs took or gave back.
        """
        if not self.free_bytes:
            return None
        now = {one.uuid: one.free_memory_bytes for one in (asked or survey()).gpus}
        moved = [
            abs(told - before)
            for uuid, before in self.free_bytes
            if (told := now.get(uuid)) is not None
        ]
        return max(moved, default=None)


def choose(plan: Plan, found: Installation, asked: Survey | None = None) -> Devices:
    """Choose the devices for a plan.

    Args:
        plan: what is to be started.
        found: the vLLM that starts it.
        asked: what is attached; None asks the driver.

    Raises:
        PlannerError: where the machine has not what the plan needs, or other programs
            hold the memory; names them.
    """
    if plan.gpu.is_cpu != found.is_cpu_build:
        raise PlannerError(_wrong_build(plan, found))
    if found.is_cpu_build:
        return _processor(plan)
    attached = survey() if asked is None else asked
    chosen = _alike(plan, attached)
    _check_free(plan, chosen)
    return Devices(
        device_name=chosen[0].device_name,
        driver_version=attached.driver_version,
        environment={
            # vLLM reads numbers, in the order that they are told to CUDA; of MIG slices
            # the name is the only one there is.
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(
                one.uuid if one.is_mig_slice else str(one.index) for one in chosen
            ),
        },
        free_bytes=tuple(
            (one.uuid, one.free_memory_bytes)
            for one in chosen
            if one.free_memory_bytes is not None
        ),
        notes=_notes(chosen),
    )


def _processor(plan: Plan) -> Devices:
    here = processor_gpu()
    rank, free = plan.limiting_rank, here.free_memory_bytes
    is_measured = rank is not None and not plan.settings.kv_cache_memory_bytes
    if rank is not None and is_measured and free is not None:
        needed = rank.requested_memory_bytes
        if free < needed:
            raise PlannerError(
                f"This machine has {format_gib(free)} of memory free, but the plan "
                f"uses {format_gib(needed)}. End other programs, or plan with a "
                "smaller gpu_memory_utilization."
            )
    return Devices(device_name=here.device_name or here.name)


def _wrong_build(plan: Plan, found: Installation) -> str:
    if found.is_cpu_build:
        return (
            f"The vLLM of {found.python} is the CPU build, but the plan is for "
            f'{plan.gpu.name}. Plan with gpu="CPU", or name the Python of a vLLM for '
            "GPUs."
        )
    return (
        f"The plan is for the CPU backend, but the vLLM of {found.python} is built for "
        'GPUs. Plan with gpu="attached", or name the Python of the CPU build.'
    )


def _alike(plan: Plan, attached: Survey) -> tuple[AttachedGPU, ...]:
    """Return as many GPUs as planned for, of the planned kind, the freest first."""
    if not attached.gpus:
        raise PlannerError(
            f"There is no GPU to start vLLM on. {attached.reason} "
            'gpu="CPU" plans for vLLM\'s CPU build, which needs none.'
        )
    alike = [one for one in attached.gpus if _is_alike(one.gpu, plan.gpu)]
    if len(alike) < plan.gpus_total:
        listed = "; ".join(attached_line(one) for one in attached.gpus)
        raise PlannerError(
            f"The plan needs {plan.gpus_total} x {plan.gpu.name}, but "
            f"{len(alike)} of that kind are attached (found: {listed}). Plan with "
            'gpu="attached", or with fewer GPUs.'
        )
    freest = sorted(alike, key=lambda one: -(one.free_memory_bytes or 0))
    return tuple(freest[: plan.gpus_total])


def _is_alike(attached: GPU | None, planned: GPU) -> bool:
    if attached is None or attached.compute_capability != planned.compute_capability:
        return False
    apart = abs(attached.total_memory_bytes - planned.total_memory_bytes)
    return apart <= _SAME_TOTAL * planned.total_memory_bytes


def _check_free(plan: Plan, chosen: Sequence[AttachedGPU]) -> None:
    """Refuse where vLLM would: when less is free than it is told to use."""
    rank = plan.limiting_rank
    if rank is None or plan.settings.kv_cache_memory_bytes:
        return  # vLLM does not look either
    needed = rank.requested_memory_bytes
    for one in chosen:
        free = one.free_memory_bytes
        if free is not None and free < needed:
            raise PlannerError(
                f"GPU {one.index} has {format_gib(free)} free, but the plan uses "
                f"{format_gib(needed)}. {_held_by(one.processes)} End them, or plan "
                "with a smaller gpu_memory_utilization."
            )


def _held_by(processes: Sequence[Process]) -> str:
    if not processes:
        return "The driver does not tell which programs hold the rest."
    named = ", ".join(
        f"{one.name or 'process'} {one.pid}"
        + (f" ({format_gib(one.used_memory_bytes)})" if one.used_memory_bytes else "")
        for one in processes
    )
    return f"The rest is held by: {named}."


def _notes(chosen: Sequence[AttachedGPU]) -> tuple[str, ...]:
    """Say who else is on the GPUs: their memory may change while vLLM measures."""
    return tuple(
        f"GPU {one.index} is shared. {_held_by(one.processes)} What they take or give "
        "back while vLLM measures counts as vLLM's."
        for one in chosen
        if one.processes
    )
