"""The section of the page that starts vLLM."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import ipywidgets as w
import traitlets

from planner.app.widgets.section import Section
from planner.surroundings import is_in_browser, is_published

if TYPE_CHECKING:
    from planner.app.widgets.run_panel import RunPanel

NO_RUN = "PLANNER_NO_RUN"
"""Environment variable; 1 leaves out the panel, for an app that others can open."""
_RUN, _RECORDED = "Run", "A recorded start"


def is_allowed() -> bool:
    """Return whether plans may be run from a page."""
    return not is_published() and os.environ.get(NO_RUN, "") in ("", "0")


class RunSection(Section):
    """The panel that starts vLLM, which is created when first opened."""

    plan = traitlets.Any(allow_none=True)
    unplanned = traitlets.Any(allow_none=True)
    """Inputs of which there is no plan; see `RunPanel.unplanned`."""

    def __init__(self) -> None:
        super().__init__(_RECORDED if is_in_browser() else _RUN, "run-section")
        self.panel: RunPanel | None = None
        self.observe(self._hand_on, names=["plan", "unplanned"])

    @property
    def can_start(self) -> bool:
        """Whether vLLM can be started here: a browser runs no other programs."""
        return not is_in_browser()

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the panel, created when first opened."""
        if self.panel is None:
            # It starts processes, which few readers of the page want.
            from planner.app.widgets.run_panel import RunPanel  # noqa: PLC0415 - slow

            self.panel = RunPanel(self.plan, is_alone=False)
            self.panel.unplanned = self.unplanned
        return (self.panel,)

    def ask(self) -> None:
        """Ask vLLM in the panel."""
        if self.panel is not None:
            self.panel.ask()

    def _hand_on(self, _change: object) -> None:
        if self.panel is not None:
            self.panel.plan, self.panel.unplanned = self.plan, self.unplanned
