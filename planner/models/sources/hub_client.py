"""How a model on the Hub is requested, with huggingface_hub where it is installed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import ModelUnavailable
from planner.models.sources import hub_errors
from planner.models.sources.folder import side_object
from planner.models.sources.hub_errors import HubQuery
from planner.values import frozen

if TYPE_CHECKING:
    from huggingface_hub import HfApi, ModelInfo

LIBRARY = "vllm-memory-planner"
"""What the planner calls itself to the Hub, and in its cache."""
_TRUE = frozenset(("1", "on", "yes", "true"))


@frozen
class Hub:
    """One model on the Hub, and how to request it."""

    api: HfApi
    query: HubQuery
    is_offline: bool
    timeout_seconds: float
    """For the first answer of each request."""

    def info(self) -> ModelInfo:
        """Return the newest commit and its files."""
        return model_info(self.api, self.query, self.timeout_seconds, has_sizes=True)

    def main(self, file: str, commit: str | None) -> Path:
        """Return the place on disk of the file that makes a model of a folder."""
        # By revision, not by commit: that records its commit for offline use.
        return self.cached(file, commit) or self.download(file, self.query.revision)

    def side(self, file: str, commit: str | None) -> Mapping[str, Any]:
        """Return a file beside config.json."""
        return read_side(self.download(file, commit))

    def download(self, file: str, revision: str | None) -> Path:
        """Return a file's place on disk, downloaded where it is not there."""
        path = self.api.hf_hub_download(
            self.query.repo_id,
            file,
            revision=revision,
            etag_timeout=self.timeout_seconds,
            local_files_only=self.is_offline,
        )
        return Path(path)

    def cached(self, file: str, revision: str | None) -> Path | None:
        """Return a file's place in the cache on disk; None where it is not there."""
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - lazy

        path = try_to_load_from_cache(self.query.repo_id, file, revision=revision)
        return Path(path) if isinstance(path, str) else None


def model_info(
    api: HfApi, query: HubQuery, timeout_seconds: float, *, has_sizes: bool = False
) -> ModelInfo:
    """Return the newest commit of a model and its files, with their sizes if asked.

    Raises:
        ModelUnavailable: for an answer that does not describe a model. The library
            takes its fields as they come.
    """
    try:
        info = api.model_info(
            query.repo_id,
            revision=query.revision,
            timeout=timeout_seconds,
            files_metadata=has_sizes,
        )
        if _describes_a_model(info):
            return info
    except (AttributeError, KeyError, TypeError) as error:
        raise ModelUnavailable(hub_errors.no_description(query)) from error
    raise ModelUnavailable(hub_errors.no_description(query))


def _describes_a_model(info: ModelInfo) -> bool:
    counts = {} if info.safetensors is None else info.safetensors.parameters
    return (
        isinstance(info.sha, str | None)
        and all(isinstance(one.rfilename, str) for one in info.siblings or ())
        and all(isinstance(one.size, int | None) for one in info.siblings or ())
        and all(isinstance(count, int) for count in counts.values())
    )


def open_hub(repo_id: str, revision: str | None, token: str | None) -> Hub:
    """Return how a model on the Hub is requested.

    Raises:
        ModelUnavailable: where huggingface_hub is not installed.
    """
    try:
        import huggingface_hub  # noqa: PLC0415 - optional, and slow to import
        from huggingface_hub import constants  # noqa: PLC0415 - optional, slow
    except ImportError as error:
        near = hub_errors.did_you_mean(repo_id)
        raise ModelUnavailable(f"{repo_id!r} {hub_errors.missing()}{near}") from error
    api = huggingface_hub.HfApi(
        endpoint=os.environ.get("HF_ENDPOINT") or None,
        token=token,
        library_name=LIBRARY,
    )
    query = HubQuery(
        repo_id=repo_id,
        revision=revision,
        endpoint=api.endpoint,
        has_token=bool(token or huggingface_hub.get_token()),
    )
    return Hub(
        api=api,
        query=query,
        # The library reads the variable once, a notebook may set it later.
        is_offline=constants.HF_HUB_OFFLINE
        or os.environ.get("HF_HUB_OFFLINE", "").lower() in _TRUE,
        timeout_seconds=constants.HF_HUB_ETAG_TIMEOUT,
    )


def read_side(path: Path) -> Mapping[str, Any]:
    """Return a JSON file beside config.json."""
    return side_object(path.read_bytes(), path.name)
