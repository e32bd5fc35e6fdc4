"""Several starts in one log, and the one that counts.

A server that is restarted writes into the same log again and again. The last start that
tells a figure or an outcome counts: it is what the log's reader has in front of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from planner.log.lines import LogLine
from planner.log.outcome import is_error

# Source: vLLM of each release, `entrypoints/openai/api_server.py`,
# `entrypoints/common/startup.py`, `v1/engine/core.py`, `engine/llm_engine.py`.
_BEGIN = re.compile(
    r"vLLM API server version|vLLM server version|non-default args:|█\s+version \d"
    r"|Initializing an? (?:V\d )?LLM engine"
)
_TELLING = re.compile(
    r"Model loading took|Loading model weights took|KV cache size|Available KV cache"
    r"|Application startup complete|Starting vLLM (?:API )?server|init engine \("
    r"|GPU blocks:|Graph capturing (?:finished|took)"
)


def starts_of(lines: Sequence[LogLine]) -> tuple[Sequence[LogLine], ...]:
    """Return the lines of each start, in their order.

    A line that begins a start begins a new one only when the one before has told
    something: a server and each of its engines all say that they begin.
    """
    return tuple(_split(lines))


def _split(lines: Sequence[LogLine]) -> Iterator[Sequence[LogLine]]:
    begin, has_told = 0, False
    for number, line in enumerate(lines):
        if has_told and _BEGIN.search(line.text):
            yield lines[begin:number]
            begin, has_told = number, False
        has_told = has_told or _tells(line)
    yield lines[begin:]


def begins_with_start(lines: Sequence[LogLine]) -> bool:
    """Whether the lines hold a start's beginning, not only a part that was quoted."""
    return any(_BEGIN.search(line.text) and line.level for line in lines)


def last_telling(starts: Sequence[Sequence[LogLine]]) -> Sequence[LogLine]:
    """Return the last start that tells something, else the last one."""
    for start in reversed(starts):
        if any(_tells(line) for line in start):
            return start
    return starts[-1]


def _tells(line: LogLine) -> bool:
    return bool(_TELLING.search(line.text)) or is_error(line)
