"""A small start for the machine that a lesson runs on."""

from __future__ import annotations

from planner.errors import PlannerError
from planner.gpu import CPU, GPU
from planner.learn.recorded import recorded
from planner.planning import plan
from planner.result import Plan
from planner.sources.device import gpu_named

_MODEL = "Qwen/Qwen3-0.6B"
_LENGTH = 8192


def start_here() -> Plan:
    """Return a small plan for this machine: its GPU, or else its processor.

    Where neither can be told, as in a browser, it is the plan of the recorded run.
    """
    gpu = _named("attached")
    if gpu is not None:
        return plan(_MODEL, gpu=gpu, max_model_len=_LENGTH)
    return recorded().plan.changed(gpu=_named(CPU) or recorded().plan.gpu)


def _named(name: str) -> GPU | None:
    try:
        return gpu_named(name)
    except PlannerError:
        return None
