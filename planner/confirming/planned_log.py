"""The plan that belongs to a log: what the log shows of its start, planned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.confirming.from_log import plan_arguments
from planner.errors import PlannerError
from planner.gpu import CPU, GPU
from planner.log import LogReading
from planner.planning import plan
from planner.releases import NEWEST
from planner.result import Plan
from planner.units import GIB


def plan_of_log(reading: LogReading, given: Mapping[str, Any]) -> Plan | None:
    """Return the plan of a start that was logged; None where the model is not told.

    `given` are arguments of `planner.plan`, None for those to be taken from the log; an
    engine argument that is given keeps the log's out.

    Raises:
        PlannerError: where the log does not tell the GPU and none is given, or what it
            tells cannot be planned.
    """
    asked = {name: value for name, value in given.items() if value is not None}
    model = asked.pop("model", None) or reading.model
    if model is None:
        return None
    release = asked.pop("vllm_version", None) or reading.vllm_version or NEWEST
    gpu = asked.pop("gpu", None) or _gpu(reading)
    arguments: dict[str, Any] = {**plan_arguments(reading), **asked}
    return plan(model, gpu=gpu, vllm_version=release, **arguments)


def _gpu(reading: LogReading) -> str | GPU:
    """Return the GPU that a log names, or whose memory it tells."""
    if reading.setting.device == "cpu":
        return CPU
    name = reading.setting.device_name
    total = reading.figures.get("total_gpu_gib")
    if name is not None:
        return GPU.named(name)
    if total is not None:
        return GPU.named(None, total_memory_bytes=round(total * GIB))
    raise PlannerError(
        "The log does not tell on which GPU vLLM ran. Say it: --gpu H100."
    )
