"""A measurement from a log alone."""

from __future__ import annotations

from planner.confirm.measurement import Measurement
from planner.log import read_log


def measurement_of(text: str) -> Measurement:
    """Return what a log of vLLM tells of its start."""
    reading = read_log(text)
    return Measurement(log=reading, error=reading.error, is_started=reading.started)
