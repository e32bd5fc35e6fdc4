"""Lists of models on the Hub, as it answers: one request, nothing remembered."""

from __future__ import annotations

import json
from urllib.parse import urlencode

from planner.errors import ModelUnavailable, PlannerError
from planner.models.sources import hub_bounds, hub_errors
from planner.models.sources.allowance import HubRequest, take
from planner.models.sources.hub_bounds import RequestBudget, budget
from planner.models.sources.hub_client import open_hub
from planner.models.sources.hub_models import Query

_SEARCH_BYTES = 256 << 10
_SILENT = (
    "The Hub gave no suggestions just now. Type the model's whole name, or choose one "
    "from the list."
)


def models(query: Query, *, timeout_seconds: float) -> object:
    """Return the Hub's list of models for a query, as it answered; empty offline.

    Meant for suggestions while typing: one request, a short time-out, no retry.

    Raises:
        ModelUnavailable: when the Hub does not answer.
    """
    text = dict(query).get("search") or dict(query).get("filter") or ""
    hub = open_hub(text, timeout_seconds=timeout_seconds)
    if hub.is_offline:
        return []
    try:
        return hub.listed(query)
    except hub_errors.library_errors() as error:
        raise hub_errors.no_list(error, hub.query) from error


def published_models(query: Query, *, timeout_seconds: float) -> object:
    """Return the same in a published app, within its bounds.

    Raises:
        ModelUnavailable: when the Hub does not answer, or had too many requests.
    """
    hub_bounds.api()
    take(HubRequest.SEARCH)
    address = f"{hub_bounds.endpoint()}/api/models?{urlencode(query)}"
    limits = RequestBudget(_SEARCH_BYTES, timeout_seconds)
    try:
        with budget(limits):
            answer = hub_bounds.read(address, hub_bounds.headers(), _SEARCH_BYTES)
        return json.loads(answer)
    except (PlannerError, RecursionError) as error:
        raise ModelUnavailable(_SILENT) from error
    except hub_errors.library_errors() as error:
        raise ModelUnavailable(_SILENT) from error
