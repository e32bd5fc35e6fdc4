"""Reads a model in a thread, so that the page stays alive while the Hub answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Thread

from planner.in_browser import is_in_browser

Job = Callable[[], object]


class Reader:
    """Runs one job at a time apart; only the newest job's answer is handed back."""

    def __init__(self) -> None:
        self._newest = 0
        self._thread: Thread | None = None

    def start(
        self,
        job: Job,
        done: Callable[[object], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Run `job` apart, then `done` or `failed` on the caller's event loop."""
        self._newest += 1
        number = self._newest
        post = _poster()

        def hand_back(call: Callable[[], None]) -> None:
            if number == self._newest:
                post(call)

        def run() -> None:
            try:
                answer = job()
            except Exception as error:  # noqa: BLE001 - handed to the caller's guard
                failure = error
                hand_back(lambda: failed(failure))
            else:
                hand_back(lambda: done(answer))

        if is_in_browser():  # which has no threads: the page waits
            run()
            return
        self._thread = Thread(target=run, daemon=True, name="planner-reader")
        self._thread.start()

    def cancel(self) -> None:
        """Forget the job that is running: its answer is no longer wanted."""
        self._newest += 1

    def wait(self, seconds: float) -> None:
        """Wait until the job that was started last has ended."""
        if self._thread is not None:
            self._thread.join(seconds)


def _poster() -> Callable[[Callable[[], None]], object]:
    """Return how to reach the caller's thread: its event loop, if it has one."""
    try:
        return asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        return lambda call: call()
