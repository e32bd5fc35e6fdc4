"""GGUF files on the Hub: their headers, in a few requests for parts of a file.

Source: vLLM 0.23.0 `model_loader/gguf_loader.py` _prepare_weights.
"""

from __future__ import annotations

from io import BytesIO
from typing import BinaryIO, cast

from planner.errors import ModelNotFound, PlannerError
from planner.models.files import ModelFiles
from planner.models.sources import gguf, hub_errors
from planner.models.sources.folder import CONFIG
from planner.models.sources.hub_client import Hub, open_hub
from planner.models.sources.huggingface import without_progress_bars

_PART_BYTES = 4 << 20
_SUFFIX = ".gguf"


class _Parts:
    """A file on the Hub, of which parts are requested as they are read."""

    def __init__(self, hub: Hub, file: str, commit: str) -> None:
        from huggingface_hub import hf_hub_url  # noqa: PLC0415 - lazy

        self._hub = hub
        self._address = hf_hub_url(
            hub.query.repo_id, file, revision=commit, endpoint=hub.query.endpoint
        )
        self._at, self._part = 0, BytesIO()

    def read(self, count: int) -> bytes:
        """Return the next bytes, fewer at the end of the file."""
        found = self._part.read(count)
        while len(found) < count:
            content = self._request()
            self._part = BytesIO(content)
            found += self._part.read(count - len(found))
            if len(content) < _PART_BYTES:
                break
        return found

    def _request(self) -> bytes:
        from huggingface_hub import get_session  # noqa: PLC0415 - lazy
        from huggingface_hub.utils import (  # type: ignore[attr-defined]  # noqa: PLC0415 - optional, slow
            build_hf_headers,
            hf_raise_for_status,
        )

        last = self._at + _PART_BYTES - 1
        headers = {
            **build_hf_headers(token=self._hub.api.token),
            "Range": f"bytes={self._at}-{last}",
        }
        response = get_session().get(
            self._address, headers=headers, timeout=self._hub.timeout_seconds
        )
        hf_raise_for_status(response)
        self._at += _PART_BYTES
        content: bytes = response.content
        return content[:_PART_BYTES]


def fetch(
    repo_id: str, file: str, *, revision: str | None = None, token: str | None = None
) -> ModelFiles:
    """Return the model of a GGUF file on the Hub.

    Args:
        repo_id: owner/name.
        file: the file's name, or the type of its weights, such as Q4_K_M.
        revision: branch, tag or commit; None is the newest.
        token: access token; None takes HF_TOKEN or the login on this machine.

    Raises:
        ModelNotFound: when there is no such model or file.
        ModelUnavailable: when it is gated, or the Hub does not answer.
        PlannerError: when the file is damaged.
    """
    hub = open_hub(repo_id, revision, token)
    try:
        return _fetch(hub, file)
    except PlannerError:
        raise
    except hub_errors.library_errors() as error:
        raise hub_errors.explain(error, hub.query) from error


def _fetch(hub: Hub, file: str) -> ModelFiles:
    info = hub.info()
    names = tuple(sibling.rfilename for sibling in info.siblings or ())
    found = file if file.endswith(_SUFFIX) else gguf.chosen(names, file)
    if found not in names:
        listed = sorted(name for name in names if name.endswith(_SUFFIX))
        shown = ", ".join(listed[:8]) or "no GGUF file"
        raise ModelNotFound(
            f"{hub.query.repo_id} on the Hub has no file for {file!r}; it has {shown}."
        )
    commit = str(info.sha)
    headers = []
    for name in gguf.shard_names(str(found)):
        stream = cast("BinaryIO", _Parts(hub, name, commit))
        headers.append(gguf.read_header(stream, f"{hub.query.repo_id}/{name}"))
    config = None
    if CONFIG in names:
        with without_progress_bars():
            config = hub.download(CONFIG, commit).read_bytes()
    separator = "/" if file.endswith(_SUFFIX) else ":"
    return gguf.files_of(headers, f"{hub.query.repo_id}{separator}{file}", config)
