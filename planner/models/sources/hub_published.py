"""Models for a published app: bundled names, and owner/name on the Hub; nothing else.

They are read from the Hub anonymously, bounded and counted. No file of this machine is
read, the server's own login is not used, and no request goes to an address that a
visitor chooses.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from planner.errors import (
    GatedModel,
    ModelNotFound,
    ModelUnavailable,
    PlannerError,
    TooOften,
)
from planner.models import catalogue
from planner.models.files import ModelFiles
from planner.models.sources import (
    hub_bounds,
    hub_errors,
    hub_models,
    hub_search,
    hub_store,
    safetensors,
)
from planner.models.sources.allowance import HubRequest, take
from planner.models.sources.concurrently import concurrently
from planner.models.sources.folder import (
    CONFIG,
    PARAMS,
    SIDE_FILES,
    files_with,
    model_config,
    side_object,
)
from planner.models.sources.hub_bounds import OutOfBounds, RequestBudget, budget
from planner.models.sources.hub_client import model_info
from planner.models.sources.hub_errors import HubQuery, is_repo_id
from planner.models.sources.hub_models import HubModel
from planner.models.sources.hub_store import Kept
from planner.models.sources.safetensors import TensorFacts
from planner.values import frozen

if TYPE_CHECKING:
    from huggingface_hub import HfApi, ModelInfo

_UNREADABLE = (OutOfBounds, AttributeError, LookupError, RecursionError, TypeError)
"""What a header of weights raises that holds anything else."""
_CONFIG_BYTES = 2 << 20
_TIMEOUT_SECONDS = 5.0
_MOST_SHARDS = 64
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORT_COMMIT = 8
_OF_THE_LIST = "Pick a model from the list"

_FRESH_SECONDS = 600
_REMEMBERED = 4
"""Models of one visitor: a large one takes megabytes of the process."""

_LONGEST = 200
_SHOWN = 80
_ADDRESS = re.compile(
    r"https://(?:huggingface\.co|hf\.co)/([^/?#]+/[^/?#]+)(?:/tree/([^?#]+?))?/?"
)
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_WHAT_TO_GIVE = "Choose one from the list, or give owner/name of a model on the Hub."


class NoAnswer(ModelUnavailable):
    """The Hub gave no answer, rather than a refusal."""


@frozen
class _Hub:
    """One model on the Hub."""

    api: HfApi
    query: HubQuery

    def file(self, name: str, commit: str) -> bytes:
        from huggingface_hub import hf_hub_url  # noqa: PLC0415 - lazy

        address = hf_hub_url(
            self.query.repo_id, name, revision=commit, endpoint=self.query.endpoint
        )
        return hub_bounds.read(address, hub_bounds.headers(), _CONFIG_BYTES)


def model_files(text: str, revision: str | None) -> ModelFiles:
    """Return the files of a model that any visitor may name.

    Args:
        text: bundled name, owner/name, owner/name@revision, or the address of a
            model's page on the Hub, of which only these parts are read.
        revision: branch, tag or commit.

    Raises:
        ModelNotFound: no such model, or a name that no model on the Hub has.
        ModelUnavailable: gated, too many requests, or the Hub does not answer.
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
def _from_hub(name: str, revision: str | None, period: int) -> ModelFiles:  # noqa: ARG001 - answers expire
    try:
        return fetch(name, revision)
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


def fetch(repo_id: str, revision: str | None) -> ModelFiles:
    """Return a public model's files.

    Raises:
        ModelNotFound: when there is no public model of that name.
        ModelUnavailable: when it is gated, too many requests were made, or the Hub does
            not answer.
        PlannerError: when its files are not those of a model, or too large.
    """
    kept = hub_store.kept_model(repo_id, revision)
    if kept is None or not kept.is_fresh:
        kept = _refreshed(repo_id, revision, kept)
    tensors = TensorFacts.of(kept.shapes)
    if not tensors.num_parameters_by_dtype:
        tensors = replace(tensors, num_parameters_by_dtype=kept.parameters)
    return files_with(
        tensors,
        kept.side,
        name=repo_id,
        config=kept.config,
        source=f"Hub: {repo_id}@{kept.commit[:_SHORT_COMMIT]}",
    )


