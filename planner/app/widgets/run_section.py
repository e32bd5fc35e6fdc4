"""The explorer's last section: a button that opens the panel which runs the plan."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import ipywidgets as w
import traitlets

from planner.app.widgets.section import Toggle
from planner.late import late
from planner.surroundings import is_in_browser, is_published

if TYPE_CHECKING:
    from planner.app.widgets.run_panel import RunPanel
    from planner.planning.result import Plan

NO_RUN = "PLANNER_NO_RUN"
"""Environment variable; 1 leaves out the panel, for an app that others can open."""
_RUN, _RECORDED = "Run it on this machine", "A start that was recorded"
_PANEL = "planner.app.widgets.run_panel:RunPanel"


def is_allowed() -> bool:
    """Return whether plans may be run from a page."""
    return not is_published() and os.environ.get(NO_RUN, "") in ("", "0")


class RunSection(w.VBox):
    """A button that opens the panel, which is created when first opened."""

    plan = traitlets.Any(allow_none=True)

    def __init__(self) -> None:
        self.toggle = Toggle(description=_RECORDED if is_in_browser() else _RUN)
        self.toggle.add_class("planner-run-toggle")
        self.panel: RunPanel | None = None
        super().__init__([self.toggle])
        self.add_class("planner-run-section")
        self.toggle.observe(self._toggled, names="value")
        self.observe(self._hand_on, names="plan")

    def _toggled(self, change: dict[str, bool]) -> None:
        if self.panel is None:
            panel: RunPanel = late(_PANEL, self.plan, is_alone=False)
            self.panel = panel
            self.children = (self.toggle, panel)
        self.panel.layout.display = "" if change["new"] else "none"

    def _hand_on(self, change: dict[str, Plan | None]) -> None:
        if self.panel is not None:
            self.panel.plan = change["new"]
