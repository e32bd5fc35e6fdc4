"""A published app's requests to the Hub: anonymous, at one address, within bounds.

huggingface_hub makes the requests; hooks of its HTTP client stop one that leaves the
Hub's hosts, and end an answer that is longer or slower than it may be.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from planner.errors import ModelUnavailable, PlannerError
from planner.models.sources.hub_answers import HUB, LIBRARY, is_set

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_HUB_HOSTS = (".huggingface.co", ".hf.co")
"""Where the Hub sends a client for large files."""

TOKEN = "PLANNER_HUB_TOKEN"
"""Environment variable: an access token that the publisher lends to all visitors."""

ANSWER_BYTES = 8 << 20
LOOK_UP_BYTES = 24 << 20
LOOK_UP_SECONDS = 20.0
_READ_SECONDS = 5.0
_MOST_REDIRECTS = 5


Http: TypeAlias = Any
"""httpx or its successor: whichever huggingface_hub uses."""


class OutOfBounds(PlannerError):  # noqa: N818 - reads as the sentence it is
    """An answer too large, too slow or from elsewhere for a published app."""


class RequestBudget:
    """Bytes and time left for one look-up; threads share it."""

    def __init__(
        self, num_bytes: int = LOOK_UP_BYTES, seconds: float = LOOK_UP_SECONDS
    ) -> None:
        self._left = num_bytes
        self._end = time.monotonic() + seconds
        self._mutex = threading.Lock()

    def spend(self, num_bytes: int) -> None:
        """Count bytes that arrived.

        Raises:
            OutOfBounds: when there were too many, or it took too long.
        """
        with self._mutex:
            self._left -= num_bytes
            left = self._left
        if left < 0:
            raise OutOfBounds("The Hub's answer is larger than this page reads.")
        if time.monotonic() > self._end:
            raise OutOfBounds("The Hub's answer took longer than this page waits.")


_current: ContextVar[RequestBudget | None] = ContextVar("budget", default=None)


@contextmanager
def budget(limits: RequestBudget) -> Iterator[None]:
    """Let all requests inside together cost no more than `limits`."""
    token = _current.set(limits)
    try:
        yield
    finally:
        _current.reset(token)


def is_of_hub(address: str, endpoint: str) -> bool:
    """Whether a request may go to an address: the endpoint, or the Hub's own hosts.

    >>> is_of_hub("https://cdn-lfs.hf.co/file", "https://huggingface.co")
    True
    >>> is_of_hub("http://169.254.169.254/latest", "https://huggingface.co")
    False
    """
    requested, allowed = urlsplit(address), urlsplit(endpoint)
    try:
        is_same_port = requested.port == allowed.port
    except ValueError:
        return False
    is_same_scheme = requested.scheme == allowed.scheme
    if not is_same_scheme or requested.username is not None or not is_same_port:
        return False
    host = (requested.hostname or "").lower()
    if host == (allowed.hostname or "").lower():
        return True
    return endpoint.rstrip("/") == HUB and host.endswith(_HUB_HOSTS)


@lru_cache(maxsize=1)
def can_bound() -> bool:
    """Whether the installed huggingface_hub lets its HTTP client be replaced.

    Source: huggingface_hub 1.0 `utils/_http.py` set_client_factory.
    """
    try:
        return int(version("huggingface_hub").partition(".")[0]) >= 1
    except PackageNotFoundError:
        return False


def install(endpoint: str) -> None:
    """Bound every request that huggingface_hub makes from now on in this process."""
    from huggingface_hub import constants, set_client_factory  # noqa: PLC0415 - lazy

    # Its downloads by another program would not be bounded.
    constants.HF_HUB_DISABLE_XET = True
    set_client_factory(lambda: _client(endpoint))


def _client(endpoint: str) -> Http:
    from huggingface_hub.utils._http import (  # noqa: PLC0415 - lazy
        hf_request_event_hook,
    )

    http = library()
    return http.Client(
        event_hooks={
            "request": [hf_request_event_hook, _checks_address(endpoint)],
            "response": [_bounds_answer],
        },
        follow_redirects=True,
        max_redirects=_MOST_REDIRECTS,
        timeout=_READ_SECONDS,
    )


def library() -> Http:
    """Return the HTTP library of the installed huggingface_hub."""
    from huggingface_hub import errors  # noqa: PLC0415 - lazy

    parent = errors.HfHubHTTPError.__mro__[1]
    return sys.modules[parent.__module__.partition(".")[0]]


def _checks_address(endpoint: str) -> Callable[[Http], None]:
    def check(request: Http) -> None:
        if not is_of_hub(str(request.url), endpoint):
            raise OutOfBounds("The Hub pointed to an address that is not its own.")
        # A compressed answer could be small on the way and large here.
        request.headers["Accept-Encoding"] = "identity"

    return check


def _bounds_answer(response: Http) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise OutOfBounds("The Hub's answer is packed, which this page does not read.")
    limits = _current.get() or RequestBudget()
    response.stream = _bounded(response.stream, limits)


def _bounded(stream: Http, limits: RequestBudget) -> Http:
    class Bounded(library().SyncByteStream):  # type: ignore[misc] # found at run time
        """An answer that ends with an error where it goes beyond its bounds."""

        def __iter__(self) -> Iterator[bytes]:
            num_bytes = 0
            for chunk in stream:
                num_bytes += len(chunk)
                if num_bytes > ANSWER_BYTES:
                    raise OutOfBounds(
                        "The Hub's answer is larger than this page reads."
                    )
                limits.spend(len(chunk))
                yield chunk

        def close(self) -> None:
            stream.close()

    return Bounded()


def read(address: str, headers: Mapping[str, str], most_bytes: int) -> bytes:
    """Return a small file of the Hub.

    Raises:
        OutOfBounds: when it is larger than `most_bytes`.
    """
    from huggingface_hub import get_session  # noqa: PLC0415 - lazy
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # noqa: PLC0415 - optional, slow
        hf_raise_for_status,
    )

    content = bytearray()
    with get_session().stream(
        "GET", address, headers=dict(headers), timeout=_READ_SECONDS
    ) as response:
        hf_raise_for_status(response)
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) > most_bytes:
                name = urlsplit(address).path.rpartition("/")[2]
                raise OutOfBounds(
                    f"Its {name} is larger than the {most_bytes >> 20} MiB that this "
                    "page reads."
                )
    return bytes(content)


def endpoint() -> str:
    """Return the Hub's address, or that of the publisher's mirror."""
    return (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")


def token() -> str | bool:
    """Return the publisher's token for all visitors; False for none.

    The server's own login is never used: it may see what visitors may not.
    """
    return os.environ.get(TOKEN, "").strip() or False


def headers() -> dict[str, str]:
    """Return what is sent with a request."""
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # noqa: PLC0415 - optional, slow
        build_hf_headers,
    )

    sent: dict[str, str] = build_hf_headers(token=token(), library_name=LIBRARY)
    return sent


def api() -> HfApi:
    """Return huggingface_hub's interface, bounded and without the server's login.

    Raises:
        ModelUnavailable: where this page makes no requests to the Hub.
    """
    try:
        from huggingface_hub import HfApi  # noqa: PLC0415 - optional, slow to import
    except ImportError as error:
        raise _no_requests() from error
    if _is_offline() or not can_bound():
        raise _no_requests()
    _bound(endpoint())
    return HfApi(endpoint=endpoint(), token=token(), library_name=LIBRARY)


@lru_cache(maxsize=1)
def _bound(address: str) -> None:
    install(address)


def _is_offline() -> bool:
    from huggingface_hub import constants  # noqa: PLC0415 - lazy

    return is_set("HF_HUB_OFFLINE") or bool(constants.HF_HUB_OFFLINE)


def _no_requests() -> ModelUnavailable:
    return ModelUnavailable(
        "This page plans only the models of its list and does not query the Hub. Pick "
        "one from the list."
    )
