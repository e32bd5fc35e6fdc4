"""Lines of a log, without the prefixes of their messages.

Prefixes come from vLLM's processes, Ray, docker, Kubernetes, journald, a collector that
writes JSON and the quoting in an issue; a terminal adds colours and breaks lines.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator

from planner.confirming.log.starts import StartText, starts_in
from planner.values import frozen

_COLOUR = re.compile(
    r"(?:\x1b|\\u001b|\\x1b|\\033|\u241b|\^\[)\[[0-9;?]*[A-Za-z]"
    r"|\[\d{1,3}(?:;\d{1,3})*m"
)
"""Also colours whose escape character was lost, as on a web page."""

_MARKDOWN = re.compile(r"\\([\[\]()_*#`~>])")
"""Characters that were escaped for Markdown."""

_HEAD = re.compile(
    r"\b(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+"
    r"(?:(?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d+)?\s+)?"
    r"(?:\[[^\]\s]+:\d+\]|[\w./-]+\.py:\d+\])[ \t]?"
)
"""The head of a record. Source: vLLM 0.33.0 `logger.py` _FORMAT; up to 0.7 without the
opening bracket; a quoted record may lack the time."""
_OTHER_HEAD = re.compile(
    r"^(?:(?P<one>DEBUG|INFO|WARNING|ERROR|CRITICAL)[\s:|-]+vllm[\w.]*[\s:|-]+"
    r"|[-|\s]*vllm[\w.]*[\s:|-]+(?P<two>DEBUG|INFO|WARNING|ERROR|CRITICAL)[\s:|-]+)"
)
"""The head of a record in a user's own logging configuration."""

_PROCESS = re.compile(
    r"^\((?:(?P<process>[\w.:-]+)(?: rank=\d+)?,? )?pid=\d+(?:, ip=[^)]*)?\)\s?"
    r"|^\((?P<worker>Worker\w*|EngineCore\w*|APIServer\w*)\)\s?"
)
_PROCESS_AT_END = re.compile(r"\((?P<process>[\w.:-]+)[^()]*pid=\d+[^()]*\)\s*$")
_PREFIXES = (
    re.compile(r"^\s*(?:[>\u258e\u2502]\s?)+"),  # quoted in an issue, a side bar
    re.compile(r"^\[pod/[^\]]*\]\s?"),  # kubectl logs --prefix
    re.compile(r"^[A-Za-z][\w.-]*(?:\s{2,}|[-_]\d+\s+)\|\s?"),  # docker compose
    re.compile(
        r"^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?"
        r"\s?(?:Z|[+-]\d\d:?\d\d)?\]?\s+"
        r"(?:(?:stdout|stderr)\s+[FP]\s+)?"
    ),  # docker logs -t, Kubernetes, containerd
    re.compile(
        r"^[A-Z][a-z]{2}\s+\d{1,2}\s\d\d:\d\d:\d\d\s\S+\s[\w@./-]+(?:\[\d+\])?:\s?"
    ),  # journald, syslog
    re.compile(r"^\[(?:rank|default)\d+\]:\s?"),  # torch
    re.compile(r"^\d{1,4}:\s(?=\S)"),  # srun --label
)
_ESCAPED_END = re.compile(r'(?:\\r)?\\n"?,?$')
_MESSAGES = ("message", "msg", "log", "MESSAGE", "textPayload", "body", "line")
_LEVELS = ("levelname", "level", "severity", "lvl")
_NESTING = 4
"""Layers of JSON that are read: docker around a collector around vLLM."""
_TELLING = tuple(
    "version|non-default|engine|odel|emory|KV cache|kv_cache|concurrency|raph|blocks|"
    "budget|Defaulting|Chunked|seq len|max_|Error|Exception|Killed|complete|Started|"
    "Starting|ompil|GiB|rank|device_name|NCCL|took|GPU|OOM|dummy".split("|")
)
"""A line of a start without any of these has no figure, setting or outcome."""
_OF_REQUESTS = ("throughput:", " HTTP/1", "Received request", "Added request")
SHORT = 60_000
"""Characters of a log that is read whole."""
_START_CHARACTERS = 400_000
_TAIL_CHARACTERS = 20_000
_LINE_CHARACTERS = 20_000
_WORD = re.compile(r"\S+")
_DIGITS = re.compile(r"[\d,.]+")
_WORD_CHARACTERS = 2_000
_MOST_DIGITS = 40
_OF_AN_ERROR = 12
"""Lines that are kept after an error's."""
_NARROW, _WIDE = 40, 250
_FULL_LINES = 2
"""Number of different lines of the greatest length that shows a terminal's width."""


