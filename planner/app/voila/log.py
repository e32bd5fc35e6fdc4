"""The server's log: its own errors, and nothing about visitors.

It contains no visitor's address, no query (which holds the plan), no kernel's id (which
gives access to the kernel) and no text of an error (which may hold a visitor's input).
"""

from __future__ import annotations

import logging
import time
import traceback
from types import TracebackType
from typing import Any, TextIO

from planner.data import DATA

_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_SERVER_ERROR, _BUSY = 500, 503
_MINUTE_SECONDS = 60
_A_MINUTE = 5
Failure = (
    tuple[type[BaseException], BaseException, TracebackType | None]
    | tuple[None, None, None]
)
_HERE = str(DATA.parent)


def handler(stream: TextIO, *, published: bool) -> logging.Handler:
    """Return the handler that writes the log of the server or of a kernel."""
    made = logging.StreamHandler(stream)
    made.addFilter(Seldom())
    if published:
        made.setFormatter(WithoutContent(_FORMAT))
        made.addFilter(OwnMessages())
    else:
        made.setFormatter(logging.Formatter(_FORMAT))
    return made


def log_request(request_handler: Any) -> None:  # noqa: ANN401 - tornado's signature
    """Log a response that reports a failure of the server."""
    status = request_handler.get_status()
    if status >= _SERVER_ERROR and status != _BUSY:
        kind = type(request_handler).__name__
        logging.getLogger(__name__).error("%s answered %d.", kind, status)


class WithoutContent(logging.Formatter):
    """Writes an error's class and traceback, without its message."""

    def formatException(self, failure: Failure) -> str:  # noqa: N802 - logging's name
        """Write file, line and function of each frame, and the error's class."""
        kind, _, steps = failure
        places = (
            f"  {step.filename}:{step.lineno} in {step.name}"
            for step in traceback.extract_tb(steps)
        )
        return "\n".join((*places, kind.__name__ if kind else ""))


class OwnMessages(logging.Filter):
    """Keeps the text of the planner's messages; of others, only their origin."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record in place, and let it pass."""
        if not record.pathname.startswith(_HERE):
            record.msg = f"{record.name}: {record.module}.{record.funcName}"
            record.args = ()
        return True


class Seldom(logging.Filter):
    """Drops repeated messages of one line of the source: a visitor could cause them."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[tuple[str, int], list[float]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the first few of each minute pass."""
        key = (record.pathname, record.lineno)
        now = time.monotonic()
        since = now - _MINUTE_SECONDS
        recent = [when for when in self._written.get(key, []) if when > since]
        self._written[key] = recent
        if len(recent) >= _A_MINUTE:
            return False
        recent.append(now)
        return True
