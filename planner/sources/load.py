"""The one door for models: a path, a bundled name, or a name on the Hub."""

from __future__ import annotations

import os
import re
import time
from functools import lru_cache
from pathlib import Path

from planner import catalogue
from planner.errors import ModelNotFound, PlannerError
from planner.model_files import ModelFiles
from planner.published import is_published
from planner.sources import folder, published_models
from planner.sources.hub_errors import did_you_mean
from planner.sources.hub_names import is_repo_id

_FRESH_SECONDS = 600
"""How long a model read from the Hub is taken for the newest within one process."""

_REMEMBERED = 32

_ADDRESS = re.compile(r"https?://[^/]+/([^/?#]+/[^/?#]+)(?:/tree/([^/?#]+))?/?.*")


def load(
    model: str | os.PathLike[str],
    *,
    revision: str | None = None,
    token: str | None = None,
) -> ModelFiles:
    """Return the files of a model.

    Tried in this order: an existing folder or file, a bundled name, the Hub. The same
    model gives the same object for as long as its files do not change.

    Args:
        model: path of a folder or config.json, bundled name, owner/name on the Hub
            (also owner/name@revision, which always asks the Hub), or its address.
        revision: branch, tag or commit on the Hub.
        token: access token for gated models; None takes HF_TOKEN or the login.

    Raises:
        ModelNotFound: no such model.
        ModelUnavailable: gated, offline, or the Hub is silent.
        PlannerError: something else lies there.

    A published process takes bundled names and owner/name on the Hub, nothing else.
    """
    text = _text(model)
    if is_published():
        return published_models.load(text, revision)
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


def period() -> int:
    """Return the number of the time in which models of the Hub are not asked again."""
    return int(time.monotonic() // _FRESH_SECONDS)


@lru_cache(maxsize=_REMEMBERED)
def _from_hub(
    name: str,
    revision: str | None,
    token: str | None,
    period: int,  # noqa: ARG001 - part of the key, so that an answer grows old
) -> ModelFiles:
    from planner.sources import huggingface  # noqa: PLC0415 - most plans need no Hub

    return huggingface.fetch(name, revision=revision, token=token)


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
