"""What callbacks of widgets need: visible errors, delayed work, presence of a page.

In Voila, errors in callbacks are silent. Slow work waits until the user pauses, so that
sliders stay fast. A run of vLLM ends once no page shows it any more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps

from planner.errors import PlannerError
from planner.show.html import Html, tag

log = logging.getLogger(__name__)
UNEXPECTED = (
    "Something went wrong in the planner itself; the last good plan is still shown. "
    "The log has the details."
)
SILENCE_SECONDS = 180.0
"""Browsers let a hidden page send once a minute; after three misses it is gone."""
LEAVE_SECONDS = 20.0
"""Long enough for a reloaded page to send again."""


def guarded(
    say: Callable[[str], None],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a callback report its errors through `say`.

    `say` gets an empty text before each run, which clears the last message.
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


def alert_html(message: str) -> Html:
    """Write a message that a screen reader reads out at once."""
    sign = tag("span", "✘", aria_hidden="true")
    return tag("p", sign, f" {message}", class_="pl-alert", role="alert")


class Later:
    """Runs the newest job after a pause of `seconds`; at once without an event loop."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._waiting: asyncio.TimerHandle | None = None

    def run(self, job: Callable[[], None]) -> None:
        """Run `job` soon, instead of the one that still waits."""
        self.cancel()
        loop = running_loop()
        if loop is None:
            job()
        else:
            self._waiting = loop.call_later(self.seconds, job)

    def cancel(self) -> None:
        """Discard the waiting job."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the caller's event loop; None without one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@dataclass(slots=True, kw_only=True)
class Presence:
    """When each view of a page last sent something, and whether all are gone."""

    silence_seconds: float = SILENCE_SECONDS
    leave_seconds: float = LEAVE_SECONDS
    clock: Callable[[], float] = time.monotonic
    _received_at: dict[str, float] = field(default_factory=dict)
    _left_at: float | None = None
    _last: float = 0.0

    def __post_init__(self) -> None:
        self._last = self.clock()

    def begin(self) -> None:
        """Restart at the beginning of a run, when a user is present."""
        self._last = self.clock()
        self._left_at = None

    def receive(self, view: str) -> None:
        """Record that a view is present."""
        self._last = self.clock()
        self._received_at[view] = self._last
        self._left_at = None

    def leave(self, view: str) -> None:
        """Record that a view leaves; others that sent recently stay."""
        self._received_at.pop(view, None)
        now = self.clock()
        earliest = now - self.silence_seconds
        if not any(received >= earliest for received in self._received_at.values()):
            self._left_at = now

    @property
    def is_gone(self) -> bool:
        """Whether the last view left a while ago, or all have been silent for long."""
        now = self.clock()
        if self._left_at is not None and now - self._left_at >= self.leave_seconds:
            return True
        return now - self._last >= self.silence_seconds
