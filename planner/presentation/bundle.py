"""What a notebook is offered when a plan is the last value of a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.presentation.page import plan_html
from planner.presentation.text import plan_text

if TYPE_CHECKING:
    from planner.result import Plan


def mimebundle(plan: Plan) -> dict[str, str]:
    """Return the plan as text and as HTML.

    The plotly figure is left to `plan.figure()`: a notebook shows only the richest
    form it is offered, and the bare chart would hide the verdict and the table.
    """
    return {"text/plain": plan_text(plan), "text/html": plan_html(plan)}
