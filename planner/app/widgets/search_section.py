"""What searches for set-ups and for models share: a table that fills, and errors."""

from __future__ import annotations

import logging
import time
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
    redraw_seconds: ClassVar[float]
    """Rows are drawn at most so often while they are found."""
    kinds: ClassVar[str]
    """What is searched, one after the other."""

    def __init__(self, title: str, name: str) -> None:
        super().__init__(title, name, PAUSE_SECONDS)
        self._guard = guarded(self._report)
        self._guarded_refresh = self._guard(self.refresh)
        self._slices = SlicedJob()
        self._drawn_at = 0.0
        self._search: Any = None
        self._asked: object = None
        """What the rows, or those to come, are the answer to."""

    @property
    def is_searching(self) -> bool:
        """Whether the search is not over."""
        return self._slices.is_running

    def pause(self) -> None:
        """Give up the search, and mark the rows as those of an earlier question.

        For a page whose entries are wrong at the moment, too.
        """
        self._later.cancel()
        self._slices.cancel()
        self._asked = None
        self.table.is_stale = True

    def turn(self, is_open: bool) -> None:
        """Open or close it, and give up a search that nobody sees."""
        super().turn(is_open)
        if not is_open and self.is_searching:
            self.pause()

    def _ask_again(self) -> None:
        """Search once the user pauses, where the question is another one."""
        if self.is_open and self._question() != self._asked:
            self.pause()
            self._later.run(self._guarded_refresh)

    def _question(self) -> Any:  # noqa: ANN401 - of each search
        """Return what the search depends on; None without a plan."""
        raise NotImplementedError

    def _draw(self, progress: float) -> None:
        """Show what has been found."""
        raise NotImplementedError

    def _count(self) -> tuple[int, int]:
        """Return how many have been searched, and of how many."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop what the rows stand for."""

    def _begin(self, search: Any) -> None:  # noqa: ANN401 - of each section
        """Begin a search, which has steps."""
        self._search, self._drawn_at = search, 0.0
        with self.table.hold_sync():
            self.table.note, self.table.progress = "", 0.0
        self._slices.start(search.steps(), self._between, self._done, self._failed)

    def _between(self) -> None:
        """Draw what has been found so far: the first rows at once, others now and then.

        Until the first row is found, the rows of an earlier plan stay, marked so.
        """
        search, now = self._search, time.monotonic()
        if search is None or not search.found:
            return
        if now - self._drawn_at >= self.redraw_seconds:
            self._drawn_at = now
            done, total = self._count()
            self._draw(done / max(total, 1))

    def _done(self) -> None:
        self._draw(1.0)

    def _cancel(self) -> None:
        """End the search; what it has found stays, and says that it is a part."""
        if self._search is None or not self._slices.is_running:
            return
        self._slices.cancel()
        self._draw(1.0)
        done, total = self._count()
        part = f"Cancelled after {done} of {total} {self.kinds}."
        self.table.remarks = [part, *self.table.remarks]

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
