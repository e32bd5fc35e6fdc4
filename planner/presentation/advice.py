"""Advice as plain values, and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.presentation.frames import make_frame
from planner.units import GIB

if TYPE_CHECKING:
    import pandas as pd

    from planner.advice.result import Advice, AdviceItem

COLUMNS = (
    "kind",
    "title",
    "flags",
    "starts",
    "serves",
    "gain_requests",
    "gain_gib",
    "gain_bytes",
    "gain_tokens",
    "cost",
)


def advice_dict(advice: Advice) -> dict[str, Any]:
    """Return advice for JSON: what was asked, every change, and what to mind."""
    load = advice.load
    return {
        "command": advice.plan.command(),
        "fits": advice.plan.fits,
        "request_tokens": advice.request_tokens,
        "requests": advice.requests,
        "load": None
        if load is None
        else {
            "prompt_tokens": load.prompt_tokens,
            "output_tokens": load.output_tokens,
            "requests": load.requests,
        },
        "items": [_item_dict(item) for item in advice.items],
        "pair": None if advice.pair is None else _item_dict(advice.pair),
        "notes": list(advice.plan.notes),
        "warnings": list(advice.warnings),
    }


def _item_dict(item: AdviceItem) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "title": item.title,
        "changes": dict(item.changes),
        "flags": item.flags,
        "removed_flags": item.removed_flags,
        "command": item.plan.command(),
        "cost": item.cost,
        "burden": item.burden.name.lower(),
        "starts": item.starts,
        "serves": item.serves,
        "gain_bytes": item.gain_bytes,
        "gain_tokens": item.gain_tokens,
        "gain_requests": item.gain_requests,
    }


def advice_frame(advice: Advice) -> pd.DataFrame:
    """Return one row per change, the pair last.

    Raises:
        PlannerError: when pandas is not installed.
    """
    items = [*advice.items, *([advice.pair] if advice.pair else [])]
    return make_frame([_row(item) for item in items], COLUMNS)


def _row(item: AdviceItem) -> tuple[object, ...]:
    return (
        item.kind,
        item.title,
        item.flags,
        item.starts,
        item.serves,
        item.gain_requests,
        item.gain_bytes / GIB,
        item.gain_bytes,
        item.gain_tokens,
        item.cost,
    )
