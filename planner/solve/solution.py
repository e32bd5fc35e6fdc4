"""The answer of a solver: a value, the plans on both sides of the edge, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from planner.load import Load
from planner.result import Plan


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Solution:
    """What serves a load, to the last one that does.

    Impossible is an answer too: `value` is None, and `why` names the nearest loads and
    machines that are possible.
    """

    question: str
    """context, requests, utilization, kv-cache-memory, gpus or instances."""
    asked: str
    """The question in words."""
    value: float | None
    """In `unit`; whole but for a utilization; None: nothing serves."""
    unit: str
    """tokens, requests, of the GPU's memory, bytes, GPUs or instances."""
    plan: Plan | None
    """With which the answer is served; None: nothing serves."""
    next_plan: Plan | None
    """The nearest that no longer serves; None where there is none beyond."""
    why: str
    """The arithmetic on both sides of the edge."""
    load: Load | None = None
    """The load that is served, what was found included; None: one request of
    max_model_len tokens."""
    nearest: tuple[Load, ...] = ()
    """Loads that can be served where the asked one cannot."""
    plans: tuple[Plan, ...] = ()
    """Every plan of the answer: of several instances, in the order of their start."""
    options: tuple[Solution, ...] = ()
    """The same question for each GPU, best first."""

    @property
    def is_found(self) -> bool:
        """Whether anything serves."""
        return self.value is not None

    def command(self) -> str:
        """Return what starts the answer, one line an instance; empty without one."""
        plans = self.plans or ((self.plan,) if self.plan else ())
        return "\n".join(plan.command() for plan in plans)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values; plans in the shape of the contract."""
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
        """Return the answer in a line; the whole plans would fill pages."""
        return (
            f"Solution({self.question}: {self.value!r} {self.unit}, "
            f"asked={self.asked!r})"
        )

    def __str__(self) -> str:
        """Return the answer as text for a terminal."""
        from planner.presentation.solution import solution_text  # noqa: PLC0415

        return solution_text(self)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, Any]:
        from planner.presentation.solution_html import mimebundle  # noqa: PLC0415

        return mimebundle(self)


def _option(option: Solution) -> dict[str, Any]:
    """Return one GPU of many, without its whole plans."""
    plan = option.plan or option.next_plan
    return {
        "gpu": None if plan is None else plan.gpu.name,
        "value": option.value,
        "unit": option.unit,
        "why": option.why,
        "command": option.command(),
    }
