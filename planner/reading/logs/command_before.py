"""The start before a log in the same text: a command, a manifest or code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from planner.errors import PlannerError
from planner.reading.logs.signs import sign_in
from planner.reading.passage import Passage
from planner.reading.python.code import starts_in_code
from planner.reading.reading import FoundStart, Kind, Reading, reading_of
from planner.reading.scripts.shell import Command, commands_of
from planner.reading.splitting import (
    documents_of,
    spans_of_code,
    without_apostrophes,
)
from planner.reading.starts.container import starts_in
from planner.reading.starts.manifests import starts_in_manifest

_STARTED = re.compile(r"\bvllm\b|\bdocker\b|\bpodman\b|lm[_-]eval")
_NAME_BEFORE = re.compile(r"(?:\bexport[ \t]+)?\b\w+=[\"']?\Z")
_LONGEST_NAME = 100
_BEFORE = 20_000
"""Characters before the log that may hold the command which started it."""


def command_in(text: str) -> Reading | None:
    """Return the start before a log in the same text, as a reading of its own.

    Of a manifest's several starts, the one whose model the log names, else the first.
    """
    head, line = head_of(text)
    sign = sign_in(line)
    around = (line[: sign.start()], line[sign.end() :]) if sign else ()
    same_line = next(filter(_STARTED.search, around), "")
    if not _STARTED.search(head + same_line):
        return None
    starts, rest = _in_documents(head), text[len(head) : len(head) + _BEFORE]
    named = (one for one in starts if one.model and one.model in rest)
    return next(named, starts[0]) if starts else _first_command(head + same_line)


def head_of(text: str) -> tuple[str, str]:
    """Return what stands before the first line of a log, and that line."""
    head = ""
    for line in text[:_BEFORE].splitlines(keepends=True):
        if sign_in(line) is not None:
            return head, line
        head += line
    return head, ""


@lru_cache(maxsize=1)  # as below
def _in_documents(head: str) -> tuple[Reading, ...]:
    """Return the starts in a manifest, a configuration or code before a log."""
    found: list[FoundStart] = []
    for document in documents_of(head):
        for reader in (starts_in_code, starts_in_manifest):
            with suppress(PlannerError):
                found += reader(document.page, head)
    return tuple(reading_of(one.kind, head, one.start) for one in found)


@lru_cache(maxsize=1)  # each change that is offered is written into the same text
def _first_command(head: str) -> Reading | None:
    whole = without_apostrophes(Passage.whole(head))
    for page in (*(one.page for one in spans_of_code(head)), whole):
        for command in commands_of(page):
            if any(starts_in([command], head)):
                own = _own_text(command, head)
                found = next(starts_in(commands_of(Passage.whole(own)), own), None)
                if found is not None:
                    return reading_of(found.kind, own, found.start)
    return None


def _own_text(command: Command, text: str) -> str:
    """Return a command with the variables before it, without a prompt."""
    words = [word for word in command.words if word.value not in ("$", ">", "%", "#")]
    own = [word.start for word in command.assigned.values()]
    start = min([words[0].start if words else 0, *own])
    name = _NAME_BEFORE.search(text, max(start - _LONGEST_NAME, 0), start)
    begin = name.start() if name is not None and own else start
    return text[begin : command.words[-1].end]


def typed_in(command: Reading | None, text: str) -> Sequence[tuple[int, int]]:
    """Return where the start before a log stands: its command, or its arguments."""
    at = -1 if command is None else text.find(command.given)
    if command is None or command.start is None or at < 0:
        return ()
    if command.kind in (Kind.COMMAND, Kind.CONTAINER, Kind.EVALUATION):
        return ((at, at + len(command.given)),)
    return [span for site in command.start.sites for span in site.at]
