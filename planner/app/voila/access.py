"""Who may open the app: on one's own machine the owner alone, by a token.

Other users of the machine reach a server on its loopback address as well, and a page
that starts programs would start them as its owner. Published, everybody may open it;
then visitors are told apart by their address, to count the places that each one has.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import field

from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler

from planner.errors import PlannerError
from planner.values import frozen

TOKEN = "token"
"""The parameter of the start address that holds the token."""
_TOKEN_BYTES = 24
_KEY_BYTES = 16
_NETWORK_BITS = 64
"""The part of an IPv6 address that names a network: its owner chooses the rest."""
_REAL_ADDRESS = "X-Real-IP"
_FRAMES = ("iframe", "frame")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@frozen
class Owner:
    """The one person who may use the app: whoever has the start address.

    The page's address is shown to others, so the token is in it only until the cookie
    is set. Cookies do not distinguish ports: the name does.
    """

    port: int
    path: str
    """Of the app; the cookie is sent nowhere else."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(_TOKEN_BYTES))
    name: str = "planner"
    """Of what belongs to the owner: the app, or a room's screen in it."""

    @property
    def cookie_name(self) -> str:
        """The name of the cookie, which another app on this machine does not use."""
        return f"{self.name}-{self.port}"

    def is_at(self, handler: RequestHandler) -> bool:
        """Return whether a request has the cookie."""
        return self._is_token(handler.get_cookie(self.cookie_name))

    def is_named_by(self, handler: RequestHandler) -> bool:
        """Return whether a program sends the token, as RFC 6750 says."""
        scheme, _, token = handler.request.headers.get("Authorization", "").partition(
            " "
        )
        return scheme.lower() == "bearer" and self._is_token(token.strip())

    def let_in(self, handler: RequestHandler) -> bool:
        """Set the cookie where the address has the token; return whether it has."""
        given = handler.get_query_arguments(TOKEN)
        if len(given) != 1 or not self._is_token(given[0]):
            return False
        handler.set_cookie(
            self.cookie_name,
            self.token,
            path=self.path,
            httponly=True,
            samesite="Strict",
        )
        return True

    def _is_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(
            given.encode(), self.token.encode()
        )


@frozen
class Visitors:
    """Tells visitors apart, by a keyed hash of the address: none is stored."""

    trusted: tuple[Network, ...] = ()
    """Proxies whose word on a visitor's address is taken."""
    key: bytes = field(default_factory=lambda: secrets.token_bytes(_KEY_BYTES))

    def name(self, request: HTTPServerRequest) -> str:
        """Return the name of the network that a request comes from."""
        address = _address(request.remote_ip)
        if address is not None and any(address in network for network in self.trusted):
            address = _address(request.headers.get(_REAL_ADDRESS)) or address
        packed = b"" if address is None else _network(address)
        return hashlib.blake2b(packed, key=self.key, digest_size=16).hexdigest()


def trusted_networks(given: Sequence[str]) -> tuple[Network, ...]:
    """Read addresses of proxies, or networks such as 10.0.0.0/8.

    Raises:
        PlannerError: for what is neither.
    """
    try:
        return tuple(ipaddress.ip_network(one) for one in given)
    except ValueError as error:
        raise PlannerError(
            f"--trusted-proxy: {error}. Give an address such as 127.0.0.1, or a "
            "network such as 10.0.0.0/8."
        ) from error


def _address(text: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address((text or "").strip())
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return address if mapped is None else mapped


def _network(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bytes:
    whole = address.packed
    return whole if address.version == 4 else whole[: _NETWORK_BITS // 8]  # noqa: PLR2004 - IP's


def is_for_a_page(request: HTTPServerRequest, *, may_be_framed: bool) -> bool:
    """Return whether a browser asks for a page that its user will see.

    Another site's `<img>` or prefetch would take a place as well. Programs, which send
    none of these headers, pass.
    """
    headers = request.headers
    if "prefetch" in headers.get("Sec-Purpose", ""):
        return False
    destination = headers.get("Sec-Fetch-Dest", "document")
    if destination in _FRAMES:
        return may_be_framed or headers.get("Sec-Fetch-Site") == "same-origin"
    return destination == "document"
