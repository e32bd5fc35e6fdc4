"""The pages of a room: a phone's, the projector's, and what they ask for.

Who opens the screen's address, with its token, leads the room. Pages wait for news with
a request that is answered when there are some, so that every proxy passes them on.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from tornado.httputil import HTTPServerRequest
from tornado.web import HTTPError

from planner.app.voila.access import Owner, Visitors, is_for_a_page
from planner.app.voila.api import Rate
from planner.app.voila.notices import FULL, Notice, notice_html
from planner.app.voila.pages import AppHandler
from planner.app.voila.room import ASKED, News, Place, Room
from planner.app.widgets import pieces
from planner.show.html import tag

COOKIE = "planner-place"
_BODY_BYTES = 1024
_QUIET_MODULES = 4
"""The margin that a camera needs. Source: ISO/IEC 18004."""
_POLICY = (
    "default-src 'none'; script-src {}; style-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)


def qr_path(text: str) -> tuple[int, str]:
    """Return the width of a QR code, and its dark modules as the path of an SVG."""
    import segno  # noqa: PLC0415 - a room only

    rows = list(segno.make_qr(text, error="l").matrix_iter(border=_QUIET_MODULES))
    squares = (
        f"M{x} {y}h1v1h-1z"
        for y, row in enumerate(rows)
        for x, is_dark in enumerate(row)
        if is_dark
    )
    return len(rows), "".join(squares)


def handlers(room: Room) -> dict[str, tuple[Any, ...]]:
    """Return the room's addresses."""
    path, given = r"room/([A-Z0-9]{1,12})", {"room": room}
    return {
        path: (PhonePage, given),
        f"{path}/news": (PhoneNews, given),
        f"{path}/vote": (VoteHandler, given),
        f"{path}/screen": (ScreenPage, given),
        f"{path}/screen/news": (ScreenNews, given),
        f"{path}/screen/act": (ActHandler, given),
    }


class RoomHandler(AppHandler):
    """The base of the room's handlers: its code is in the address."""

    def initialize(self, room: Room) -> None:
        """Store the room."""
        self._room, self._retry_seconds = room, 0.0

    async def prepare(self) -> None:
        """Refuse a wrong code, other sites, and who comes too often.

        Raises:
            HTTPError: for each of them.
        """
        await super().prepare()
        now, network = time.monotonic(), self._network(self.request)
        given = str(self.path_args[0])
        if not hmac.compare_digest(given, self._room.code):
            self._count(network, now)
            raise HTTPError(404)
        if not _is_own_site(self.request):
            raise HTTPError(403)

    def _may_enter(self, _owner: Owner) -> bool:
        return True

    def check_xsrf_cookie(self) -> None:
        """Accept the page's JSON, which another site's form cannot send."""

    def _network(self, request: HTTPServerRequest) -> str:
        visitors: Visitors = self.settings["visitors"]
        return visitors.name(request)

    def _count(self, who: str, now: float, rate: Rate | None = None) -> None:
        self._retry_seconds = (rate or self._room.joins).wait(who, now)
        if self._retry_seconds:
            raise HTTPError(429)

    def write_error(self, status_code: int, **details: object) -> None:
        """Say when to come again, where somebody comes too often."""
        if self._retry_seconds:
            self.set_header("Retry-After", str(math.ceil(self._retry_seconds)))
        super().write_error(status_code, **details)

    def _place(self) -> Place:
        """Return the phone's place.

        Raises:
            HTTPError: for one that has none, or comes too often.
        """
        name = self.get_cookie(COOKIE, "") or ""
        place = self._room.places.get(name)
        if place is None:
            raise HTTPError(403)
        place.seen = time.monotonic()
        self._count(name, place.seen, self._room.polls)
        return place

    def _lead(self) -> None:
        if not self._room.owner.is_at(self):
            raise HTTPError(403)

    def _given(self) -> dict[str, Any]:
        """Return the JSON object of a small request.

        Raises:
            HTTPError: for anything else.
        """
        kind = self.request.headers.get("Content-Type", "")
        if kind.partition(";")[0].strip().lower() != "application/json":
            raise HTTPError(415)
        if len(self.request.body) > _BODY_BYTES:
            raise HTTPError(413)
        try:
            given = json.loads(self.request.body)
        except ValueError:
            raise HTTPError(400) from None
        if not isinstance(given, dict):
            raise HTTPError(400)
        return given

    async def _news(self, news: News, shown: Callable[[], dict[str, Any]]) -> None:
        seen = self.get_query_argument("seen", "-1")
        await news.later_than(int(seen) if seen.isdecimal() else -1)
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(shown()))

    def _send(self, title: str, script: str, state: dict[str, Any]) -> None:
        allowed = pieces.script_source(script)
        self.set_header("Content-Security-Policy", _POLICY.format(allowed))
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        without = tag("p", "This page needs JavaScript.")
        self.finish(pieces.page_html(title, pieces.piece_html(script, state, without)))


