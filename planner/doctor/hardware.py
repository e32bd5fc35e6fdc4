"""GPUs and their driver, memory and processors, and room on the disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from planner.calibrations.folder import data_folder
from planner.doctor.finding import Finding, State
from planner.gpu import CPU
from planner.sources import device
from planner.units import GIB, format_gib

_LESSON_BYTES = GIB
"""Free memory below which a notebook beside a browser becomes slow: a judgement."""
_INSTALL_BYTES = 8 * GIB
"""What vLLM's CPU build and its torch take while they are installed, rounded up."""


def gpu() -> Finding:
    """Ask the driver for the attached GPUs."""
    found = device.survey()
    if not found.gpus:
        return Finding(
            name="gpu",
            state=State.LIMITED,
            says=found.reason.rstrip("."),
            does="Plans for any GPU are computed; vLLM starts on the processor.",
            remedy="To confirm a plan on its GPU, run the planner on such a machine.",
        )
    lines = "; ".join(device.attached_line(one) for one in found.gpus)
    driver = f"driver {found.driver_version}: " if found.driver_version else ""
    unknown = [one.device_name for one in found.gpus if one.gpu is None]
    if unknown or found.notes:
        return Finding(
            name="gpu",
            state=State.LIMITED,
            says=f"{driver}{lines}",
            does=" ".join((*(f"{name} cannot be read." for name in unknown),)),
            remedy=" ".join(found.notes) or "Give its memory: planner.GPU(...).",
        )
    return Finding(
        name="gpu",
        state=State.WORKS,
        says=f"{driver}{lines}",
        does="Plans for it are confirmed by a start.",
    )


def memory() -> Finding:
    """Look at the memory and processors that this process may use."""
    node = device.gpu_named(CPU)
    free = node.free_memory_bytes
    told = format_gib(node.total_memory_bytes)
    says = f"{told}{'' if free is None else f', {format_gib(free)} free'}"
    says += f"; {os.cpu_count()} processors"
    if free is None or free >= _LESSON_BYTES:
        return Finding(
            name="memory", state=State.WORKS, says=says, does="Enough for the app."
        )
    return Finding(
        name="memory",
        state=State.LIMITED,
        says=says,
        does="Notebooks may be slow or end.",
        remedy=f"Close programs until {format_gib(_LESSON_BYTES)} are free.",
    )


def disk() -> Finding:
    """Look at the folder that keeps measurements and progress, and at its room."""
    folder = data_folder()
    if folder is None:
        return Finding(
            name="disk",
            state=State.LIMITED,
            says="this user has no home",
            does="Measurements and progress are not kept.",
            remedy="Set PLANNER_DATA_DIR to a folder that you may write to.",
        )
    there = _nearest(Path(folder))
    says = f"{format_gib(shutil.disk_usage(there).free)} free for {folder}"
    if not os.access(there, os.W_OK):
        return Finding(
            name="disk",
            state=State.LIMITED,
            says=f"{folder} cannot be written",
            does="Measurements and progress are not kept.",
            remedy="Set PLANNER_DATA_DIR to a folder that you may write to.",
        )
    if shutil.disk_usage(there).free < _INSTALL_BYTES:
        return Finding(
            name="disk",
            state=State.LIMITED,
            says=says,
            does="Too little to install vLLM.",
            remedy=f"Make room: {format_gib(_INSTALL_BYTES)} for its CPU build.",
        )
    return Finding(
        name="disk", state=State.WORKS, says=says, does="What is measured is kept."
    )


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest above it that exists."""
    return next(one for one in (folder, *folder.parents) if one.exists())
