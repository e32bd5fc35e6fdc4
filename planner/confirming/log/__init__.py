"""Reads a log of vLLM: figures, outcome, version and arguments, of every release.

Read in this order: `starts` (the starts in a log), `lines` (removes the prefixes of
messages), `outcome` (whether a start succeeded), `sentences` (the figures in vLLM's
sentences, and in people's notes of them), `setting` (version, model, arguments, times),
`reading` (all of it together).
"""

from planner.confirming.log.lines import excerpt_of, excerpt_of_start
from planner.confirming.log.reading import (
    OF_VLLM,
    Allocation,
    LogReading,
    allocation_in,
    is_telling,
    read_log,
    read_start,
)
from planner.confirming.log.starts import StartText, starts_in

__all__ = [
    "OF_VLLM",
    "Allocation",
    "LogReading",
    "StartText",
    "allocation_in",
    "excerpt_of",
    "excerpt_of_start",
    "is_telling",
    "read_log",
    "read_start",
    "starts_in",
]
