"""How long a process takes what it read from the Hub for the newest."""

from __future__ import annotations

import time

_FRESH_SECONDS = 600


def period() -> int:
    """Return the number of the period in which a model is read from the Hub once."""
    return int(time.monotonic() // _FRESH_SECONDS)
