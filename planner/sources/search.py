"""Names of models on the Hub that hold what somebody types.

For suggestions: one small request, a short time-out, remembered for a while. In a
published app each request is counted and bounded, as everything asked of the Hub is.
"""

from __future__ import annotations

import json
import time
from functools import lru_cache
from urllib.parse import urlencode

from planner.errors import ModelUnavailable, PlannerError
from planner.published import is_published
from planner.sources.hub_names import is_repo_id

LEAST_TYPED = 3
"""Characters: fewer say too little to be worth a request."""
_LONGEST = 96
_MOST_BYTES = 256 << 10
_SECONDS = 2.0
_FRESH_SECONDS = 600
_REMEMBERED = 128
_SILENT = (
    "The Hub gave no suggestions just now. Type the model's whole name, or choose one "
    "of the list."
)


def names(text: str, limit: int = 8) -> tuple[str, ...]:
    """Return names of models on the Hub that hold `text`, most downloaded first.

    Empty for a text that is too short or long, and where the Hub is not to be asked.

    Raises:
        ModelUnavailable: when the Hub does not answer, or was asked too often.
    """
    asked = " ".join(text.lower().split())
    if not LEAST_TYPED <= len(asked) <= _LONGEST:
        return ()
    return _names(asked, limit, int(time.monotonic() // _FRESH_SECONDS))


@lru_cache(maxsize=_REMEMBERED)
def _names(text: str, limit: int, period: int) -> tuple[str, ...]:  # noqa: ARG001 - an answer grows old
    found = _public(text, limit) if is_published() else _own(text, limit)
    return tuple(name for name in found if is_repo_id(name))[:limit]


def _own(text: str, limit: int) -> tuple[str, ...]:
    from planner.sources import huggingface  # noqa: PLC0415 - most plans need no Hub

    return huggingface.search_hub(text, limit, timeout_seconds=_SECONDS)


def _public(text: str, limit: int) -> tuple[str, ...]:
    from planner.sources import hub_bounds, hub_door, hub_errors  # noqa: PLC0415 - as above
    from planner.sources.allowance import Question, take  # noqa: PLC0415 - as above

    hub_door.api()
    take(Question.SEARCH)
    query = urlencode({"search": text, "limit": limit, "sort": "downloads"})
    address = f"{hub_door.endpoint()}/api/models?{query}"
    limits = hub_bounds.Budget(_MOST_BYTES, _SECONDS)
    try:
        with hub_bounds.budget(limits):
            answer = hub_bounds.read(address, hub_door.headers(), _MOST_BYTES)
        found = json.loads(answer)
    except (PlannerError, RecursionError) as error:
        raise ModelUnavailable(_SILENT) from error
    except hub_errors.library_errors() as error:
        raise ModelUnavailable(_SILENT) from error
    rows = found if isinstance(found, list) else []
    return tuple(
        row["id"]
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("id"), str)
    )
