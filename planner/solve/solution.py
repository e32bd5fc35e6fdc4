"""The result of a solver: a value, the plans on both sides of the limit, and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from planner.planning.load import Load
from planner.planning.result import Plan
from planner.values import frozen
from planner.views import Viewed


@frozen(repr=False)
class Solution(Viewed):
    """The largest load or the smallest machine.

    Where nothing serves, `value` is None, and `why` names the nearest loads and
    machines that are possible.
    """

    question: str
    """context, requests, utilization, kv-cache-memory, gpus or instances."""
    asked: str
    """The question in words."""
    value: float | None = None
    """In `unit`; whole except for a utilization; None: nothing serves."""
    unit: str
    """tokens, requests, of the GPU's memory, bytes, GPUs or instances."""
    plan: Plan | None = None
    """The plan that serves with this value; None: nothing serves."""
    next_plan: Plan | None = None
    """The nearest plan that does not serve; None where the search ends."""
    why: str
    """The arithmetic on both sides of the limit."""
    load: Load | None = None
    """The load that is served, including the value found; None: one request of
    max_model_len tokens."""
    nearest: tuple[Load, ...] = ()
    """Loads that can be served where the requested one cannot."""
    plans: tuple[Plan, ...] = ()
    """All plans of the solution: of several instances, in the order of their start."""
    options: tuple[Solution, ...] = ()
    """The same question for each GPU, best first."""

    @property
    def is_found(self) -> bool:
        """Whether anything serves."""
        return self.value is not None

    def command(self) -> str:
        """Return the commands that start the solution, one line per instance."""
        plans = self.plans or ((self.plan,) if self.plan else ())
        return "\n".join(plan.command() for plan in plans)

    def to_dict(self) -> dict[str, Any]:
        """Return the solution as plain values; plans in the form of the contract."""
        return {
            "question": self.question,
            "asked": self.asked,
            "value": self.value,
            "unit": self.unit,
            "why": self.why,
            "load": None if self.load is None else asdict(self.load),
            "nearest": [asdict(load) for load in self.nearest],
            "command": self.command(),
            "plan": None if self.plan is None else self.plan.to_dict(),
            "next_plan": None if self.next_plan is None else self.next_plan.to_dict(),
            "plans": [plan.to_dict() for plan in self.plans],
            "options": [_option(option) for option in self.options],
        }

    def __repr__(self) -> str:
        """Return the solution in one line, without its plans."""
        return (
            f"Solution({self.question}: {self.value!r} {self.unit}, "
            f"asked={self.asked!r})"
        )


def _option(option: Solution) -> dict[str, Any]:
    """Return the solution for one GPU of several, without its plans."""
    plan = option.plan or option.next_plan
    return {
        "gpu": None if plan is None else plan.gpu.name,
        "value": option.value,
        "unit": option.unit,
        "why": option.why,
        "command": option.command(),
    }
