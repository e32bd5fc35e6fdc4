"""Does any page still look? What pages say of themselves, and when to give up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

SILENCE_SECONDS = 180.0
"""Browsers let a hidden page speak once a minute; three misses are the end."""
LEAVE_SECONDS = 20.0
"""Long enough for a page that is loaded anew to speak again."""


@dataclass(slots=True, kw_only=True)
class Presence:
    """The views that were heard, and when; `is_gone` when none looks any more."""

    silence_seconds: float = SILENCE_SECONDS
    leave_seconds: float = LEAVE_SECONDS
    clock: Callable[[], float] = time.monotonic
    _heard: dict[str, float] = field(default_factory=dict)
    _left_at: float | None = None
    _last: float = 0.0

    def __post_init__(self) -> None:
        self._last = self.clock()

    def begin(self) -> None:
        """Start anew: a run begins now, so somebody is there."""
        self._last = self.clock()
        self._left_at = None

    def hear(self, view: str) -> None:
        """Note that a view is there."""
        self._last = self.clock()
        self._heard[view] = self._last
        self._left_at = None

    def leave(self, view: str) -> None:
        """Note that a view goes away; others that spoke lately stay."""
        self._heard.pop(view, None)
        now = self.clock()
        lately = now - self.silence_seconds
        if not any(heard >= lately for heard in self._heard.values()):
            self._left_at = now

    @property
    def is_gone(self) -> bool:
        """Whether the last view left a while ago, or none was heard for long."""
        now = self.clock()
        if self._left_at is not None and now - self._left_at >= self.leave_seconds:
            return True
        return now - self._last >= self.silence_seconds
