"""What visitors of a soak do, the well-behaved and the others."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tornado.httpclient import HTTPClientError
from tornado.websocket import WebSocketClosedError

from benchmarks.app import processes, served, wire
from benchmarks.app.visitor import NoPage, Visitor

_STEPS = (2, 12)
_PERCENTS = range(50, 92)
"""Below the default, which is on the page at first."""
_STEP_SECONDS = (0.05, 0.4)
_PAUSE_SECONDS = (0.1, 1.5)
_NUM_MALFORMED = 1000
_ALLOWANCE_SECONDS = 3.0
"""Until the server listens again to a page that sent too much."""
_JUNK: tuple[str | bytes, ...] = (
    b"",
    b"\0" * 8,
    b"\xff" * 64,
    (6).to_bytes(8, "little") + b"\xff" * 48,
    "",
    "{",
    "[]",
    "null",
    '{"channel": "shell"}',
    '{"channel": "stdin", "header": {"msg_type": "input_reply"}, "content": {}}',
    '{"channel": "shell", "header": {"msg_type": "execute_request"}, '
    '"parent_header": {}, "metadata": {}, "content": {"code": "1/0"}}',
    '{"channel": "shell", "header": {"msg_type": "comm_msg"}, "parent_header": {}, '
    '"metadata": {}, "content": {"comm_id": "none", "data": {"method": "update"}}}',
)
"""No messages, messages of forbidden kinds, and messages to nobody."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What happened, by kind."""

    done: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    disturbed: Counter[str] = field(default_factory=Counter)
    """Visits that a killed kernel or a full disk cut short, as they should."""
    failures: list[str] = field(default_factory=list)
    """Visits that nothing excuses."""


class Soak:
    """Visitors of one server, until the time is over."""

    def __init__(self, address: str, seed: int = 1) -> None:
        self.address = address
        self.tally = Tally()
        self._random = random.Random(seed)
        self._protocols = wire.PROTOCOLS
        self._excused_until = 0.0
        self._kinds = {
            "visitors who left": self._leave,
            "visitors who came back after a lost connection": self._reload,
            "visitors who sent 1,000 malformed messages": self._send_nonsense,
        }
        self._lost_kinds = {
            "visitors who vanished": self._vanish,
            "visitors who asked for the page and never connected": self._never_come,
        }

    async def visit_until(self, end: float, *, vanishing_until: float) -> None:
        """Visit again and again; nobody vanishes any more in the last part."""
        clock = asyncio.get_running_loop().time
        while clock() < end:
            may_vanish = clock() < vanishing_until
            kinds = self._kinds | (self._lost_kinds if may_vanish else {})
            await self._visit(*self._random.choice(list(kinds.items())))
            await asyncio.sleep(self._random.uniform(*_PAUSE_SECONDS))

    async def _visit(self, kind: str, do: Callable[[Visitor], Awaitable[None]]) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        protocol = self._random.choice(self._protocols)
        async with Visitor(self.address, protocol) as visitor:
            try:
                await do(visitor)
            except (
                NoPage,
                OSError,
                TimeoutError,
                HTTPClientError,
                WebSocketClosedError,
            ) as error:
                told = f"{kind}: {type(error).__name__}: {str(error)[:80]}"
                if began < self._excused_until or clock() < self._excused_until:
                    self.tally.disturbed[kind] += 1
                else:
                    self.tally.failures.append(told)
            else:
                self.tally.done[kind] += 1

    async def _move(self, visitor: Visitor) -> None:
        # Each value once: where nothing changes, nothing is answered.
        for percent in self._random.sample(_PERCENTS, self._random.randint(*_STEPS)):
            await visitor.move(percent / 100)
            self.tally.steps += 1
            await asyncio.sleep(self._random.uniform(*_STEP_SECONDS))

    async def _leave(self, visitor: Visitor) -> None:
        await visitor.open()
        await self._move(visitor)
        await visitor.leave()

    async def _vanish(self, visitor: Visitor) -> None:
        await visitor.open()
        await self._move(visitor)
        visitor.vanish()

    async def _reload(self, visitor: Visitor) -> None:
        """Lose the connection, and come back to the same kernel."""
        await visitor.open()
        visitor.vanish()
        await asyncio.sleep(self._random.uniform(*_STEP_SECONDS))
        await visitor.connect()
        await visitor.ask_for_states()
        await self._move(visitor)
        await visitor.leave()

    async def _send_nonsense(self, visitor: Visitor) -> None:
        """Send what is no message; the page's own messages still get through."""
        await visitor.open()
        for _ in range(_NUM_MALFORMED):
            visitor.send_raw(self._random.choice(_JUNK))
        await asyncio.sleep(_ALLOWANCE_SECONDS)
        await self._move(visitor)
        await visitor.leave()

    async def _never_come(self, visitor: Visitor) -> None:
        await visitor.ask_for_page()

    def kill_a_kernel(self) -> None:
        """Kill one, whoever has it."""
        kernels = served.family(self.address).kernels
        if kernels:
            self._excuse(10.0)
            with suppress(ProcessLookupError):  # its visitor has just left
                os.kill(self._random.choice(kernels).pid, signal.SIGKILL)
                self.tally.done["kernels killed"] += 1

    async def fill_the_disk(self, seconds: float) -> None:
        """Let no process of the server write a byte to a file for a while."""
        self._excuse(seconds + 20.0)
        self._limit_files(0)
        self.tally.done["times that the disk was full"] += 1
        await asyncio.sleep(seconds)
        self._limit_files(resource.RLIM_INFINITY)

    def _excuse(self, seconds: float) -> None:
        """Expect visits to be cut short from now on for a while."""
        now = asyncio.get_running_loop().time()
        self._excused_until = max(self._excused_until, now + seconds)

    def _limit_files(self, num_bytes: int) -> None:
        """Set the largest size of files that they write; for those they have as well.

        The system then refuses each write, as a full disk does; it needs no rights.
        """
        family = served.family(self.address)
        for process in (family.server, *family.descendants):
            _limit(process, num_bytes)


def _limit(process: processes.Process, num_bytes: int) -> None:
    try:
        _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        wanted = most if num_bytes == resource.RLIM_INFINITY else num_bytes
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (wanted, most))
    except ProcessLookupError:  # it ended meanwhile
        return
