"""What `/api/plan` answers: a plan, or one sentence and the place of what is wrong.

    python -m planner.app.voila.plan_answers

answers questions in a process of its own, which the server limits and can end. It reads
one a line, the body of a request as a JSON text, and writes a line each:
`[status, answer, seconds of processor time]`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from http import HTTPStatus
from typing import Any

from planner.app.questions import Wrong, entries_of, planned
from planner.app.voila import log
from planner.engine.flags import plain
from planner.errors import GatedModel, ModelUnavailable
from planner.surroundings import is_published


def answer(body: str) -> tuple[int, dict[str, Any]]:
    """Return the status and the answer to a request's body.

    A plan that does not fit is an answer as well, with status 200.

    >>> answer('{"model": "Qwen/Qwen3-8B", "gpu": "L4"}')[1]["fits"]
    False
    >>> answer('{"model": "Qwen/Qwen3-8B", "load": {"prompt_tokens": 1}}')[1]
    {'error': 'load needs output_tokens.', 'where': '/load'}
    """
    try:
        found: Any = plain(planned(entries_of(body)).to_dict())
    except Wrong as wrong:
        return _status(wrong), {"error": wrong.sentence, "where": wrong.where}
    return HTTPStatus.OK, found


def _status(wrong: Wrong) -> HTTPStatus:
    """Return the status of a question that has no plan."""
    if wrong.is_malformed:
        return HTTPStatus.BAD_REQUEST
    is_away = isinstance(wrong.error, ModelUnavailable)
    if is_away and not isinstance(wrong.error, GatedModel):
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.UNPROCESSABLE_ENTITY


def _answered(body: str) -> tuple[int, dict[str, Any]]:
    """Return the answer, also where the planner itself fails."""
    try:
        return answer(body)
    except Exception:
        logging.getLogger(__name__).exception("A question could not be answered.")
        return HTTPStatus.INTERNAL_SERVER_ERROR, {
            "error": "The planner failed at this question; the failure is in its log.",
            "where": "",
        }


def main() -> None:
    """Answer until there are no more questions."""
    logging.getLogger().addHandler(log.handler(sys.stderr, published=is_published()))
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is not an answer
    for line in sys.stdin:
        began = time.process_time()
        status, said = _answered(json.loads(line))
        took = time.process_time() - began
        out.write(json.dumps([status, said, took], default=str) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
