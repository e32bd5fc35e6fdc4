"""Errors in widget callbacks are silent in Voila: show them where the user looks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from html import escape

from planner.errors import PlannerError

log = logging.getLogger(__name__)

UNEXPECTED = (
    "Something went wrong in the planner itself; the last good plan is still shown. "
    "The log has the details."
)


def guarded(
    say: Callable[[str], None],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a callback report its errors through `say` instead of vanishing.

    `say` gets an empty text before each run, which clears what it showed.
    """

    def decorate(callback: Callable[..., None]) -> Callable[..., None]:
        @wraps(callback)
        def run(*arguments: object) -> None:
            say("")
            try:
                callback(*arguments)
            except PlannerError as error:
                say(str(error))
            except Exception:
                log.exception("callback %s failed", callback.__qualname__)
                say(UNEXPECTED)

        return run

    return decorate


def alert_html(message: str) -> str:
    """Write a message so that a screen reader speaks it at once."""
    return (
        "<p class='pl-alert' role='alert'><span aria-hidden='true'>✘</span> "
        f"{escape(message)}</p>"
    )
