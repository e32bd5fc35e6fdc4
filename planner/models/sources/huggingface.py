"""Models on the Hub: small JSON files and safetensors headers, never weights.

One request says which commit is the newest, which files it has and how large they are.
Then all of them are read at the same time, except what is in the cache on disk. Without
an answer only the cache is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import PlannerError
from planner.models.files import ModelFiles
from planner.models.sources import (
    hub_errors,
    hub_models,
    hub_search,
    hub_store,
    safetensors,
)
from planner.models.sources.concurrently import concurrently
from planner.models.sources.folder import (
    CONFIG,
    PARAMS,
    SIDE_FILES,
    files_with,
    model_config,
    tensors_in,
)
from planner.models.sources.hub_client import LIBRARY, Hub, open_hub, read_side
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


def _fetch(hub: Hub) -> ModelFiles:
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


def _from_hub(hub: Hub, info: ModelInfo) -> ModelFiles:
    files = tuple(sibling.rfilename for sibling in info.siblings or ())
    main = next((name for name in (CONFIG, PARAMS) if name in files), None)
    if main is None:
        raise hub_errors.no_config(hub.query, files)
    names = [name for name in SIDE_FILES if name in files]
    hub_errors.refuse_large(hub.query, info, (main, *names))
    if info.gated:
        hub.main(main, info.sha)  # refused once rather than for each file
    config, tensors, *side = concurrently(
        [
            partial(hub.main, main, info.sha),
            partial(_tensors, hub, info.sha, files),
            *(partial(hub.side, name, info.sha) for name in names),
        ]
    )
    if not tensors.num_parameters_by_dtype and info.safetensors is not None:
        counts = {str(k): int(n) for k, n in info.safetensors.parameters.items()}
        tensors = replace(tensors, num_parameters_by_dtype=counts)
    return _model_files(hub, config, dict(zip(names, side, strict=True)), tensors)


def _from_cache(hub: Hub, otherwise: PlannerError) -> ModelFiles:
    revision = hub.query.revision
    config = hub.cached(CONFIG, revision) or hub.cached(PARAMS, revision)
    if config is None:
        raise otherwise
    commit = config.parent.name
    found = {name: hub.cached(name, commit) for name in SIDE_FILES}
    side = {name: read_side(path) for name, path in found.items() if path}
    remembered = hub_store.kept_facts(_facts_path(hub, commit))
    tensors = remembered or tensors_in(config.parent)
    return _model_files(hub, config, side, tensors)


def _model_files(
    hub: Hub,
    config: Path,
    side: Mapping[str, Mapping[str, Any] | None],
    tensors: TensorFacts,
) -> ModelFiles:
    where = f"{CONFIG} of {hub.query.repo_id!r} on the Hub"
    return files_with(
        tensors,
        side,
        name=hub.query.repo_id,
        config=model_config(config.read_bytes(), where)
        if config.name == CONFIG
        else {},
        source=f"Hub: {hub.query.repo_id}@{config.parent.name[:_SHORT_COMMIT]}"
        + (" (from the cache on disk)" if hub.is_offline else ""),
    )


def _tensors(hub: Hub, commit: str | None, files: tuple[str, ...]) -> TensorFacts:
    """Return the tensors, from the disk where possible, else from the Hub.

    A plan does not need them, so the Hub may fail here.
    """
    path = _facts_path(hub, commit or "")
    remembered = hub_store.kept_facts(path)
    if remembered is not None:
        return remembered
    known = hub.cached(CONFIG, commit) or hub.cached(PARAMS, commit)
    tensors = tensors_in(known.parent) if known else TensorFacts()
    with suppress(*hub_errors.library_errors()):
        if not tensors.shapes:
            tensors = safetensors.read_on_hub(hub.api, hub.query, commit or "", files)
        hub_store.keep_facts(path, tensors)
    return tensors


def _facts_path(hub: Hub, commit: str) -> Path:
    from huggingface_hub import cached_assets_path, constants  # noqa: PLC0415 - lazy

    try:
        folder = cached_assets_path(
            LIBRARY, hub.query.repo_id, "headers", assets_dir=constants.HF_ASSETS_CACHE
        )
    except (OSError, ValueError):  # a disk that cannot be written to
        folder = Path(os.devnull)
    return folder / f"{commit}.json"


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Files of a few kilobytes need no bar across a notebook."""
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
