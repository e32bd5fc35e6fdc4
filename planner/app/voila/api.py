"""`/api/plan`: a question in JSON, a plan in JSON; `/api` describes it to people.

Questions are answered by few processes of their own, so that no question keeps the
pages waiting, and one that takes too long is ended. Published, a visitor may have few
questions at once and so many a minute.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from http import HTTPStatus
from typing import Any

from tornado.web import HTTPError

from planner.app.voila import kernels, provisioner
from planner.app.voila.access import Owner, Visitors
from planner.app.voila.openapi import DOCUMENT, PAGE_POLICY, document, page_html
from planner.app.voila.pages import AppHandler

LONGEST_SECONDS = 30.0
"""From the moment that a process has a question to its answer."""
PROCESSES = 2
_IDLE_SECONDS = 600.0
_MOST_WAITING = 16
_MOST_OF_ONE = 4
"""Questions of one visitor, the one that is answered included."""
PER_MINUTE = 60
AT_ONCE = 30
"""Questions that a visitor may have saved up."""
_ANSWER_BYTES = 16 << 20
_MOST_REMEMBERED = 4096
_BUSY_SECONDS = 5
_JSON = "application/json"


class Busy(Exception):  # noqa: N818 - reads as the sentence it is
    """There are as many questions as may wait, of all visitors or of one."""


class Rate:
    """How soon a visitor may come again: so many a minute, and some at once.

    >>> rate = Rate(per_minute=60, at_once=2)
    >>> [rate.wait("a", 0.0), rate.wait("a", 0.0), rate.wait("a", 0.0)]
    [0.0, 0.0, 1.0]
    >>> rate.wait("b", 0.0), rate.wait("a", 1.0)
    (0.0, 0.0)
    """

    def __init__(self, *, per_minute: int, at_once: int) -> None:
        self._interval = 60 / per_minute
        self._saved = self._interval * (at_once - 1)
        self._due: dict[str, float] = {}
        """When a visitor who comes at an even pace would be expected next."""

    def wait(self, visitor: str, now: float) -> float:
        """Return the seconds until a visitor may come; at 0, this visit is counted."""
        due = max(self._due.get(visitor, now), now)
        if due - now > self._saved:
            return due - now - self._saved
        if len(self._due) >= _MOST_REMEMBERED:
            self._due = {name: at for name, at in self._due.items() if at > now}
        self._due[visitor] = due + self._interval
        return 0.0


class Answering:
    """A process that answers one question at a time; it starts with the first."""

    def __init__(self, *, is_limited: bool) -> None:
        self._is_limited = is_limited
        self._process: asyncio.subprocess.Process | None = None
        self._ending: asyncio.TimerHandle | None = None

    async def answer(self, body: str) -> tuple[int, dict[str, Any]]:
        """Return the status and the answer to a request's body.

        Raises:
            TimeoutError: where it takes too long; the process is ended.
            ConnectionError: where the process ended by itself.
        """
        if self._ending is not None:
            self._ending.cancel()
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                line = await self._told(json.dumps(body).encode() + b"\n")
        except BaseException:
            # What it writes later would be taken for the answer to the next question.
            self.end()
            raise
        loop = asyncio.get_running_loop()
        self._ending = loop.call_later(_IDLE_SECONDS, self.end)
        status, said = json.loads(line)
        return status, said

    async def _told(self, line: bytes) -> bytes:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "planner.app.voila.plan_answers"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_ANSWER_BYTES,
                start_new_session=True,
            )
            if self._is_limited and provisioner.is_available():
                kernels.limit(process.pid)
        assert process.stdin is not None  # both are pipes
        assert process.stdout is not None
        process.stdin.write(line)
        await process.stdin.drain()
        answer = await process.stdout.readline()
        if not answer.endswith(b"\n"):
            raise ConnectionError("The process that plans has ended.")
        return answer

    def end(self) -> None:
        """End the process, if it runs."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()


