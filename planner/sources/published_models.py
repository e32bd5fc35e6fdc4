"""Models for a published app: bundled names, and owner/name on the Hub; nothing else.

No file of this machine is read, the server's own login is not used, and no request goes
to an address that a visitor chooses.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache

from planner import catalogue
from planner.errors import ModelNotFound, PlannerError
from planner.model_files import ModelFiles
from planner.sources.hub_names import is_repo_id

_FRESH_SECONDS = 600
_REMEMBERED = 4
"""Models of one visitor: a large one takes megabytes of his process."""

_LONGEST = 200
_SHOWN = 80
_ADDRESS = re.compile(
    r"https://(?:huggingface\.co|hf\.co)/([^/?#]+/[^/?#]+)(?:/tree/([^?#]+?))?/?"
)
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_WHAT_TO_GIVE = "Choose one of the list, or give owner/name of a model on the Hub."


def load(text: str, revision: str | None) -> ModelFiles:
    """Return the files of a model that any visitor may name.

    Args:
        text: bundled name, owner/name, owner/name@revision, or the address of a
            model's page on the Hub, of which only these parts are read.
        revision: branch, tag or commit.

    Raises:
        ModelNotFound: no such model, or a name that no model on the Hub has.
        ModelUnavailable: gated, asked for too often, or the Hub is silent.
        PlannerError: its files are not those of a model, or too large.
    """
    if len(text) > _LONGEST:
        raise _no_such(text)
    name, at = _name_and_revision(text)
    revision = revision or at
    bundled = catalogue.find(name) if revision is None else None
    if bundled is not None:
        return bundled
    is_known_form = name.count("/") == 1 and is_repo_id(name)
    if not is_known_form or not _can_be_revision(revision):
        raise _no_such(text)
    return _from_hub(name, revision, int(time.monotonic() // _FRESH_SECONDS))


@lru_cache(maxsize=_REMEMBERED)
def _from_hub(name: str, revision: str | None, period: int) -> ModelFiles:  # noqa: ARG001 - an answer grows old
    from planner.sources import hub_public  # noqa: PLC0415 - most plans need no Hub

    try:
        return hub_public.fetch(name, revision)
    except RecursionError as error:
        raise PlannerError(f"The files of {name} are nested too deeply.") from error


def _name_and_revision(text: str) -> tuple[str, str | None]:
    address = _ADDRESS.fullmatch(text)
    if address:
        return address[1], address[2]
    name, _, revision = text.partition("@")
    return name, revision or None


def _can_be_revision(revision: str | None) -> bool:
    if revision is None:
        return True
    has_form = _REVISION.fullmatch(revision) is not None
    return has_form and ".." not in revision and len(revision) <= _LONGEST


def _no_such(text: str) -> ModelNotFound:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    near = catalogue.nearest(text[:_LONGEST])
    hint = f" Nearest in the list: {', '.join(near)}." if near else ""
    return ModelNotFound(f"No such model: {shown!r}. {_WHAT_TO_GIVE}{hint}")
