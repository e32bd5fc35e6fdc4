"""The starts in a log: a server that was restarted, and replicas beside each other.

A server that is restarted writes to the same log repeatedly; `docker compose logs` and
`kubectl logs --prefix` mix the logs of several containers. A server and its workers all
log that they begin: they are one start, as long as none has a figure or an outcome.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise

from planner.values import frozen

# Source: vLLM of each release, `entrypoints/openai/api_server.py`,
# `entrypoints/common/startup.py`, `v1/engine/core.py`, `engine/llm_engine.py`.
BEGIN = re.compile(
    r"vLLM API server version|vLLM server version|non-default args:|█\s+version \d"
    r"|Initializing an? (?:V\d )?LLM engine"
)
"""What begins a start."""
_MARKS = (
    *("server version ", "non-default args:", "LLM engine"),
    *(f"█{blanks}version " for blanks in (" ", "  ", "   ")),
)
"""Of each beginning a part, as plain text: `BEGIN` is too slow for megabytes."""
_BESIDE = 60
"""Characters around a mark that have the whole beginning."""
_CONTENT = re.compile(
    r"Model loading took|Loading model weights took|KV cache size|Available KV cache"
    r"|Application startup complete|Starting vLLM (?:API )?server|init engine \("
    r"|GPU blocks:|Graph capturing (?:finished|took)"
)
_FAILED = re.compile(
    r"\bERROR\b|\bCRITICAL\b|Traceback \(most recent"
    r"|(?:EngineCore|Engine core|Engine process|WorkerProc) .{0,40}fail"
    r"|No KV cache room|(?:^|[\s:])(?:[a-z_]\w*\.)*(?:[A-Z]\w*)?(?:Error|Exception): "
)
_QUIET = re.compile(r"\b(?:DEBUG|INFO|WARNING)\b")
_ATTEMPT = re.compile(
    r"(?P<failed>No available memory for the cache blocks|max seq len \(\d+\)"
    r"|is less than desired GPU memory)"
    r"|KV cache size: [\d,]+ tokens|Application startup complete"
)
_RECORD = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d ")
_LONGEST_QUOTE = 60_000
_HEAD_CHARACTERS = 4_000
_LOOKED_AT = 400_000
"""Characters of a start that have its first figure or error."""
_REPLICA = re.compile(
    r"^(?:\[pod/([^\]\s]{1,200})\]|([A-Za-z][\w.@-]{0,100})[ \t]+\|)", re.MULTILINE
)
"""What kubectl and docker write before each line of a container."""
_MOST_REPLICAS = 64


@frozen
class StartText:
    """One start in a log."""

    text: str
    """Its lines, below what stands before the first start."""
    spans: tuple[tuple[int, int], ...]
    """Where they stand in the log."""
    replica: str = ""
    """Its container, where the log has several."""
    has_content: bool = True
    """Whether it has a figure or an outcome."""


def starts_in(text: str) -> tuple[StartText, ...]:
    """Return the starts in a log, at least one: the last with an outcome comes first.

    The others follow from the last to the first. What stands before the first, such as
    a command or the machine's GPUs, belongs to each.
    """
    attempts = _attempts(text)
    if len(attempts) > 1:
        return attempts
    head = _head(text)
    found = [
        start
        if start.spans[:1] and start.spans[0][0] == 0
        else replace(start, text=head + start.text)
        for replica, spans in _replicas(text)
        for start in _restarts(replica, spans, text)
    ]
    found.reverse()
    found.sort(key=lambda start: not start.has_content)
    return tuple(found)


def _attempts(text: str) -> tuple[StartText, ...]:
    """Return the attempts that people quote of their logs, the last first.

    A start without room for its cache cannot say its size: that is the next attempt's.
    """
    if len(text) > _LONGEST_QUOTE or _RECORD.search(text):
        return ()
    found: list[StartText] = []
    begin, failed = 0, None
    for sign in _ATTEMPT.finditer(text):
        if sign["failed"]:
            failed = text.find("\n", sign.end()) + 1 or len(text)
        elif failed is not None and sign.start() >= failed:
            found.append(_start("", [(begin, failed)], text, has_content=True))
            begin, failed = failed, None
    found.append(_start("", [(begin, len(text))], text, has_content=True))
    return tuple(reversed(found))


def _head(text: str) -> str:
    """Return what stands before the first start, and is no start itself."""
    first = next(_begins(text, 0, len(text)), 0)
    end = min(text.rfind("\n", 0, first) + 1, _HEAD_CHARACTERS)
    return "" if _has_content(text, 0, end) else text[:end]


def _replicas(text: str) -> Sequence[tuple[str, tuple[tuple[int, int], ...]]]:
    """Return the lines of each container that starts vLLM; of one log, all of it."""
    whole = [("", ((0, len(text)),))]
    begins = islice(_begins(text, 0, len(text)), _MOST_REPLICAS)
    if not any(_REPLICA.match(text, text.rfind("\n", 0, at) + 1) for at in begins):
        return whole
    lines: dict[str, list[tuple[int, int]]] = {}
    heads = [(one[1] or one[2], one.start()) for one in _REPLICA.finditer(text)]
    for (name, begin), (_, end) in pairwise([*heads, ("", len(text))]):
        spans = lines.setdefault(name, [])
        if spans and spans[-1][1] == begin:
            begin, _ = spans.pop()
        spans.append((begin, end))
    starting = [
        (name, tuple(spans))
        for name, spans in lines.items()
        if any(True for span in spans for _ in _begins(text, *span))
    ]
    return starting if 1 < len(starting) <= _MOST_REPLICAS else whole


def _begins(text: str, start: int, end: int) -> Iterator[int]:
    """Yield where starts begin, in their order; of a line, once."""
    looked, is_new = start, True
    for at in sorted(at for mark in _MARKS for at in _places(text, mark, start, end)):
        is_new = is_new or text.find("\n", looked, at) >= 0
        looked = at
        near = max(at - _BESIDE, start)
        if is_new and BEGIN.search(text, near, min(at + _BESIDE, end)):
            yield at
            is_new = False


def _places(text: str, mark: str, start: int, end: int) -> Iterator[int]:
    at = text.find(mark, start, end)
    while at >= 0:
        yield at
        at = text.find(mark, at + len(mark), end)


def _restarts(
    replica: str, spans: Sequence[tuple[int, int]], text: str
) -> Iterator[StartText]:
    """Yield the starts of one container.

    What begins a start opens a new one only if the start before it has content.
    """
    own: list[tuple[int, int]] = []
    has_content = False
    for begin, end in spans:
        looked = begin
        for place in _begins(text, begin, end):
            line = max(text.rfind("\n", begin, place) + 1, begin)
            has_content = has_content or _has_content(text, looked, line)
            looked = line
            if has_content:
                yield _start(replica, [*own, (begin, line)], text, has_content=True)
                own, begin, has_content = [], line, False
        has_content = has_content or _has_content(text, looked, end)
        own.append((begin, end))
    yield _start(replica, own, text, has_content=has_content)


def _start(
    replica: str, spans: Sequence[tuple[int, int]], text: str, *, has_content: bool
) -> StartText:
    kept = tuple(span for span in spans if span[0] < span[1])
    return StartText(
        text="".join(text[begin:end] for begin, end in kept),
        spans=kept,
        replica=replica,
        has_content=has_content,
    )


def _has_content(text: str, start: int, end: int) -> bool:
    lines = text[start : min(end, start + _LOOKED_AT)].splitlines()
    return any(
        _CONTENT.search(line) or (_FAILED.search(line) and not _QUIET.search(line))
        for line in lines
    )
