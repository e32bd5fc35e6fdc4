"""Warnings that belong to advice: what people learn the hard way, with figures."""

from __future__ import annotations

from planner.advice.situation import Situation


def warnings(situation: Situation) -> tuple[str, ...]:
    """Return what to mind beside the plan's own notes."""
    del situation
    return ()
