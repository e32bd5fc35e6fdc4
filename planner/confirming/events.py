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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEvent(Event):
    """What one of many starts on a cluster tells."""

    number: int
    """Which plan, from 0."""
    attempt: int = 0
    """How often it was started before this."""
    machine: str = ""
    """Where it runs; empty where it does not yet."""
    note: str = ""
    """What happened to it: that it waits for a machine, or why it starts again."""


Listener: TypeAlias = Callable[[Event], None]
"""Called in the run's thread, not in the caller's; on a cluster in the caller's."""
