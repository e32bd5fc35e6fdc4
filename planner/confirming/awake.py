"""Whether this process ran all the time: its machine may sleep, or stop it."""

from __future__ import annotations

import threading
import time

_TICK_SECONDS = 0.5
LATE_SECONDS = 5.0
"""A busy machine lets a thread wait for less."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)
"""Linux's clock that goes on while the machine sleeps."""


class Awake:
    """A context in which a thread looks at the clock, and notes when it could not."""

    def __init__(self) -> None:
        self.missed_seconds = 0.0
        """In all, of pauses longer than `LATE_SECONDS`."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="awake", daemon=True)

    def __enter__(self) -> Awake:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        last, is_over = _now(), False
        while not is_over:
            is_over = self._is_over.wait(_TICK_SECONDS)
            now = _now()
            if now - last > LATE_SECONDS:
                self.missed_seconds += now - last
            last = now


def _now() -> float:
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
