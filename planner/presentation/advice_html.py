"""Advice as one self-contained piece of HTML, as a notebook shows it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from planner.presentation.advice_text import counted, gains, state, symbol
from planner.presentation.page import style
from planner.presentation.tables import verdict_html

if TYPE_CHECKING:
    from planner.advice.result import Advice, AdviceItem

_HEAD = (
    "<thead><tr><th scope='col'>Change</th><th scope='col'>Comes to</th>"
    "<th scope='col'>Command line</th><th scope='col'>Cost</th></tr></thead>"
)


def advice_html(advice: Advice) -> str:
    """Show the verdict, a table of changes and what to mind; needs no script."""
    return (
        f"<style>{style()}</style><div class='pl-plan pl-advice'>"
        f"{verdict_html(advice.plan)}{changes_table(advice)}{warnings_html(advice)}"
        "</div>"
    )


def changes_table(advice: Advice) -> str:
    """Show every change as a row, the pair last."""
    items = [*advice.items, *([advice.pair] if advice.pair else [])]
    if not items:
        return f"<p>{escape(counted(advice))}</p>"
    rows = "".join(_row(advice, item) for item in items)
    return (
        f"<table class='pl-lines'><caption>{escape(counted(advice))}</caption>{_HEAD}"
        f"<tbody>{rows}</tbody></table>"
    )


def _row(advice: Advice, item: AdviceItem) -> str:
    together = "Two together: " if item is advice.pair else ""
    words = "; ".join([state(advice, item), *gains(item)])
    return (
        f"<tr><th scope='row'>{together}{escape(item.title)}</th>"
        f"<td><span aria-hidden='true'>{symbol(item)}</span> {escape(words)}</td>"
        f"<td>{_flags(item)}</td><td class='pl-why'>{escape(item.cost)}</td></tr>"
    )


def _flags(item: AdviceItem) -> str:
    added = f"<code>{escape(item.flags)}</code>" if item.flags else ""
    removed = item.removed_flags
    return f"{added}without <code>{escape(removed)}</code>" if removed else added


def warnings_html(advice: Advice) -> str:
    """Show the plan's notes and what to mind; empty when there is nothing."""
    texts = (*advice.plan.notes, *advice.warnings)
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul class='pl-notes'>{items}</ul>" if items else ""
