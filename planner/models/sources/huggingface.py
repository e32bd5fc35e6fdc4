"""Models on the Hub: small JSON files and safetensors headers, never weights.

One request says which commit is the newest, which files it has and how large they are.
Then all of them are read at the same time, except what is in the cache on disk. Without
an answer only the cache is used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from planner.errors import PlannerError
from planner.models.files import ModelFiles
from planner.models.sources import (
    hub_errors,
    hub_models,
    hub_search,
)
from planner.models.sources.concurrently import concurrently
from planner.models.sources.folder import (
    CONFIG,
    PARAMS,
    SIDE_FILES,
    files_with,
    model_config,
    side_object,
    tensors_in,
)
from planner.models.sources.hub_client import AnyHub, open_hub
from planner.models.sources.safetensors import TensorFacts

if TYPE_CHECKING:
    from huggingface_hub import ModelInfo

_SHORT_COMMIT = 8


def fetch(
    repo_id: str, *, revision: str | None = None, token: str | None = None
) -> ModelFiles:
    """Return a model's files from the Hub, or from its cache on disk.

    Args:
        repo_id: owner/name (or name, for the oldest repositories).
        revision: branch, tag or commit; None is the newest.
        token: access token; None takes HF_TOKEN or the login on this machine.

    Raises:
        ModelNotFound: when there is no such model, or it has no config.json.
        ModelUnavailable: when it is gated, or neither Hub nor cache has it.
        PlannerError: when its files are not those of a model.
    """
    hub = open_hub(repo_id, revision, token)
    try:
        return _fetch(hub)
    except PlannerError:
        raise
    except hub_errors.library_errors() as error:
        raise hub_errors.explain(error, hub.query) from error


def _fetch(hub: AnyHub) -> ModelFiles:
    if hub.is_offline:
        return _from_cache(hub, hub_errors.not_cached(hub.query))
    try:
        info = hub.info()
    except hub_errors.library_errors() as error:
        if not hub_errors.is_silence(error):
            raise
        quiet = replace(hub, is_offline=True)
        return _from_cache(quiet, hub_errors.explain(error, hub.query))
    try:
        with without_progress_bars():
            return _from_hub(hub, info)
    except hub_errors.library_errors() as error:
        if not hub_errors.is_gated(error):
            raise
        instead = hub_search.ungated(hub_models.of_info(hub.query.repo_id, info))
        raise hub_errors.gated(hub.query, instead) from error


def _from_hub(hub: AnyHub, info: ModelInfo) -> ModelFiles:
    files = tuple(sibling.rfilename for sibling in info.siblings or ())
    main = next((name for name in (CONFIG, PARAMS) if name in files), None)
    if main is None:
        raise hub_errors.no_config(hub.query, files)
    names = [name for name in SIDE_FILES if name in files]
    hub_errors.refuse_large(hub.query, info, (main, *names))
    if info.gated:
        hub.main(main, info.sha)  # refused once rather than for each file
    content, tensors, *side = concurrently(
        [
            partial(hub.main, main, info.sha),
            partial(hub.tensors, info.sha, files),
            *(partial(hub.side, name, info.sha) for name in names),
        ]
    )
    if not tensors.num_parameters_by_dtype and info.safetensors is not None:
        counts = {str(k): int(n) for k, n in info.safetensors.parameters.items()}
        tensors = replace(tensors, num_parameters_by_dtype=counts)
    commit = info.sha or hub.query.revision or "main"
    beside = dict(zip(names, side, strict=True))
    return _model_files(hub, commit, _config(hub, main, content), beside, tensors)


def _from_cache(hub: AnyHub, otherwise: PlannerError) -> ModelFiles:
    revision = hub.query.revision
    path = hub.cached(CONFIG, revision) or hub.cached(PARAMS, revision)
    if path is None:
        raise otherwise
    commit = path.parent.name
    found = {name: hub.cached(name, commit) for name in SIDE_FILES}
    side = {
        name: side_object(one.read_bytes(), name) for name, one in found.items() if one
    }
    tensors = hub.kept_tensors(commit) or tensors_in(path.parent)
    config = _config(hub, path.name, path.read_bytes())
    return _model_files(hub, commit, config, side, tensors)


def _config(hub: AnyHub, main: str, content: bytes) -> Mapping[str, Any]:
    """Return the config.json; empty where another file makes the model."""
    where = f"{CONFIG} of {hub.query.repo_id!r} on the Hub"
    return model_config(content, where) if main == CONFIG else {}


def _model_files(
    hub: AnyHub,
    commit: str,
    config: Mapping[str, Any],
    side: Mapping[str, Mapping[str, Any] | None],
    tensors: TensorFacts,
) -> ModelFiles:
    return files_with(
        tensors,
        side,
        name=hub.query.repo_id,
        config=config,
        source=f"Hub: {hub.query.repo_id}@{commit[:_SHORT_COMMIT]}"
        + (" (from the cache on disk)" if hub.is_offline else ""),
    )


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Files of a few kilobytes need no bar across a notebook."""
    if sys.modules.get("huggingface_hub") is None:
        yield
        return
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # noqa: PLC0415 - optional, slow
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
