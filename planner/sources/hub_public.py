"""Reads a model from the Hub for a published app: as anybody, bounded, and counted."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.errors import ModelNotFound, ModelUnavailable, PlannerError
from planner.model_files import ModelFiles
from planner.sources import hub_bounds, hub_door, hub_errors, hub_headers, hub_store
from planner.sources.allowance import Question, TooOften, take
from planner.sources.config_file import model_config, side_object
from planner.sources.folder import CONFIG, SIDE_FILES, files_with
from planner.sources.hub_bounds import Budget, OutOfBounds, budget
from planner.sources.hub_errors import Asked
from planner.sources.hub_store import Kept
from planner.sources.safetensors import TensorFacts

if TYPE_CHECKING:
    from huggingface_hub import HfApi, ModelInfo

_CONFIG_BYTES = 2 << 20
_TIMEOUT_SECONDS = 5.0
_MOST_SHARDS = 64
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORT_COMMIT = 8
_OF_THE_LIST = "Pick a model of the list"


class Silent(ModelUnavailable):
    """The Hub did not answer, rather than with no."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hub:
    """One model on the Hub."""

    api: HfApi
    asked: Asked

    def file(self, name: str, commit: str) -> bytes:
        from huggingface_hub import hf_hub_url  # noqa: PLC0415 - lazy

        address = hf_hub_url(
            self.asked.repo_id, name, revision=commit, endpoint=self.asked.endpoint
        )
        return hub_bounds.read(address, hub_door.headers(), _CONFIG_BYTES)


def fetch(repo_id: str, revision: str | None) -> ModelFiles:
    """Return a public model's files.

    Raises:
        ModelNotFound: when there is none of that name for everybody to see.
        ModelUnavailable: when it is gated, asked for too often, or the Hub is silent.
        PlannerError: when its files are not those of a model, or too large.
    """
    kept = hub_store.load(repo_id, revision)
    if kept is None or not kept.is_fresh:
        kept = _newer(repo_id, revision, kept)
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


def _newer(repo_id: str, revision: str | None, kept: Kept | None) -> Kept:
    """Ask the Hub; where it may not be asked or does not answer, what was kept does."""
    try:
        api = hub_door.api()
        take(Question.MODEL)
        asked = Asked(
            repo_id=repo_id, revision=revision, endpoint=api.endpoint, has_token=False
        )
        found = _ask(_Hub(api=api, asked=asked))
    except (Silent, TooOften):
        if kept is None:
            raise
        return kept
    hub_store.save(repo_id, revision, found)
    return found


def _ask(hub: _Hub) -> Kept:
    try:
        with budget(Budget()):
            return _read(hub)
    except OutOfBounds as error:
        raise PlannerError(
            f"{hub.asked.repo_id!r} cannot be read here. {error} {_OF_THE_LIST}, or "
            "plan it with a planner of your own."
        ) from error
    except PlannerError:
        raise
    except hub_errors.library_errors() as error:
        raise _explained(error, hub.asked) from error


def _read(hub: _Hub) -> Kept:
    repo_id, revision = hub.asked.repo_id, hub.asked.revision
    info = hub.api.model_info(repo_id, revision=revision, timeout=_TIMEOUT_SECONDS)
    commit = info.sha or ""
    if info.private or not _COMMIT.fullmatch(commit):
        # The publisher's token may see it; visitors may not.
        raise _not_found(hub.asked)
    names = tuple(sibling.rfilename for sibling in info.siblings or ())
    if CONFIG not in names:
        raise hub_errors.no_config(hub.asked, names)
    where = f"{CONFIG} of {repo_id!r} on the Hub"
    return Kept(
        commit=commit,
        config=model_config(hub.file(CONFIG, commit), where),
        side={
            name: side_object(hub.file(name, commit), f"{name} of {repo_id!r}")
            for name in SIDE_FILES
            if name in names
        },
        shapes=_tensors(hub, commit, names).shapes,
        parameters=_parameters(info),
    )


def _tensors(hub: _Hub, commit: str, names: tuple[str, ...]) -> TensorFacts:
    """Return what the weights' headers say; a plan does not need them."""
    if sum(name.endswith(".safetensors") for name in names) > _MOST_SHARDS:
        names = ()
    with suppress(OutOfBounds, AttributeError, TypeError, *hub_errors.library_errors()):
        return hub_headers.read(hub.api, hub.asked, commit, names)
    return TensorFacts()


def _parameters(info: ModelInfo) -> dict[str, int]:
    counts = info.safetensors.parameters if info.safetensors is not None else {}
    return {str(dtype): int(count) for dtype, count in counts.items()}


def _explained(error: Exception, asked: Asked) -> PlannerError:
    """Say why, for somebody who can change nothing on this server."""
    from huggingface_hub import errors  # noqa: PLC0415 - lazy

    name = repr(asked.repo_id)
    if isinstance(error, errors.GatedRepoError):
        return ModelUnavailable(
            f"{name} is gated: this page reads only what everybody may read. "
            f"{_OF_THE_LIST}, or plan it with a planner of your own after accepting "
            f"its terms at {asked.page}."
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return ModelNotFound(
            f"{name} has no revision {asked.revision!r} on the Hub. Leave it out for "
            "the newest one."
        )
    if isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
        return _not_found(asked)
    if hub_errors.is_silence(error):
        return Silent(
            f"{name}: the Hub does not answer just now. Try again later, or pick a "
            "model of the list."
        )
    return ModelUnavailable(
        f"{name}: the Hub does not give its files. {_OF_THE_LIST}, or plan it with a "
        "planner of your own."
    )


def _not_found(asked: Asked) -> ModelNotFound:
    return ModelNotFound(
        f"No model {asked.repo_id!r} on the Hub that everybody may read."
        f"{hub_errors.did_you_mean(asked.repo_id)}"
    )
