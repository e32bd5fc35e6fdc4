"""Many visitors at the same moment: until each can work, and then each step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle

from tornado.httpclient import AsyncHTTPClient

from benchmarks.app.visitor import Visitor

STEP_SECONDS = 0.25
"""From one step to the next, of each visitor."""
_FIRST_VALUE = 0.8
_VALUES = tuple(percent / 100 for percent in range(60, 76))
"""None of them the default or the first: where nothing changes, nothing is answered."""


@dataclass(slots=True, kw_only=True)
class Crowd:
    """What many visitors met with, in seconds."""

    interactive: list[float] = field(default_factory=list)
    """From the first GET of all until each one's slider has moved its chart."""
    steps: list[float] = field(default_factory=list)
    """Of all visitors, from the message to the new chart."""
    bytes_per_step: list[float] = field(default_factory=list)
    messages_per_step: list[int] = field(default_factory=list)
    """All that came since the step before, such as the kernel's state."""
    failures: list[str] = field(default_factory=list)
    """Visitors who could not work, and why."""


def prepare(num_visitors: int) -> None:
    """Let this process ask for that many pages at a time."""
    AsyncHTTPClient.configure(None, max_clients=2 * num_visitors)


async def open_all(address: str, num_visitors: int, crowd: Crowd) -> list[Visitor]:
    """Let all come at once; returns those who can work."""
    began = time.perf_counter()

    async def come() -> Visitor | None:
        visitor = Visitor(address)
        try:
            await visitor.open()
            await visitor.move(_FIRST_VALUE)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
            crowd.failures.append(f"{type(error).__name__}: {error}")
            visitor.vanish()
            return None
        crowd.interactive.append(time.perf_counter() - began)
        return visitor

    come_all = (come() for _ in range(num_visitors))
    return [visitor for visitor in await asyncio.gather(*come_all) if visitor]


async def move_all(visitors: Sequence[Visitor], seconds: float, crowd: Crowd) -> None:
    """Let all move a slider, each one step every `STEP_SECONDS`, not in step."""
    began = time.perf_counter()

    async def move(number: int, visitor: Visitor) -> None:
        await asyncio.sleep(STEP_SECONDS * number / len(visitors))
        values = cycle((*_VALUES, *_VALUES[-2:0:-1]))
        next_step = time.perf_counter()
        while time.perf_counter() - began < seconds:
            received, count = visitor.received_bytes, visitor.num_received
            try:
                crowd.steps.append(await visitor.move(next(values)))
            except (TimeoutError, ConnectionError) as error:
                crowd.failures.append(f"a step: {type(error).__name__}: {error}")
                return
            crowd.bytes_per_step.append(visitor.received_bytes - received)
            crowd.messages_per_step.append(visitor.num_received - count)
            next_step += STEP_SECONDS
            await asyncio.sleep(max(0.0, next_step - time.perf_counter()))

    await asyncio.gather(*(move(*pair) for pair in enumerate(visitors)))


async def leave_all(visitors: Sequence[Visitor]) -> None:
    """Let all close their page."""
    await asyncio.gather(*(visitor.leave() for visitor in visitors))
