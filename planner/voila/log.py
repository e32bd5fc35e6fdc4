"""What the server writes down: what went wrong in it, and nothing about who visits.

No address of a visitor, no query (it holds the plan), no kernel's id (who knows it may
use the kernel), no text of an error (it may hold what a visitor typed).
"""

from __future__ import annotations

import logging
import traceback
from types import TracebackType
from typing import Any, TextIO

_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_SERVER_ERROR, _BUSY = 500, 503
_MINUTE_SECONDS = 60
_A_MINUTE = 5

Failure = (
    tuple[type[BaseException], BaseException, TracebackType | None]
    | tuple[None, None, None]
)


class WithoutContent(logging.Formatter):
    """Writes the kind of an error and where it happened, not what it says."""

    def formatException(self, failure: Failure) -> str:  # noqa: N802 - logging's name
        """Write file, line and function of each step, and the error's class."""
        kind, _, steps = failure
        places = (
            f"  {step.filename}:{step.lineno} in {step.name}"
            for step in traceback.extract_tb(steps)
        )
        return "\n".join((*places, kind.__name__ if kind else ""))


class OwnMessages(logging.Filter):
    """Keeps the text of messages written here; of others, where they come from."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record in place, and let it pass."""
        if not record.pathname.startswith(_HERE):
            record.msg = f"{record.name}: {record.module}.{record.funcName}"
            record.args = ()
        return True


class Seldom(logging.Filter):
    """Drops what one place in the source writes again and again: a visitor could."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[tuple[str, int], list[float]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the first few of a minute pass."""
        key = (record.pathname, record.lineno)
        since = record.created - _MINUTE_SECONDS
        lately = [when for when in self._written.get(key, []) if when > since]
        self._written[key] = lately
        if len(lately) >= _A_MINUTE:
            return False
        lately.append(record.created)
        return True


_HERE = __file__.rpartition("voila")[0]


def handler(stream: TextIO, *, published: bool) -> logging.Handler:
    """Return what writes the log of the server, or of a kernel."""
    made = logging.StreamHandler(stream)
    made.addFilter(Seldom())
    if published:
        made.setFormatter(WithoutContent(_FORMAT))
        made.addFilter(OwnMessages())
    else:
        made.setFormatter(logging.Formatter(_FORMAT))
    return made


def log_request(request_handler: Any) -> None:  # noqa: ANN401 - tornado asks for it
    """Log an answer that says that the server failed."""
    status = request_handler.get_status()
    if status >= _SERVER_ERROR and status != _BUSY:
        kind = type(request_handler).__name__
        logging.getLogger(__name__).error("%s answered %d.", kind, status)