class Desk:
    """Gives questions to processes: at most one at a time of each visitor."""

    def __init__(self, *, is_limited: bool) -> None:
        self._all = [Answering(is_limited=is_limited) for _ in range(PROCESSES)]
        self._idle = list(self._all)
        self._here: Counter[str] = Counter()
        self._answered: set[str] = set()
        self._changed = asyncio.Condition()

    async def answer(self, visitor: str, body: str) -> tuple[int, dict[str, Any]]:
        """Return the status and the answer, as soon as it is this visitor's turn.

        Raises:
            Busy: where too many wait.
            TimeoutError, ConnectionError: as `Answering.answer`.
        """
        is_full = self._here.total() >= _MOST_WAITING + PROCESSES
        if is_full or self._here[visitor] >= _MOST_OF_ONE:
            raise Busy
        self._here[visitor] += 1
        try:
            async with self._turn(visitor) as process:
                return await process.answer(body)
        finally:
            self._here[visitor] -= 1
            self._here += Counter()  # without those who have left

    @asynccontextmanager
    async def _turn(self, visitor: str) -> AsyncIterator[Answering]:
        def may_go() -> bool:
            return bool(self._idle) and visitor not in self._answered

        async with self._changed:
            await self._changed.wait_for(may_go)
            process = self._idle.pop()
            self._answered.add(visitor)
        try:
            yield process
        finally:
            async with self._changed:
                self._idle.append(process)
                self._answered.discard(visitor)
                self._changed.notify_all()

    def end(self) -> None:
        """End the processes."""
        for process in self._all:
            process.end()


class ProgramHandler(AppHandler):
    """The base of what programs ask: they have the owner's token, and no cookie."""

    def _may_enter(self, owner: Owner) -> bool:
        return owner.is_at(self) or owner.is_named_by(self)


class PlanHandler(ProgramHandler):
    """POST /api/plan: a question in JSON; GET is not answered."""

    def initialize(self, desk: Desk, rate: Rate | None) -> None:
        """Store what all requests share; no rate on one's own machine."""
        self._desk, self._rate = desk, rate

    async def post(self) -> None:
        """Send the plan, or what is wrong with the question."""
        visitors: Visitors = self.settings["visitors"]
        visitor = visitors.name(self.request)
        kind = self.request.headers.get("Content-Type", "")
        if kind.partition(";")[0].strip().lower() != _JSON:
            # Another site's form cannot send this type.
            self._refuse(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Send Content-Type: {_JSON}."
            )
        elif self._rate and (seconds := self._rate.wait(visitor, time.monotonic())):
            self._refuse(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"One address may send {PER_MINUTE} questions a minute.",
                retry_seconds=math.ceil(seconds),
            )
        else:
            await self._answer(visitor)

    async def _answer(self, visitor: str) -> None:
        try:
            body = self.request.body.decode()
        except UnicodeDecodeError:
            self._refuse(HTTPStatus.BAD_REQUEST, "A question is text in UTF-8.")
            return
        try:
            status, answer = await self._desk.answer(visitor, body)
        except Busy:
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "Too many questions wait at the moment.",
                retry_seconds=_BUSY_SECONDS,
            )
        except TimeoutError:
            self._refuse(
                HTTPStatus.GATEWAY_TIMEOUT,
                f"There was no answer within {LONGEST_SECONDS:.0f} seconds.",
            )
        except ConnectionError:
            self._refuse(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "The planner failed at this question.",
            )
        else:
            self._send(status, answer)

    def _refuse(
        self, status: HTTPStatus, sentence: str, *, retry_seconds: int | None = None
    ) -> None:
        if retry_seconds is not None:
            self.set_header("Retry-After", str(retry_seconds))
        self._send(status, {"error": sentence, "where": ""})

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        self.set_status(status)
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Type", _JSON)
        self.finish(json.dumps(answer))

    def check_xsrf_cookie(self) -> None:
        """Accept programs, which have no such cookie.

        Another site's page cannot send JSON here: a browser first asks whether it may,
        which nothing answers; nor could it read the plan, which changes nothing.
        """


class DescriptionHandler(ProgramHandler):
    """GET /api and /api/openapi.json: what the app answers, for people and programs."""

    def get(self, name: str = "") -> None:
        """Send the page, or the OpenAPI document.

        Raises:
            HTTPError: for another name.
        """
        base = self.settings["base_url"]
        if name == DOCUMENT:
            self.set_header("Content-Type", _JSON)
            self.finish(_document_text(base))
        elif not name:
            self.set_header("Content-Type", "text/html; charset=utf-8")
            self.set_header("Content-Security-Policy", PAGE_POLICY)
            self.finish(_page_text(base))
        else:
            raise HTTPError(404)


@cache
def _document_text(base: str) -> str:
    return json.dumps(document(base))


@cache
def _page_text(base: str) -> str:
    return page_html(document(base))
