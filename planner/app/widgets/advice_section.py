"""Advice for the plan by what it costs, with an Apply button in each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from planner.app.widgets.actions import ActionList, Row, action
from planner.app.widgets.callbacks import Later
from planner.show.advice import before_any_change, heading, result
from planner.solve.advice import advise

if TYPE_CHECKING:
    from planner.planning.result import Plan
    from planner.solve.advice import Advice, AdviceItem

PAUSE_SECONDS = 0.4
"""Advice computes some fifty plans, so it waits until the slider rests."""
_UNDO = "undo"


class AdviceSection(ActionList):
    """Advice for the current plan; `apply` gets the title and changes of one item."""

    def __init__(
        self, apply: Callable[[str, Mapping[str, Any]], None], undo: Callable[[], None]
    ) -> None:
        super().__init__("What would help", self._press, shown=1)
        self.add_class("planner-advice")
        self._apply = apply
        self._undo = undo
        self._items: dict[str, AdviceItem] = {}
        self._later = Later(PAUSE_SECONDS)

    def show(self, plan: Plan, *, applied: str = "") -> None:
        """List the advice for a plan once the user pauses.

        `applied` names the advice that was applied last, which can be undone.
        """
        self.is_busy = True
        self._later.run(lambda: self._show(plan, applied))

    def _show(self, plan: Plan, applied: str) -> None:
        advice = advise(plan)
        starting = [item for item in advice.offered if item.starts]
        listed = starting or advice.offered  # what starts it, where anything does
        self._items = {str(index): item for index, item in enumerate(listed)}
        rows = [_row(key, item, advice) for key, item in self._items.items()]
        if applied:
            rows.insert(0, _undo_row(applied))
        with self.hold_sync():
            self.note = before_any_change(advice)
            self.rows = rows
            self.remarks = list(advice.warnings)
            self.is_busy = False

    def _press(self, _action: str, key: str) -> None:
        if key == _UNDO:
            self._undo()
        elif key in self._items:
            item = self._items[key]
            self._apply(item.title, item.changes)


def _row(key: str, item: AdviceItem, advice: Advice) -> Row:
    gain = result(advice, item)
    removed = f"without {item.removed_flags}" if item.removed_flags else ""
    helps = item.serves and not advice.is_served
    return {
        "key": key,
        "group": heading(advice, item),
        "rule": item.cost_class.rule,
        "title": item.title,
        "gain": gain,
        "code": " ".join(part for part in (item.flags, removed) if part),
        "detail": item.cost,
        "tone": "fits" if helps else "",
        "actions": [action("apply", "Apply")],
    }


def _undo_row(applied: str) -> Row:
    return {
        "key": _UNDO,
        "title": f"Applied: {applied}",
        "detail": "Everything else is as it was.",
        "actions": [action("undo", "Undo")],
    }