class PhonePage(RoomHandler):
    """GET /room/CODE: a phone takes a place."""

    def get(self, _code: str) -> None:
        """Send the phone's page, or say that the room is full.

        Raises:
            HTTPError: where a browser does not ask for a page to show.
        """
        if not is_for_a_page(self.request, may_be_framed=False):
            raise HTTPError(403)
        room, now = self._room, time.monotonic()
        network = self._network(self.request)
        if self.get_cookie(COOKIE, "") not in room.places:
            self._count(network, now)
            found = room.place_for(network, now)
            if isinstance(found, Notice):
                self.set_status(503 if found is FULL else 429)
                self.set_header("Content-Type", "text/html; charset=utf-8")
                self.finish(notice_html(found))
                return
            path = self._room.owner.path
            self.set_cookie(COOKIE, found, path=path, httponly=True, samesite="Strict")
        self._send("The room", "room.js", {})


class PhoneNews(RoomHandler):
    """GET /room/CODE/news: waits for what a phone shows next."""

    async def get(self, _code: str) -> None:
        """Send it."""
        place = self._place()
        await self._news(self._room.phones, lambda: self._room.for_phone(place))


class VoteHandler(RoomHandler):
    """POST /room/CODE/vote: the vote of a place; a later one takes its place."""

    def post(self, _code: str) -> None:
        """Count it.

        Raises:
            HTTPError: for what is no vote, or comes when nothing is asked.
        """
        place, room = self._place(), self._room
        if room.question is None or room.phase != ASKED:
            raise HTTPError(409)
        vote = room.question.read(self._given().get("answer"))
        if vote is None:
            raise HTTPError(400)
        place.vote = vote
        room.screen.tell()
        self.set_status(204)
        self.finish()


class ScreenPage(RoomHandler):
    """GET /room/CODE/screen: for the projector, and for who leads the room."""

    def get(self, _code: str) -> None:
        """Send the page; its token becomes a cookie, so that nobody reads it there."""
        room = self._room
        if room.owner.let_in(self):
            self.redirect(self.request.path)
            return
        self._lead()
        code = qr_path(room.address)
        titles = [one.title for one in room.asked]
        state = {"address": room.address, "qr": code, "titles": titles}
        self._send("The room", "screen.js", state)


class ScreenNews(RoomHandler):
    """GET /room/CODE/screen/news: waits for what the projector shows next."""

    async def get(self, _code: str) -> None:
        """Send it."""
        self._lead()
        await self._news(self._room.screen, self._room.for_screen)


class ActHandler(RoomHandler):
    """POST /room/CODE/screen/act: the leader goes on."""

    async def post(self, _code: str) -> None:
        """Do it; what a question's answer is gets planned beside the server.

        Raises:
            HTTPError: for what is no action, or no question.
        """
        self._lead()
        given, room = self._given(), self._room
        number = given.get("question", 0)
        if not isinstance(number, int) or not 0 <= number < len(room.asked):
            raise HTTPError(400)
        if given.get("do") == "ask":
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, room.asked[number].answer)
        if not room.do(str(given.get("do")), number):
            raise HTTPError(400)
        self.set_status(204)
        self.finish()


def _is_own_site(request: HTTPServerRequest) -> bool:
    """Return whether a request comes from the room's own pages, or from no page."""
    headers = request.headers
    if (
        headers.get("Sec-Fetch-Site", "none") == "cross-site"
        and request.method != "GET"
    ):
        return False
    origin = headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.host
