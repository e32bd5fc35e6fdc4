"""Whether strangers reach this process: then it starts nothing, reads no folder."""

from __future__ import annotations

import os

PUBLISHED = "PLANNER_PUBLISHED"
"""Environment variable; 1 for an app that others can reach."""


def is_published() -> bool:
    """Tell whether others than this machine's user reach the planner.

    >>> is_published()
    False
    """
    return os.environ.get(PUBLISHED, "") not in ("", "0")
