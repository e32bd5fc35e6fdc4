"""Reads a log of vLLM: figures, outcome, version and arguments, of every release.

Read in this order: `lines` (removes the prefixes of messages), `outcome` (the last
start in a log, and whether it succeeded), `sentences` (the figures in vLLM's sentences,
and in people's notes of them), `setting` (version, model, arguments, times), `reading`
(all of it together).
"""

from planner.confirming.log.lines import excerpt_of
from planner.confirming.log.reading import (
    Allocation,
    LogReading,
    allocation_in,
    read_log,
)

__all__ = ["Allocation", "LogReading", "allocation_in", "excerpt_of", "read_log"]
