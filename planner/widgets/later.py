"""Work that may wait until the user pauses: it must not slow the slider down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Later:
    """Runs the newest job once no other came for `seconds`; at once without a loop."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._waiting: asyncio.TimerHandle | None = None

    def run(self, job: Callable[[], None]) -> None:
        """Run `job` soon, and forget the one that still waits."""
        self.cancel()
        loop = _running_loop()
        if loop is None:
            job()
        else:
            self._waiting = loop.call_later(self.seconds, job)

    def cancel(self) -> None:
        """Forget the job that waits."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
