"""How a published app asks the Hub: as anybody, within bounds, at one address."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from planner.errors import ModelUnavailable
from planner.sources import hub_bounds

if TYPE_CHECKING:
    from huggingface_hub import HfApi

TOKEN = "PLANNER_HUB_TOKEN"
"""Environment variable: an access token that the publisher lends to all visitors."""

_LIBRARY = "vllm-memory-planner"
_TRUE = frozenset(("1", "on", "yes", "true"))


def endpoint() -> str:
    """Return the Hub's address, or that of the publisher's mirror."""
    return (os.environ.get("HF_ENDPOINT") or hub_bounds.HUB).rstrip("/")


def token() -> str | bool:
    """Return the publisher's token for all visitors; False for none.

    The server's own login is never used: it may see what visitors may not.
    """
    return os.environ.get(TOKEN, "").strip() or False


def headers() -> dict[str, str]:
    """Return what is sent with a request."""
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # noqa: PLC0415
        build_hf_headers,
    )

    sent: dict[str, str] = build_hf_headers(token=token(), library_name=_LIBRARY)
    return sent


def api() -> HfApi:
    """Return huggingface_hub's interface, bounded and without the server's login.

    Raises:
        ModelUnavailable: where this page asks the Hub for nothing.
    """
    try:
        from huggingface_hub import HfApi  # noqa: PLC0415 - optional, slow to import
    except ImportError as error:
        raise _not_asked() from error
    if _is_offline():
        raise _not_asked()
    _bound(endpoint())
    return HfApi(endpoint=endpoint(), token=token(), library_name=_LIBRARY)


@lru_cache(maxsize=1)
def _bound(address: str) -> None:
    hub_bounds.install(address)


def _is_offline() -> bool:
    from huggingface_hub import constants  # noqa: PLC0415 - lazy

    asked = os.environ.get("HF_HUB_OFFLINE", "").lower() in _TRUE
    return asked or bool(constants.HF_HUB_OFFLINE)


def _not_asked() -> ModelUnavailable:
    return ModelUnavailable(
        "This page plans the models of its list and asks the Hub for none. Pick one of "
        "the list."
    )
