"""A model on the Hub, requested with the standard library: without huggingface_hub.

Variables, login and cache are that library's; nothing is kept here. Requests go to the
endpoint and, where it sends a client for large files, to the Hub's own hosts; the token
goes to the endpoint alone. An answer that is too large or too slow is given up.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from planner.errors import ModelUnavailable, PlannerError
from planner.models.sources import hub_errors, safetensors
from planner.models.sources.concurrently import concurrently
from planner.models.sources.folder import side_object
from planner.models.sources.hub_answers import HUB, LIBRARY, described, is_set
from planner.models.sources.hub_bounds import is_of_hub
from planner.models.sources.hub_errors import LARGEST_FILE_BYTES, HubQuery, Refused
from planner.models.sources.safetensors import (
    INDEX,
    MOST_HEADER_BYTES,
    MOST_HEADER_VALUES,
    Shapes,
    TensorFacts,
)
from planner.user_files import check_values
from planner.values import frozen
from planner.version import __version__

_AGENT = f"{LIBRARY}/{__version__}"
_MOST_REDIRECTS = 5
_TIMEOUT_SECONDS = 10.0
"""As huggingface_hub has it, without HF_HUB_ETAG_TIMEOUT."""
_MOST_SECONDS = 60.0
"""For one answer, however slowly it comes."""
_READ_BYTES = 1 << 16
_ALL_HEADERS_BYTES = 2 * MOST_HEADER_BYTES


@frozen
class PlainHub:
    """One model on the Hub, and how to request it; `Hub` with the standard library."""

    query: HubQuery
    token: str
    is_offline: bool
    timeout_seconds: float
    """For each wait."""

    def info(self) -> Any:  # noqa: ANN401 - as huggingface_hub's ModelInfo
        """Return the newest commit and its files."""
        revision = self.query.revision
        which = "" if revision is None else f"/revision/{quote(revision, safe='')}"
        path = f"/api/models/{self.query.repo_id}{which}?blobs=true"
        answer = self._json(path)
        return described(lambda: _model_info(answer), self.query)

    def main(self, file: str, commit: str | None) -> bytes:
        """Return the file that makes a model of a folder."""
        return self._read(self._address(file, commit), LARGEST_FILE_BYTES)

    def side(self, file: str, commit: str | None) -> Mapping[str, Any]:
        """Return a file beside config.json."""
        return side_object(self.main(file, commit), file)

    def tensors(self, commit: str | None, files: Collection[str]) -> TensorFacts:
        """Return the tensors; none where they cannot be read: a plan needs none."""
        shards = safetensors.shards_of(files)
        jobs = [partial(self._shapes, shard, commit) for shard in shards]
        with suppress(*hub_errors.library_errors(), PlannerError):
            if INDEX in files and len(shards) > 1 and self.query.revision is None:
                found = self._all_at_once()
                return _merged(found or concurrently(jobs))
            return _merged(concurrently(jobs))
        return TensorFacts()

    def kept_tensors(self, _commit: str) -> TensorFacts | None:
        """Return None: no headers are kept."""
        return None

    def cached(self, file: str, revision: str | None) -> Path | None:
        """Return a file's place in huggingface_hub's cache; None where it is not there.

        Source: huggingface_hub 2.4.0 `file_download.py` try_to_load_from_cache.
        """
        cache = os.environ.get("HF_HUB_CACHE") or _home() / "hub"
        folder = Path(cache, f"models--{self.query.repo_id.replace('/', '--')}")
        commit = revision or "main"
        with suppress(OSError, ValueError):
            commit = (folder / "refs" / commit).read_text("utf-8").strip()
        path = folder / "snapshots" / commit / file
        return path if path.is_file() else None

    def part(self, file: str, commit: str | None, first: int, count: int) -> bytes:
        """Return so many bytes of a file from one on; fewer at its end."""
        sent = {"Range": f"bytes={first}-{first + count - 1}"}
        return self._read(self._address(file, commit), count, sent)

    def listed(self, query: Iterable[tuple[str, str]]) -> object:
        """Return the Hub's list of models for a query."""
        return self._json(f"/api/models?{urlencode(list(query))}")

    def _all_at_once(self) -> list[Shapes]:
        """Request every header at once, which the Hub answers and mirrors may not."""
        path = f"/api/models/{self.query.repo_id}/safetensors-metadata/{INDEX}"
        with suppress(Refused, ValueError, AttributeError, LookupError, TypeError):
            found: Any = self._json(path, _ALL_HEADERS_BYTES, MOST_HEADER_VALUES)
            headers = found["headers"].items()
            return [safetensors.shapes_of(header, name) for name, header in headers]
        return []

    def _shapes(self, shard: str, commit: str | None) -> Shapes:
        return safetensors.shapes_in_parts(partial(self.part, shard, commit), shard)

    def _address(self, file: str, commit: str | None) -> str:
        at = quote(commit or self.query.revision or "main", safe="")
        return f"{self.query.page}/resolve/{at}/{quote(file)}"

    def _json(self, path: str, most_bytes: int = LARGEST_FILE_BYTES, *most: int) -> Any:  # noqa: ANN401 - what came
        content = self._read(f"{self.query.endpoint}{path}", most_bytes)
        check_values(content, path, *most)
        try:
            return json.loads(content)
        except RecursionError as error:
            raise ValueError("an answer that is nested too deeply") from error

    def _read(
        self, address: str, most_bytes: int, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Return an answer; of a request for a part, what was requested.

        Raises:
            Refused: what the Hub answers instead.
            OSError: where it does not answer, or too slowly.
            PlannerError: for a whole answer that is too large.
        """
        request = Request(address, headers={"User-Agent": _AGENT, **(headers or {})})
        if self.token:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        opener = build_opener(_OnTheHub(self.query.endpoint))
        try:
            with opener.open(request, timeout=self.timeout_seconds) as answer:
                content = _bounded(answer, most_bytes + (headers is None))
        except HTTPError as error:
            error.close()
            code, text = (
                error.headers.get(f"X-Error-{name}", "") for name in ("Code", "Message")
            )
            raise Refused(error.code, code, text) from error
        except URLError as error:
            reason = error.reason
            raise reason if isinstance(reason, OSError) else OSError(reason) from None
        except HTTPException as error:
            raise OSError(str(error) or type(error).__name__) from error
        if len(content) > most_bytes:
            raise PlannerError(
                f"{address} has more than the {most_bytes >> 20} MiB that are read."
            )
        return content


class _OnTheHub(HTTPRedirectHandler):
    """Follows to the endpoint and the Hub's own hosts; the token to the first alone."""

    max_redirections = _MOST_REDIRECTS

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    def redirect_request(self, req: Request, *told: Any) -> Request | None:  # noqa: ANN401 - as urllib calls it
        """Return the request that follows.

        Raises:
            OSError: for an address that is not the Hub's.
        """
        address: str = told[-1]
        if not is_of_hub(address, self._endpoint):
            raise OSError(f"it points to {urlsplit(address).netloc}, not its own host")
        request = super().redirect_request(req, *told)
        token = req.unredirected_hdrs.get("Authorization")
        is_same = urlsplit(address).netloc == urlsplit(self._endpoint).netloc
        if request is not None and token and is_same:
            request.add_unredirected_header("Authorization", token)
        return request


def _bounded(answer: Any, most_bytes: int) -> bytes:  # noqa: ANN401 - urllib's, untyped
    content, end = bytearray(), time.monotonic() + _MOST_SECONDS
    while len(content) < most_bytes:
        part = answer.read(min(_READ_BYTES, most_bytes - len(content)))
        if not part:
            break
        content += part
        if time.monotonic() > end:
            raise TimeoutError(f"the answer took more than {_MOST_SECONDS:g} s")
    return bytes(content)


def _model_info(answer: Any) -> Any:  # noqa: ANN401 - what came
    counted = answer.get("safetensors")
    return SimpleNamespace(
        sha=answer.get("sha"),
        siblings=[
            SimpleNamespace(rfilename=one["rfilename"], size=one.get("size"))
            for one in answer["siblings"]
        ],
        gated=answer.get("gated"),
        tags=answer.get("tags"),
        safetensors=counted and SimpleNamespace(**counted),
    )


def _merged(found: Iterable[Shapes]) -> TensorFacts:
    return TensorFacts.of({name: kind for part in found for name, kind in part.items()})


def open_hub(
    repo_id: str, revision: str | None, token: str | None, timeout_seconds: float | None
) -> PlainHub:
    """Return how a model on the Hub is requested; see `hub_client.open_hub`.

    Raises:
        ModelUnavailable: in a browser, and for an endpoint that is no address.
    """
    hub_errors.refuse_in_browser(repo_id)
    endpoint = (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")
    if not endpoint.startswith(("https://", "http://")):
        raise ModelUnavailable(
            f"HF_ENDPOINT is {endpoint!r}, which is no address such as {HUB}."
        )
    token = token or _own_token()
    query = HubQuery(
        repo_id=repo_id, revision=revision, endpoint=endpoint, has_token=bool(token)
    )
    if timeout_seconds is None:
        with suppress(ValueError):
            timeout_seconds = float(os.environ.get("HF_HUB_ETAG_TIMEOUT", ""))
    return PlainHub(
        query=query,
        token=token,
        is_offline=is_set("HF_HUB_OFFLINE"),
        timeout_seconds=timeout_seconds or _TIMEOUT_SECONDS,
    )


def _own_token() -> str:
    """Return the user's token: of the environment, else of the login on this machine.

    Source: huggingface_hub 2.4.0 `utils/_auth.py` get_token.
    """
    if is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN"):
        return ""
    if given := os.environ.get("HF_TOKEN", "").strip():
        return given
    with suppress(OSError, ValueError):
        path = os.environ.get("HF_TOKEN_PATH") or _home() / "token"
        return Path(path).read_text("utf-8").strip()
    return ""


def _home() -> Path:
    return Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