@frozen
class LogLine:
    """One line of a log, without the prefixes of its message."""

    text: str
    level: str | None = None
    """As vLLM wrote it; None for a line without the head of a record."""
    process: str = ""
    """vLLM's process, such as Worker_TP0; empty if unknown."""
    stamp: str = ""
    """Month, day and time; empty if unknown."""
    width: int = 0
    """Length of the line with its prefixes."""


def lines_of(text: str) -> tuple[LogLine, ...]:
    """Return the lines of a log in any of these forms."""
    return _lines(_plain(text).splitlines())


def joined_lines_of(text: str) -> tuple[LogLine, ...] | None:
    """Return the lines, joining those that a terminal may have broken at its width.

    None if no two lines have the greatest length. An editor wraps at words, and two of
    its lines may have that length by chance: the caller uses the reading with more
    figures.
    """
    raws = _plain(text).splitlines()
    width = max((len(raw) for raw in raws), default=0)
    full = {raw for raw in raws if len(raw) == width}
    if not (_NARROW <= width <= _WIDE and len(full) >= _FULL_LINES):
        return None
    return _lines(_joined(raws, width))


def excerpt_of(text: str) -> str:
    """Return what of a long log is read: its head, the start that counts, its end.

    The rest is requests, and other starts. A short log with one start is returned
    whole.
    """
    return excerpt_of_start(starts_in(text)[0])


def excerpt_of_start(start: StartText) -> str:
    """Return what is read of one start in a log: its head and its end."""
    own = start.text
    if len(own) <= SHORT:
        return _bounded(own)
    tail = max(len(own) - _TAIL_CHARACTERS, _START_CHARACTERS)
    crash = _crash(own, _START_CHARACTERS, tail)
    pieces = [_telling(own[:_START_CHARACTERS]), crash, _telling(own[tail:])]
    return _bounded("\n".join(pieces))


def _bounded(text: str) -> str:
    """Cut words and numbers that no program writes: patterns need time for them."""
    words = _WORD.sub(lambda word: word[0][:_WORD_CHARACTERS], text)
    return _DIGITS.sub(lambda digits: digits[0][:_MOST_DIGITS], words)


def _crash(text: str, start: int, end: int) -> str:
    """Return the lines around the first traceback between two places."""
    at = text.find("Traceback (most recent call last)", start, end)
    return "" if at < 0 else _telling(text[at : min(at + _TAIL_CHARACTERS, end)])


def may_tell(line: str) -> bool:
    """Return whether a line has a word of those with a figure, setting or outcome."""
    return any(word in line for word in _TELLING) and not any(
        word in line for word in _OF_REQUESTS
    )


def _telling(text: str) -> str:
    """Return the lines that can tell something, with those that follow an error."""
    kept: list[str] = []
    left, size = 0, 0
    for line in text.splitlines():
        if any(word in line for word in _OF_REQUESTS):
            continue
        left = _OF_AN_ERROR if "Error" in line or "Exception" in line else left - 1
        if left > 0 or may_tell(line):
            kept.append(line[:_LINE_CHARACTERS])
            size += len(kept[-1])
        if size > SHORT:
            break
    return "\n".join(kept)


def _plain(text: str) -> str:
    plain = _MARKDOWN.sub(r"\1", _COLOUR.sub("", text))
    return html.unescape(plain) if "&" in plain else plain


