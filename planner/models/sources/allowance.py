"""How many requests a published app makes to the Hub in a minute, over all sessions.

Each visitor has a process, so the count is kept in a small file that all processes lock
briefly. A lock ends with the process that holds it. Time is that of the system's
monotonic clock, which all processes share and cannot be set.
"""

from __future__ import annotations

import logging
import math
import os
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path

from planner.errors import TooOften
from planner.surroundings import runtime_folder
from planner.values import frozen

log = logging.getLogger(__name__)

PER_MINUTE = "PLANNER_HUB_PER_MINUTE"
"""Environment variable: models read from the Hub in a minute; 0 for none."""

_PER_MINUTE = 20
"""The Hub answers 500 API requests in five minutes to an address without a token; a
model takes two, and as many searches are allowed as there are requests for models."""

_LONGEST_PER_MINUTE = 100_000
_FILE = "hub-allowance"
_STATE = struct.Struct("<dd")
_WAIT_FOR_LOCK_SECONDS = 1.0
_TRY_LOCK_SECONDS = 0.01
_ALONE_SHARE = 10
"""Without a file, each process takes a tenth, as it does not see the others."""

_FROM_THE_LIST = "pick a model from the list"


class HubRequest(Enum):
    """What is requested of the Hub; the value is the place of its count in the file."""

    MODEL = 0
    SEARCH = 1

    @property
    def share(self) -> int:
        """How many of these are allowed for one model of the allowance."""
        return 1 if self is HubRequest.MODEL else 2


@frozen
class Bucket:
    """What is left of an allowance, and when that was counted."""

    tokens: float
    at: float

    def refilled(self, per_minute: int, now: float) -> Bucket:
        """Return what is left at `now`; a minute's allowance at most.

        A count from before the machine started, or one that is not a number, is taken
        for empty.
        """
        tokens = self.tokens if 0 <= self.tokens <= per_minute else 0.0
        passed = now - self.at if 0 <= self.at <= now else 0.0
        earned = tokens + passed * per_minute / 60
        return Bucket(tokens=min(float(per_minute), earned), at=now)

    def wait_seconds(self, per_minute: int) -> int:
        """Return whole seconds until there is one to take; 0 where there is."""
        return max(0, math.ceil((1 - self.tokens) * 60 / per_minute))


def per_minute() -> int:
    """Return how many models are read from the Hub in a minute, over all sessions."""
    given = os.environ.get(PER_MINUTE, "").strip()
    if not given:
        return _PER_MINUTE
    if given.isascii() and given.isdigit():
        return min(int(given[:9]), _LONGEST_PER_MINUTE)
    log.warning("%s is not a whole number; %d is used", PER_MINUTE, _PER_MINUTE)
    return _PER_MINUTE


_mutex = threading.Lock()
_session: dict[HubRequest, Bucket] = {}
_alone: dict[HubRequest, Bucket] = {}


def take(question: HubRequest) -> None:
    """Count one request to the Hub.

    Raises:
        TooOften: when this visitor, or all of them together, made too many requests;
            nothing is counted then.
    """
    allowed = per_minute() * question.share
    if allowed == 0:
        raise TooOften(f"This page does not query the Hub; {_FROM_THE_LIST}.")
    own = max(1, allowed // 2)
    with _mutex:
        now = time.monotonic()
        session = _session.get(question, Bucket(tokens=own, at=now)).refilled(own, now)
        if wait := session.wait_seconds(own):
            raise TooOften(
                f"One visitor may query the Hub at most {own} times a minute; wait "
                f"{_seconds(wait)}, or {_FROM_THE_LIST}."
            )
        _take_of_all(question, allowed)
        _session[question] = Bucket(tokens=session.tokens - 1, at=now)


def forget() -> None:
    """Forget the counts of this process; the file keeps those of all."""
    with _mutex:
        _session.clear()
        _alone.clear()


def _take_of_all(question: HubRequest, allowed: int) -> None:
    folder = runtime_folder()
    try:
        # Without a folder this path cannot be opened, which is an OSError too.
        _take_in_file((folder or Path(os.devnull)) / _FILE, question, allowed)
    except OSError as error:
        log.warning("the Hub's allowance cannot be shared: %s", type(error).__name__)
        share = max(1, allowed // _ALONE_SHARE)
        now = time.monotonic()
        kept = _alone.get(question, Bucket(tokens=share, at=now)).refilled(share, now)
        _refuse_if_none(kept, share)
        _alone[question] = Bucket(tokens=kept.tokens - 1, at=now)


def _take_in_file(path: Path, question: HubRequest, allowed: int) -> None:
    place = question.value * _STATE.size
    with _locked(path) as file:
        now = time.monotonic()
        content = os.pread(file, _STATE.size, place)
        kept = Bucket(tokens=float(allowed), at=now)
        if len(content) == _STATE.size and any(content):
            tokens, at = _STATE.unpack(content)
            kept = Bucket(tokens=tokens, at=at).refilled(allowed, now)
        _refuse_if_none(kept, allowed)
        os.pwrite(file, _STATE.pack(kept.tokens - 1, now), place)


def _refuse_if_none(kept: Bucket, allowed: int) -> None:
    if wait := kept.wait_seconds(allowed):
        raise TooOften(
            f"This page may query the Hub at most {allowed} times a minute; wait "
            f"{_seconds(wait)}, or {_FROM_THE_LIST}."
        )


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open the file of counts while no other process counts in it.

    Raises:
        OSError: where it cannot be opened.
        TooOften: where another process holds it for too long.
    """
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError as error:
        raise OSError("no locks here") from error
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(path, flags, 0o600)
    try:
        end = time.monotonic() + _WAIT_FOR_LOCK_SECONDS
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > end:
                raise TooOften(
                    "Too many visitors are querying the Hub just now; wait "
                    f"{_seconds(5)}, or "
                    f"{_FROM_THE_LIST}."
                )
            time.sleep(_TRY_LOCK_SECONDS)
        yield file
    finally:
        os.close(file)


def _seconds(number: int) -> str:
    return f"{number} second{'' if number == 1 else 's'}"
