"""Asks the Hub for names apart from the page, one question at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from planner.errors import PlannerError
from planner.sources import search
from planner.widgets.reader import Reader

log = logging.getLogger(__name__)

Answer = Callable[[Sequence[str] | None], None]


class HubSearch:
    """Looks up the newest text; what came in between is forgotten."""

    def __init__(self) -> None:
        self._reader = Reader()
        self._next: tuple[str, Answer] | None = None
        self._is_asking = False

    def find(self, text: str, answer: Answer) -> None:
        """Call `answer` with names that hold `text`, later; None: not reached."""
        self._next = (text, answer)
        self._ask()

    def wait(self, seconds: float) -> None:
        """Wait until the last question was answered."""
        self._reader.wait(seconds)

    def _ask(self) -> None:
        if self._is_asking or self._next is None:
            return
        (text, answer), self._next = self._next, None
        self._is_asking = True

        def done(names: Sequence[str] | None) -> None:
            self._is_asking = False
            answer(names)
            self._ask()

        def failed(error: Exception) -> None:
            if not isinstance(error, PlannerError):
                log.error("a search on the Hub failed", exc_info=error)
            done(None)

        self._reader.start(lambda: search.names(text), done, failed)  # type: ignore[arg-type]
