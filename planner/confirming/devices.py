"""The devices of a start, and whether enough of their memory is free.

The driver reports them, not CUDA: initialising CUDA would take memory on the GPU until
the kernel ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from planner.confirming.installation import Installation
from planner.engine.devices.attached import (
    AttachedGPU,
    Process,
    Survey,
    attached_line,
    survey,
)
from planner.engine.devices.processor import processor_gpu
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.planning.result import Plan
from planner.units import format_gib
from planner.values import frozen

_SAME_TOTAL = 0.02
"""How much an attached GPU's total may differ from the planned one's."""


@frozen
class Devices:
    """The devices that a start runs on."""

    device_name: str
    driver_version: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that make only these devices visible to vLLM."""
    free_bytes: tuple[tuple[str, int], ...] = ()
    """Free memory of each GPU before the start, by its UUID."""
    notes: tuple[str, ...] = ()

    def moved_bytes(self, found: Survey | None = None) -> int | None:
        """Return by how much the free memory has changed since; None if unknown.

        After vLLM has ended, other programs have allocated or freed the difference.

        Args:
            found: what is attached now; None queries the driver.
        """
        if not self.free_bytes:
            return None
        gpus = (found or survey()).gpus
        free_bytes = {gpu.uuid: gpu.free_memory_bytes for gpu in gpus}
        moved = [
            abs(now - before)
            for uuid, before in self.free_bytes
            if (now := free_bytes.get(uuid)) is not None
        ]
        return max(moved, default=None)


def choose(
    plan: Plan, installation: Installation, found: Survey | None = None
) -> Devices:
    """Choose the devices for a plan.

    Args:
        plan: the plan to start.
        installation: the vLLM that starts it.
        found: what is attached; None queries the driver.

    Raises:
        PlannerError: if the machine does not have what the plan needs, or other
            programs use the memory; names them.
    """
    if plan.gpu.is_cpu != installation.is_cpu_build:
        raise PlannerError(_wrong_build(plan, installation))
    if installation.is_cpu_build:
        return _processor(plan)
    attached = survey() if found is None else found
    chosen = _alike(plan, attached)
    _check_free(plan, chosen)
    return Devices(
        device_name=chosen[0].device_name,
        driver_version=attached.driver_version,
        environment={
            # vLLM reads numbers, in the order in which CUDA has them; MIG slices have
            # names only.
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
    """Return as many GPUs of the planned kind as planned, the freest first."""
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
    difference = abs(attached.total_memory_bytes - planned.total_memory_bytes)
    return difference <= _SAME_TOTAL * planned.total_memory_bytes


def _check_free(plan: Plan, chosen: Sequence[AttachedGPU]) -> None:
    """Refuse where vLLM would: if less is free than it is set to use."""
    rank = plan.limiting_rank
    if rank is None or plan.settings.kv_cache_memory_bytes:
        return  # vLLM does not check either
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
        return "The driver does not report which programs hold the rest."
    named = ", ".join(
        f"{one.name or 'process'} {one.pid}"
        + (f" ({format_gib(one.used_memory_bytes)})" if one.used_memory_bytes else "")
        for one in processes
    )
    return f"The rest is held by: {named}."


def _notes(chosen: Sequence[AttachedGPU]) -> tuple[str, ...]:
    """Name other processes on the GPUs: their memory may change meanwhile."""
    return tuple(
        f"GPU {one.index} is shared. {_held_by(one.processes)} What they take or give "
        "back while vLLM measures counts as vLLM's."
        for one in chosen
        if one.processes
    )
