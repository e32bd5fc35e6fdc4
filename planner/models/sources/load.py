"""The entry point for models: a path, a bundled name, or a name on the Hub.

`load` returns a model's files; `names` returns names on the Hub for suggestions, by one
small request with a short time-out that is remembered for a while. In a published app
each request to the Hub is counted and bounded.
"""

from __future__ import annotations

import json
import os
import re
import time
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlencode

from planner.errors import ModelNotFound, ModelUnavailable, PlannerError
from planner.late import late
from planner.models import catalogue
from planner.models.files import ModelFiles
from planner.models.sources import folder, hub_bounds, hub_errors, hub_published
from planner.models.sources.allowance import Question, take
from planner.models.sources.hub_errors import did_you_mean, is_repo_id
from planner.surroundings import is_published

_FRESH_SECONDS = 600
"""How long a process takes a model read from the Hub for the newest."""

_REMEMBERED = 32
_REMEMBERED_SEARCHES = 128

_FETCH = "planner.models.sources.huggingface:fetch"
_SEARCH = "planner.models.sources.huggingface:search_hub"

_ADDRESS = re.compile(r"https?://[^/]+/([^/?#]+/[^/?#]+)(?:/tree/([^/?#]+))?/?.*")

LEAST_TYPED = 3
"""Characters; fewer are not worth a request."""
_MOST_TYPED = 96
_SEARCH_BYTES = 256 << 10
_SEARCH_SECONDS = 2.0
_SILENT = (
    "The Hub gave no suggestions just now. Type the model's whole name, or choose one "
    "from the list."
)


def load(
    model: str | os.PathLike[str],
    *,
    revision: str | None = None,
    token: str | None = None,
) -> ModelFiles:
    """Return the files of a model.

    Tried in this order: an existing folder or file, a bundled name, the Hub. The same
    model returns the same object for as long as its files do not change.

    Args:
        model: path of a folder or config.json, bundled name, owner/name on the Hub
            (also owner/name@revision, always read from the Hub), or its address.
        revision: branch, tag or commit on the Hub.
        token: access token for gated models; None takes HF_TOKEN or the login.

    Raises:
        ModelNotFound: no such model.
        ModelUnavailable: gated, offline, or the Hub does not answer.
        PlannerError: the path holds something else.

    A published process takes bundled names and owner/name on the Hub, nothing else.
    """
    text = _text(model)
    if is_published():
        return hub_published.load(text, revision)
    found = _on_disk(text)
    if found is not None:
        return found
    name, at = _name_and_revision(text)
    revision = revision or at
    bundled = catalogue.find(name) if revision is None else None
    if bundled is not None:
        return bundled
    if not is_repo_id(name):
        raise _no_such(text)
    return _from_hub(name, revision, token, period())


def names(text: str, limit: int = 8) -> tuple[str, ...]:
    """Return names of models on the Hub that hold `text`, most downloaded first.

    Empty for a text that is too short or long, and where no requests are to be made.

    Raises:
        ModelUnavailable: when the Hub does not answer, or had too many requests.
    """
    typed = " ".join(text.lower().split())
    if not LEAST_TYPED <= len(typed) <= _MOST_TYPED:
        return ()
    return _names(typed, limit, period())


def period() -> int:
    """Return the number of the period in which a model is read from the Hub once."""
    return int(time.monotonic() // _FRESH_SECONDS)


@lru_cache(maxsize=_REMEMBERED)
def _from_hub(
    name: str,
    revision: str | None,
    token: str | None,
    period: int,  # noqa: ARG001 - part of the key, so that answers expire
) -> ModelFiles:
    return late(_FETCH, name, revision=revision, token=token)


def _text(model: object) -> str:
    if isinstance(model, str | os.PathLike):
        text = os.fspath(model)
        if isinstance(text, str) and text.strip():
            return text.strip()
    raise PlannerError(
        f"model is {model!r}; give the path of a folder or config.json, the name of a "
        "bundled model (`planner models` lists them), or owner/name on the Hub."
    )


def _on_disk(text: str) -> ModelFiles | None:
    path = Path(text).expanduser()
    try:
        exists = path.exists()
    except (OSError, ValueError):  # longer than a path may be, or not one at all
        return None
    return folder.read(path, str(path)) if exists else None


def _name_and_revision(text: str) -> tuple[str, str | None]:
    address = _ADDRESS.fullmatch(text)
    if address:
        return address[1], address[2]
    name, _, revision = text.partition("@")
    return name, revision or None


def _no_such(text: str) -> ModelNotFound:
    looks_like_path = os.sep in text or text.startswith(("~", "."))
    what = "No such file or folder" if looks_like_path else "No such model"
    return ModelNotFound(
        f"{what}: {text!r}. Give the path of a folder or config.json, the name of a "
        "bundled model (`planner models` lists them), or owner/name on the Hub."
        f"{did_you_mean(text)}"
    )


@lru_cache(maxsize=_REMEMBERED_SEARCHES)
def _names(text: str, limit: int, period: int) -> tuple[str, ...]:  # noqa: ARG001 - answers expire
    found = _public(text, limit) if is_published() else _own(text, limit)
    return tuple(name for name in found if is_repo_id(name))[:limit]


def _own(text: str, limit: int) -> tuple[str, ...]:
    return late(_SEARCH, text, limit, timeout_seconds=_SEARCH_SECONDS)


def _public(text: str, limit: int) -> tuple[str, ...]:
    hub_bounds.api()
    take(Question.SEARCH)
    query = urlencode({"search": text, "limit": limit, "sort": "downloads"})
    address = f"{hub_bounds.endpoint()}/api/models?{query}"
    limits = hub_bounds.Budget(_SEARCH_BYTES, _SEARCH_SECONDS)
    try:
        with hub_bounds.budget(limits):
            answer = hub_bounds.read(address, hub_bounds.headers(), _SEARCH_BYTES)
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
