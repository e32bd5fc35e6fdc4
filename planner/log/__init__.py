"""What a log of vLLM says: figures, outcome, version, arguments; of every release.

Read in this order: `lines` (what stands before a message is taken off), `starts` (the
start that counts), `sentences` (the figures of vLLM's sentences), `notes` (figures as
people shorten them), `outcome` (came up, or the error that kept it from it), `setting`
(version, model, arguments, times), `reading` (all of it together).
"""

from planner.log.reading import LogReading, read_log

__all__ = ["LogReading", "read_log"]
