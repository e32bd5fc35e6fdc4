"""`/api/plan`: a question in JSON, a plan in JSON; `/api` describes it to people.

Questions are answered by few processes of their own, so that no question keeps the
pages waiting, and one that takes too long is ended, or whose program has left. The
processor time that an address takes is counted: who took less goes first. Published, a
visitor may have few questions at once, so many a minute, and so much of the processor.
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
"""From the moment that a question arrives to its answer."""
PATIENCE_SECONDS = 8.0
"""As long as a question keeps its process while another visitor waits for one."""
PROCESSES = 2
_IDLE_SECONDS = 600.0
_MOST_WAITING = 16
_MOST_OF_ONE = 4
"""Questions of one visitor, the one that is answered included."""
PER_MINUTE = 60
AT_ONCE = 30
"""Questions that a visitor may have saved up."""
PROCESSOR_SECONDS = 20
"""Of each minute, for one visitor."""
_PROCESSOR_AT_ONCE = 11
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

    def wait(self, visitor: str, now: float, *, visits: float = 1) -> float:
        """Return the seconds until a visitor may come; at 0, this visit is counted."""
        ahead = self.ahead(visitor, now)
        if ahead > self._saved:
            return ahead - self._saved
        if visits:
            self.count(visitor, now, visits)
        return 0.0

    def ahead(self, visitor: str, now: float) -> float:
        """Return by how many seconds a visitor came sooner than at an even pace."""
        return max(self._due.get(visitor, now) - now, 0.0)

    def count(self, visitor: str, now: float, visits: float) -> None:
        """Count visits that are made already, or parts of one."""
        due = now + self.ahead(visitor, now)
        if len(self._due) >= _MOST_REMEMBERED:
            self._due = {name: at for name, at in self._due.items() if at > now}
        self._due[visitor] = due + visits * self._interval


class Answering:
    """A process that answers one question at a time; it starts with the first."""

    def __init__(self, *, is_limited: bool) -> None:
        self._is_limited = is_limited
        self._process: asyncio.subprocess.Process | None = None
        self._ending: asyncio.TimerHandle | None = None

    async def answer(self, body: str) -> tuple[int, dict[str, Any], float]:
        """Return status and answer to a request's body, and the processor's seconds.

        A process whose answer is not waited for, since it took too long or the program
        has left, is ended.

        Raises:
            ConnectionError: where the process ended by itself.
        """
        if self._ending is not None:
            self._ending.cancel()
        try:
            line = await self._told(json.dumps(body).encode() + b"\n")
        except BaseException:
            # What it writes later would be taken for the answer to the next question.
            self.end()
            raise
        loop = asyncio.get_running_loop()
        self._ending = loop.call_later(_IDLE_SECONDS, self.end)
        status, said, seconds = json.loads(line)
        return status, said, seconds

    async def _told(self, line: bytes) -> bytes:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", f"{__package__}.plan_answers"),
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
    """Gives questions to processes: at most one at a time of each visitor.

    While others wait, a question gives its process up sooner (`PATIENCE_SECONDS`), and
    of those who wait, whoever took least of the processor goes first.
    """

    def __init__(self, *, is_limited: bool) -> None:
        self._all = [Answering(is_limited=is_limited) for _ in range(PROCESSES)]
        self._idle = list(self._all)
        self._here: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._answered: dict[str, tuple[asyncio.Timeout, float]] = {}
        """Whose questions have a process: until when, and since when."""
        self._changed = asyncio.Condition()
        self.processor = Rate(per_minute=PROCESSOR_SECONDS, at_once=_PROCESSOR_AT_ONCE)
        """A visit is a second of the processor's."""

    async def answer(self, visitor: str, body: str) -> tuple[int, dict[str, Any]]:
        """Return the status and the answer, as soon as it is this visitor's turn.

        Raises:
            Busy: where too many wait.
            TimeoutError: where it takes too long, the time to wait included.
            ConnectionError: as `Answering.answer`.
        """
        is_full = self._here.total() >= _MOST_WAITING + PROCESSES
        if is_full or self._here[visitor] >= _MOST_OF_ONE:
            raise Busy
        self._here[visitor] += 1
        try:
            async with (
                asyncio.timeout(LONGEST_SECONDS) as limit,
                self._turn(visitor, limit) as process,
            ):
                return await self._counted(visitor, process, body)
        finally:
            self._here[visitor] -= 1
            self._here += Counter()  # without those who have left

    @asynccontextmanager
    async def _turn(
        self, visitor: str, limit: asyncio.Timeout
    ) -> AsyncIterator[Answering]:
        async with self._changed:
            self._waiting[visitor] += 1
            try:
                self._hurry()
                await self._changed.wait_for(lambda: self._is_next(visitor))
            finally:
                self._waiting[visitor] -= 1
                self._waiting += Counter()
                # One who leaves may have stood before others.
                self._changed.notify_all()
            process = self._idle.pop()
            self._answered[visitor] = limit, asyncio.get_running_loop().time()
            self._hurry()
        try:
            yield process
        finally:
            self._idle.append(process)
            del self._answered[visitor]
            async with self._changed:
                self._changed.notify_all()

    def _is_next(self, visitor: str) -> bool:
        """Return whether there is a process, and nobody waits who took less."""
        now = time.monotonic()
        others = [other for other in self._waiting if other not in self._answered]
        took = self.processor.ahead(visitor, now)
        return (
            bool(self._idle)
            and visitor not in self._answered
            and all(self.processor.ahead(other, now) >= took for other in others)
        )

    def _hurry(self) -> None:
        """Let no question keep its process for long while another visitor waits."""
        if self._idle or not self._waiting.keys() - self._answered.keys():
            return
        for limit, since in self._answered.values():
            until = limit.when()
            if until is not None and not limit.expired():
                limit.reschedule(min(until, since + PATIENCE_SECONDS))

    async def _counted(
        self, visitor: str, process: Answering, body: str
    ) -> tuple[int, dict[str, Any]]:
        """Return status and answer, and count what they took against the visitor."""
        began = time.monotonic()
        seconds = None
        try:
            status, said, seconds = await process.answer(body)
        finally:
            now = time.monotonic()
            took = now - began if seconds is None else seconds
            self.processor.count(visitor, now, took)
        return status, said

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
        self._question: asyncio.Task[tuple[int, dict[str, Any]]] | None = None

    def on_connection_close(self) -> None:
        """Drop the question of a program that has left: it waits for nothing more."""
        if self._question is not None:
            self._question.cancel()

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
        elif self._rate and (seconds := self._took_too_much(visitor)):
            self._refuse(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"The questions of one address may take {PROCESSOR_SECONDS} seconds of "
                "the processor a minute.",
                retry_seconds=math.ceil(seconds),
            )
        else:
            await self._answer(visitor)

    def _took_too_much(self, visitor: str) -> float:
        return self._desk.processor.wait(visitor, time.monotonic(), visits=0)

    async def _answer(self, visitor: str) -> None:
        try:
            body = self.request.body.decode()
        except UnicodeDecodeError:
            self._refuse(HTTPStatus.BAD_REQUEST, "A question is text in UTF-8.")
            return
        try:
            self._question = asyncio.ensure_future(self._desk.answer(visitor, body))
            status, answer = await self._question
        except asyncio.CancelledError:
            if self._question is None or not self._question.cancelled():
                raise  # the server ends
        except Busy:
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "Too many questions wait at the moment.",
                retry_seconds=_BUSY_SECONDS,
            )
        except TimeoutError:
            self._refuse(
                HTTPStatus.GATEWAY_TIMEOUT,
                f"There was no answer in time: {LONGEST_SECONDS:.0f} seconds, or "
                f"{PATIENCE_SECONDS:.0f} of work while others wait.",
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