def _refreshed(repo_id: str, revision: str | None, kept: Kept | None) -> Kept:
    """Read the model from the Hub; return the kept one where that is not possible."""
    try:
        api = hub_bounds.api()
        take(HubRequest.MODEL)
        query = HubQuery(
            repo_id=repo_id, revision=revision, endpoint=api.endpoint, has_token=False
        )
        found = _read_within_bounds(_Hub(api=api, query=query))
    except (NoAnswer, TooOften):
        if kept is None:
            raise
        return kept
    hub_store.keep_model(repo_id, revision, found)
    return found


def _read_within_bounds(hub: _Hub) -> Kept:
    try:
        with budget(RequestBudget()):
            return _read(hub)
    except OutOfBounds as error:
        raise PlannerError(
            f"{hub.query.repo_id!r} cannot be read here. {error} {_OF_THE_LIST}, or "
            "plan it with your own planner."
        ) from error
    except PlannerError:
        raise
    except hub_errors.library_errors() as error:
        raise _explained(error, hub.query) from error


def _read(hub: _Hub) -> Kept:
    repo_id = hub.query.repo_id
    info = model_info(hub.api, hub.query, _TIMEOUT_SECONDS)
    commit = info.sha or ""
    if info.private or not _COMMIT.fullmatch(commit):
        # The publisher's token may see it; visitors may not.
        raise _not_found(hub.query)
    names = tuple(sibling.rfilename for sibling in info.siblings or ())
    main = next((name for name in (CONFIG, PARAMS) if name in names), None)
    if main is None:
        raise hub_errors.no_config(hub.query, names)
    side = [name for name in SIDE_FILES if name in names]
    try:
        if info.gated:
            hub.file(main, commit)  # refused once rather than for each file
        tensors, config, *others = concurrently(
            [
                partial(_tensors, hub, commit, names),
                *(partial(hub.file, name, commit) for name in (main, *side)),
            ]
        )
    except hub_errors.library_errors() as error:
        if not hub_errors.is_gated(error):
            raise
        raise _gated(hub.query, hub_models.of_info(repo_id, info)) from error
    return Kept(
        commit=commit,
        config=model_config(config, f"{CONFIG} of {repo_id!r} on the Hub")
        if main == CONFIG
        else {},
        side={
            name: side_object(content, f"{name} of {repo_id!r}")
            for name, content in zip(side, others, strict=True)
        },
        shapes=tensors.shapes,
        parameters=_parameters(info),
    )


def _tensors(hub: _Hub, commit: str, names: tuple[str, ...]) -> TensorFacts:
    """Return what the weights' headers say; a plan does not need them."""
    if sum(name.endswith(".safetensors") for name in names) > _MOST_SHARDS:
        names = ()
    with suppress(*_UNREADABLE, *hub_errors.library_errors()):
        return safetensors.read_on_hub(hub.api, hub.query, commit, names)
    return TensorFacts()


def _parameters(info: ModelInfo) -> dict[str, int]:
    counts = info.safetensors.parameters if info.safetensors is not None else {}
    return {str(dtype): count for dtype, count in counts.items() if count >= 0}


def _explained(error: Exception, query: HubQuery) -> PlannerError:
    """Say why, for a visitor who can change nothing on this server."""
    from huggingface_hub import errors  # noqa: PLC0415 - lazy

    name = repr(query.repo_id)
    if isinstance(error, errors.RevisionNotFoundError):
        return ModelNotFound(
            f"{name} has no revision {query.revision!r} on the Hub. Leave it out for "
            "the newest one."
        )
    if isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
        return _not_found(query)
    if hub_errors.is_silence(error):
        return NoAnswer(
            f"{name}: the Hub does not answer just now. Try again later, or pick a "
            "model from the list."
        )
    return ModelUnavailable(
        f"{name}: the Hub does not supply its files. {_OF_THE_LIST}, or plan it with "
        "your own planner."
    )


def _gated(query: HubQuery, found: HubModel) -> GatedModel:
    instead = hub_search.ungated(found)
    return GatedModel(
        f"{query.repo_id!r} is gated: this page reads only public models. "
        f"{_OF_THE_LIST}, or plan it with your own planner after accepting "
        f"its terms at {query.page}.{hub_errors.open_instead(instead)}",
        instead,
    )


def _not_found(query: HubQuery) -> ModelNotFound:
    return ModelNotFound(
        f"No model {query.repo_id!r} on the Hub that is public."
        f"{hub_errors.did_you_mean(query.repo_id)}"
    )
