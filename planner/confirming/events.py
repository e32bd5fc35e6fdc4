"""What a run tells while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from planner.confirming.stages import StartStage


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A new stage, new lines of the log, or both."""

    stage: StartStage
    """The stage that the run is in now."""
    fraction: float = 0.0
    """Share of the whole run that lies behind, 0 to 1, for a progress bar."""
    lines: tuple[str, ...] = ()
    """Lines of the log since the last event."""
    seconds: float = 0.0
    """Since the run began."""
    reached: tuple[StartStage, ...] = ()
    """The stages that there were until now, this one included; empty: not told."""


Listener: TypeAlias = Callable[[Event], None]
"""Called in the thread of the run, not in the caller's."""
