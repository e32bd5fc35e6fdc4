"""How a model on the Hub is requested: with huggingface_hub where it is installed.

`plain_hub` does the same with the standard library.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlencode

from planner.models.sources import hub_errors, hub_store, safetensors
from planner.models.sources.folder import CONFIG, PARAMS, side_object, tensors_in
from planner.models.sources.hub_answers import LIBRARY, described, is_set
from planner.models.sources.hub_errors import HubQuery
from planner.models.sources.safetensors import TensorFacts
from planner.values import frozen

if TYPE_CHECKING:
    from huggingface_hub import HfApi, ModelInfo

    from planner.models.sources.plain_hub import PlainHub


@frozen
class Hub:
    """One model on the Hub, and how to request it with huggingface_hub."""

    api: HfApi
    query: HubQuery
    is_offline: bool
    timeout_seconds: float
    """For the first answer of each request."""

    def info(self) -> ModelInfo:
        """Return the newest commit and its files."""
        return model_info(self.api, self.query, self.timeout_seconds, has_sizes=True)

    def main(self, file: str, commit: str | None) -> bytes:
        """Return the file that makes a model of a folder."""
        # By revision, not by commit: that records its commit for offline use.
        known = self.cached(file, commit)
        return (known or self._download(file, self.query.revision)).read_bytes()

    def side(self, file: str, commit: str | None) -> Mapping[str, Any]:
        """Return a file beside config.json."""
        return side_object(self._download(file, commit).read_bytes(), file)

    def tensors(self, commit: str | None, files: tuple[str, ...]) -> TensorFacts:
        """Return the tensors, from the disk where possible, else from the Hub.

        A plan does not need them, so the Hub may fail here.
        """
        path = self._facts_path(commit or "")
        remembered = hub_store.kept_facts(path)
        if remembered is not None:
            return remembered
        known = self.cached(CONFIG, commit) or self.cached(PARAMS, commit)
        tensors = tensors_in(known.parent) if known else TensorFacts()
        with suppress(*hub_errors.library_errors()):
            if not tensors.shapes:
                at = commit or ""
                tensors = safetensors.read_on_hub(self.api, self.query, at, files)
            hub_store.keep_facts(path, tensors)
        return tensors

    def kept_tensors(self, commit: str) -> TensorFacts | None:
        """Return the headers that were kept of a commit; None where there are none."""
        return hub_store.kept_facts(self._facts_path(commit))

    def cached(self, file: str, revision: str | None) -> Path | None:
        """Return a file's place in the cache on disk; None where it is not there."""
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - lazy

        path = try_to_load_from_cache(self.query.repo_id, file, revision=revision)
        return Path(path) if isinstance(path, str) else None

    def part(self, file: str, commit: str | None, first: int, count: int) -> bytes:
        """Return so many bytes of a file from one on; fewer at its end."""
        from huggingface_hub import hf_hub_url  # noqa: PLC0415 - lazy

        address = hf_hub_url(
            self.query.repo_id, file, revision=commit, endpoint=self.query.endpoint
        )
        content: bytes = self._answer(
            address, {"Range": f"bytes={first}-{first + count - 1}"}
        ).content
        return content[:count]

    def listed(self, query: Iterable[tuple[str, str]]) -> object:
        """Return the Hub's list of models for a query."""
        address = f"{self.query.endpoint}/api/models?{urlencode(list(query))}"
        return self._answer(address, {}).json()

    def _answer(self, address: str, sent: Mapping[str, str]) -> Any:  # noqa: ANN401 - of whichever HTTP library it uses
        from huggingface_hub import get_session  # noqa: PLC0415 - lazy
        from huggingface_hub.utils import (  # type: ignore[attr-defined]  # noqa: PLC0415 - optional, slow
            build_hf_headers,
            hf_raise_for_status,
        )

        own = build_hf_headers(token=self.api.token, library_name=LIBRARY)
        response = get_session().get(
            address, headers={**own, **sent}, timeout=self.timeout_seconds
        )
        hf_raise_for_status(response)
        return response

    def _download(self, file: str, revision: str | None) -> Path:
        path = self.api.hf_hub_download(
            self.query.repo_id,
            file,
            revision=revision,
            etag_timeout=self.timeout_seconds,
            local_files_only=self.is_offline,
        )
        return Path(path)

    def _facts_path(self, commit: str) -> Path:
        from huggingface_hub import (  # noqa: PLC0415 - lazy
            cached_assets_path,
            constants,
        )

        assets = constants.HF_ASSETS_CACHE
        try:
            folder = cached_assets_path(
                LIBRARY, self.query.repo_id, "headers", assets_dir=assets
            )
        except (OSError, ValueError):  # a disk that cannot be written to
            folder = Path(os.devnull)
        return folder / f"{commit}.json"


AnyHub: TypeAlias = "Hub | PlainHub"


def model_info(
    api: HfApi, query: HubQuery, timeout_seconds: float, *, has_sizes: bool = False
) -> ModelInfo:
    """Return the newest commit of a model and its files, with their sizes if asked.

    Raises:
        ModelUnavailable: for an answer that does not describe a model.
    """

    def requested() -> ModelInfo:
        return api.model_info(
            query.repo_id,
            revision=query.revision,
            timeout=timeout_seconds,
            files_metadata=has_sizes,
        )

    info: ModelInfo = described(requested, query)
    return info


def open_hub(
    repo_id: str,
    revision: str | None = None,
    token: str | None = None,
    timeout_seconds: float | None = None,
) -> AnyHub:
    """Return how a model on the Hub is requested.

    Args:
        repo_id: owner/name.
        revision: branch, tag or commit; None is the newest.
        token: access token; None takes HF_TOKEN, or the login that the library knows.
        timeout_seconds: for the first answer; None takes HF_HUB_ETAG_TIMEOUT.

    Raises:
        ModelUnavailable: in a browser without huggingface_hub.
    """
    try:
        import huggingface_hub  # noqa: PLC0415 - optional, and slow to import
        from huggingface_hub import constants  # noqa: PLC0415 - optional, slow
    except ImportError:
        from planner.models.sources import plain_hub  # noqa: PLC0415 - few need it

        return plain_hub.open_hub(repo_id, revision, token, timeout_seconds)
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
        is_offline=constants.HF_HUB_OFFLINE or is_set("HF_HUB_OFFLINE"),
        timeout_seconds=timeout_seconds or constants.HF_HUB_ETAG_TIMEOUT,
    )
