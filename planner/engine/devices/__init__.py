"""The GPUs and the processor of this machine, and what names select them.

`attached` reads the GPUs from the NVIDIA driver, `processor` reads the CPU from the
operating system, `planned_gpu` turns what the driver reports into the GPU of a plan.
"""

from __future__ import annotations

from planner.engine.gpu import CPU, GPU
from planner.errors import PlannerError
from planner.surroundings import NO_HARDWARE, is_published

ATTACHED = "attached"
"""The name that selects this machine's first GPU."""


def gpu_named(name: object) -> GPU:
    """Return the catalogue's GPU of that name.

    "attached" is this machine's first GPU, "CPU" its processor.

    Raises:
        PlannerError: for an unknown name, or if no GPU is attached.
    """
    if not isinstance(name, str):
        return GPU.named(name)  # type: ignore[arg-type]  # says what is needed
    is_cpu, is_attached = name.strip().upper() == CPU, name.strip().lower() == ATTACHED
    if is_published() and (is_cpu or is_attached):
        raise PlannerError(NO_HARDWARE)
    if is_cpu:
        from planner.engine.devices.processor import processor_gpu  # noqa: PLC0415 - it asks this machine

        return processor_gpu()
    if is_attached:
        from planner.engine.devices.attached import first_attached  # noqa: PLC0415 - it asks this machine

        return first_attached()
    return GPU.named(name)
