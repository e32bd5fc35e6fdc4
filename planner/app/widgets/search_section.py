"""What searches for set-ups and for models share: a table that fills, and errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import traitlets

from planner.app.widgets.background import SlicedJob
from planner.app.widgets.callbacks import UNEXPECTED, guarded
from planner.app.widgets.page_widget import PageWidget
from planner.app.widgets.section import Section
from planner.errors import PlannerError

log = logging.getLogger(__name__)
PAUSE_SECONDS = 0.5
"""The search waits until a slider rests."""


class SearchTable(PageWidget):
    """Rows of a search; the kernel writes all texts, the page says what is pressed."""

    look: ClassVar[str] = ""
    """The class of the widget on the page."""

    note = traitlets.Unicode().tag(sync=True)
    """A sentence instead of rows."""
    answer = traitlets.Unicode().tag(sync=True)
    """What was found, in a sentence."""
    needs = traitlets.Int(1).tag(sync=True)
    """Requests at once of the load."""
    rows: Any = traitlets.List().tag(sync=True)
    misses: Any = traitlets.List().tag(sync=True)
    remarks: Any = traitlets.List().tag(sync=True)
    progress = traitlets.Float(1.0).tag(sync=True)
    """Share of the search that is done; 1: it has ended."""
    is_stale = traitlets.Bool(False).tag(sync=True)
    """Whether the rows are for an earlier question, so that none can be applied."""
    current = traitlets.Unicode().tag(sync=True)
    """Key of the plan on the screen, whether it is a row or not."""

    def __init__(self, told: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self.add_class(self.look)
        self._told = told

    def hear(self, message: Any) -> bool:  # noqa: ANN401 - what a page sent
        """Pass on what the page says; it is checked where it is used."""
        if isinstance(message, Mapping):
            self._told(message)
        return isinstance(message, Mapping)


class SearchSection(Section):
    """A section that searches in slices beside the page; `table` shows its rows."""

    table: Any

    def __init__(self, title: str, name: str) -> None:
        super().__init__(title, name, PAUSE_SECONDS)
        self._guard = guarded(self._report)
        self._guarded_refresh = self._guard(self.refresh)
        self._slices = SlicedJob()
        self._drawn_at = 0.0

    def _forget(self) -> None:
        """Drop what the rows stand for."""

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, PlannerError):
            log.error("a search failed", exc_info=error)
        self._say(str(error) if isinstance(error, PlannerError) else UNEXPECTED)

    def _report(self, message: str) -> None:
        """Show the error of a callback; the guard clears it with an empty text."""
        if message:
            self._say(message)

    def _say(self, note: str) -> None:
        """Show a sentence in place of the rows."""
        self._forget()
        with self.table.hold_sync():
            self.table.rows, self.table.misses, self.table.remarks = [], [], []
            self.table.answer, self.table.note = "", note
            self.table.progress, self.table.is_stale = 1.0, False

    def _put(self, shown: Mapping[str, object], progress: float) -> None:
        """Show rows, by the names of the table's traits."""
        with self.table.hold_sync():
            for name, value in shown.items():
                setattr(self.table, name, value)
            self.table.note = ""
            self.table.progress, self.table.is_stale = progress, False
