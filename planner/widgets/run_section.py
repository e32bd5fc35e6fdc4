"""The explorer's last part: a button that opens the panel which runs the plan."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import ipywidgets as w
import traitlets

from planner.in_browser import is_in_browser
from planner.published import is_published
from planner.widgets.section import Toggle

if TYPE_CHECKING:
    from planner.result import Plan
    from planner.widgets.run_panel import RunPanel

NO_RUN = "PLANNER_NO_RUN"
"""Environment variable; 1 leaves the panel out, for an app that others can reach."""


_RUN, _RECORDED = "Run it on this machine", "A start that was recorded"


def is_allowed() -> bool:
    """Tell whether plans may be run from a page."""
    return not is_published() and os.environ.get(NO_RUN, "") in ("", "0")


class RunSection(w.VBox):
    """The panel behind a button that opens it; made when it is opened first."""

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
            from planner.widgets.run_panel import RunPanel  # noqa: PLC0415 - heavy

            self.panel = RunPanel(self.plan, is_alone=False)
            self.children = (self.toggle, self.panel)
        self.panel.layout.display = "" if change["new"] else "none"

    def _hand_on(self, change: dict[str, Plan | None]) -> None:
        if self.panel is not None:
            self.panel.plan = change["new"]
