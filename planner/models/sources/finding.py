"""The entry point for models: a path, a bundled name, or a name on the Hub.

`model_files` returns a model's files; `hub_search` finds names on the Hub. In a
published app each request to the Hub is counted and bounded.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

from planner.errors import ModelNotFound, PlannerError
from planner.models import catalogue, estimates
from planner.models.files import ModelFiles
from planner.models.sources.gguf import is_quantised_name, read_quantised
from planner.models.sources.hub_errors import did_you_mean, is_repo_id
from planner.models.sources.periods import period
from planner.surroundings import is_published, may_read
from planner.user_files import user_path

_REMEMBERED = 32

_GGUF = ".gguf"

_ADDRESS = re.compile(r"https?://[^/]+/([^/?#]+/[^/?#]+)(?:/tree/([^/?#]+))?/?.*")


def model_files(
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
            (also owner/name@revision, always read from the Hub), or its address; a
            GGUF file, on disk or as owner/name/file.gguf, or owner/name:Q4_K_M. With
            ~AWQ or another format after it, a usual checkpoint of that model is
            estimated.
        revision: branch, tag or commit on the Hub.
        token: access token for gated models; None takes HF_TOKEN or the login.

    Raises:
        ModelNotFound: no such model.
        ModelUnavailable: gated, offline, or the Hub does not answer.
        PlannerError: the path holds something else.

    A published process takes bundled names and owner/name on the Hub, nothing else.
    """
    text = _text(model)
    found = _on_disk(text)
    if found is not None:
        return found
    parts = estimates.split_name(text)
    if parts is not None:
        base = model_files(parts[0], revision=revision, token=token)
        return estimates.estimated(base, parts[1])
    if is_published():
        from planner.models.sources import hub_published  # noqa: PLC0415 - few need it

        return hub_published.model_files(text, revision)
    if is_quantised_name(text) or text.endswith(_GGUF):
        return _gguf(text, revision, token)
    name, at = _name_and_revision(text)
    revision = revision or at
    bundled = catalogue.find(name) if revision is None else None
    if bundled is not None:
        return bundled
    if not is_repo_id(name):
        raise _no_such(text)
    return _from_hub(name, revision, token, period())


@lru_cache(maxsize=_REMEMBERED)
def _from_hub(
    name: str,
    revision: str | None,
    token: str | None,
    period: int,  # noqa: ARG001 - part of the key, so that answers expire
) -> ModelFiles:
    from planner.models.sources.huggingface import fetch  # noqa: PLC0415 - slow

    return fetch(name, revision=revision, token=token)


def _gguf(text: str, revision: str | None, token: str | None) -> ModelFiles:
    """Return the model of folder:Q4_K_M, owner/name:Q4_K_M or owner/name/file.gguf."""
    found = None if text.endswith(_GGUF) else read_quantised(text)
    if found is not None:
        return found
    name, file = text.rsplit("/" if text.endswith(_GGUF) else ":", 1)
    if not is_repo_id(name):
        raise _no_such(text)
    return _gguf_from_hub(name, file, revision, token, period())


@lru_cache(maxsize=_REMEMBERED)
def _gguf_from_hub(
    name: str,
    file: str,
    revision: str | None,
    token: str | None,
    period: int,  # noqa: ARG001 - part of the key, so that answers expire
) -> ModelFiles:
    from planner.models.sources.hub_gguf import fetch  # noqa: PLC0415 - slow

    return fetch(name, file, revision=revision, token=token)


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
    path = user_path(text)
    try:
        exists = may_read(path) and path.exists()
    except (OSError, ValueError):  # longer than a path may be, or not one at all
        return None
    if not exists:
        return None
    from planner.models.sources.folder import read  # noqa: PLC0415 - few need it

    return read(path, str(path))


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
