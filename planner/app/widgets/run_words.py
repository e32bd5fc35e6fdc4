"""Where a start of vLLM would run, or why it cannot, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.confirming import devices, installation
from planner.errors import PlannerError

if TYPE_CHECKING:
    from planner.confirming.installation import Installation
    from planner.planning.result import Plan

_NEEDS_GPU_BUILD = (
    "Ask vLLM needs vLLM's build for NVIDIA GPUs (10 GB), which starts without one"
)


def device_words(plan: Plan, found: Installation) -> str:
    """Say where Run would start vLLM, or why it cannot."""
    try:
        installation.check_release(found, plan.vllm_version)
        device = devices.choose(plan, found).device_name
    except PlannerError as error:
        return f"Run: {error}"
    return f"Run: It would run on {device}."


def dry_words(plan: Plan | None, found: Installation) -> str:
    """Say whether vLLM can be asked without a GPU."""
    if plan is not None and plan.gpu.is_cpu:
        return "Ask vLLM is for plans on NVIDIA GPUs; this one needs no GPU anyway."
    if found.is_cpu_build:
        return f"{_NEEDS_GPU_BUILD}."
    return "Ask vLLM: It starts here without a GPU."