def _lines(raws: Iterable[str]) -> tuple[LogLine, ...]:
    return tuple(line for raw in raws for line in _read(raw, _NESTING))


def _joined(raws: Iterable[str], width: int) -> Iterator[str]:
    joined = ""
    for raw in raws:
        if joined and _begins(raw):
            yield joined
            joined = ""
        joined += raw
        if len(raw) < width:
            yield joined
            joined = ""
    if joined:
        yield joined


def _begins(raw: str) -> bool:
    """Return whether a line begins a record, and does not continue the last one."""
    head = _HEAD.search(raw)
    return bool(_PROCESS.match(raw) or (head and head.start() < _NARROW))


def _read(raw: str, nesting: int) -> Iterator[LogLine]:
    record = _json_message(raw) if nesting else None
    if record is not None:
        message, level = record
        for part in message.splitlines() or [""]:
            for line in _read(part, nesting - 1):
                yield line if line.level else _with_level(line, level)
        return
    yield from _records(_ESCAPED_END.sub("", raw))


def _json_message(raw: str) -> tuple[str, str | None] | None:
    """Return message and level of a line of JSON; None if it has no message."""
    start = raw.find("{")
    if start < 0 or not raw.rstrip().endswith("}"):
        return None
    if _stripped(raw[:start])[0].strip():
        return None
    try:
        record = json.loads(raw[start:])
    except (ValueError, RecursionError):
        return None
    message = _first_text(record, _MESSAGES)
    level = _first_text(record, _LEVELS)
    return None if message is None else (message, level.upper() if level else None)


def _first_text(record: object, names: tuple[str, ...]) -> str | None:
    if not isinstance(record, dict):
        return None
    found = (record.get(name) for name in names)
    return next((value for value in found if isinstance(value, str)), None)


def _with_level(line: LogLine, level: str | None) -> LogLine:
    return LogLine(
        text=line.text,
        level=level,
        process=line.process,
        stamp=line.stamp,
        width=line.width,
    )


def _records(raw: str) -> Iterator[LogLine]:
    """Split a line at the heads in it: a progress bar does not end its line."""
    heads = list(_HEAD.finditer(raw))
    first = heads[0].start() if heads else len(raw)
    before, process = _stripped(raw[:first])
    if not heads:
        yield _without_head(before, process, len(raw))
        return
    bar = _last_process(before)
    if bar.rest.strip():
        yield LogLine(text=bar.rest, process=process)
    process = bar.process or process
    ends = [head.start() for head in heads[1:]] + [len(raw)]
    for head, end in zip(heads, ends, strict=True):
        tail = _last_process(raw[head.end() : end])
        yield LogLine(
            text=tail.rest.rstrip(),
            level=head["level"],
            process=process,
            stamp=head["stamp"] or "",
            width=len(raw),
        )
        process = tail.process


def _without_head(text: str, process: str, width: int) -> LogLine:
    other = _OTHER_HEAD.match(text)
    if other is None:
        return LogLine(text=text.rstrip(), process=process, width=width)
    level = other["one"] or other["two"]
    rest = text[other.end() :].rstrip()
    return LogLine(text=rest, level=level, process=process, width=width)


def _stripped(text: str) -> tuple[str, str]:
    """Return a text without its prefixes, and the process that they name."""
    process = ""
    while True:
        named = _PROCESS.match(text)
        if named is not None:
            process = named["process"] or named["worker"] or process
            text = text[named.end() :]
            continue
        found = (pattern.match(text) for pattern in _PREFIXES)
        ends = [match.end() for match in found if match is not None]
        if not any(ends):
            return text, process
        text = text[max(ends) :]


@frozen
class _Tail:
    """A text, and the process named at its end, which belongs to the next record."""

    rest: str
    process: str


def _last_process(text: str) -> _Tail:
    found = _PROCESS_AT_END.search(text)
    if found is None:
        return _Tail(rest=text, process="")
    return _Tail(rest=text[: found.start()], process=found["process"])
