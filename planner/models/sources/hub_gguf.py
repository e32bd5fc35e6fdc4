"""GGUF files on the Hub: their headers, in a few requests for parts of a file.

Source: vLLM 0.23.0 `model_loader/gguf_loader.py` _prepare_weights.
"""

from __future__ import annotations

from functools import partial
from io import BytesIO
from typing import BinaryIO, cast

from planner.errors import ModelNotFound, PlannerError
from planner.models.files import ModelFiles
from planner.models.sources import gguf, hub_errors
from planner.models.sources.folder import CONFIG
from planner.models.sources.hub_client import AnyHub, open_hub
from planner.models.sources.huggingface import without_progress_bars

_PART_BYTES = 4 << 20
_SUFFIX = ".gguf"


class _Parts:
    """A file on the Hub, of which parts are requested as they are read."""

    def __init__(self, hub: AnyHub, file: str, commit: str) -> None:
        self._requested = partial(hub.part, file, commit)
        self._at, self._part = 0, BytesIO()

    def read(self, count: int) -> bytes:
        """Return the next bytes, fewer at the end of the file."""
        found = self._part.read(count)
        while len(found) < count:
            content = self._requested(self._at, _PART_BYTES)
            self._at += _PART_BYTES
            self._part = BytesIO(content)
            found += self._part.read(count - len(found))
            if len(content) < _PART_BYTES:
                break
        return found


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


def _fetch(hub: AnyHub, file: str) -> ModelFiles:
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
            config = hub.main(CONFIG, commit)
    separator = "/" if file.endswith(_SUFFIX) else ":"
    return gguf.files_of(headers, f"{hub.query.repo_id}{separator}{file}", config)
