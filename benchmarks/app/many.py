"""Thirty visitors at the same moment, a few of them in browsers."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from dataclasses import dataclass, field
from statistics import median
from threading import Event, Thread
from typing import TYPE_CHECKING

from benchmarks.app import browsing, processes, served
from benchmarks.app import crowd as crowds
from benchmarks.app.figures import MB, Figure
from benchmarks.app.figures import steps as step_figures
from tests.ui import servers

if TYPE_CHECKING:
    from playwright.sync_api import Page

SESSION = "memory of a session"
SESSION_LIMIT_MB = 90
INTERACTIVE_LIMIT_SECONDS = 8.0
STEP_LIMIT_MS = 150
POOL = 10
_POOL_SECONDS = 30.0
"""In which the server fills its pool again: before all move, and before its memory is
read."""


@dataclass(slots=True, kw_only=True)
class _Meeting:
    """The visitors without browsers, in a thread of their own, and what they meet."""

    address: str
    seconds: float
    crowd: crowds.Crowd = field(default_factory=crowds.Crowd)
    may_move: Event = field(default_factory=Event)
    have_moved: Event = field(default_factory=Event)
    may_leave: Event = field(default_factory=Event)
    cpu_seconds: tuple[float, float] = (0.0, 0.0)
    """Of the server, and of the kernels, while all moved."""

    async def visit(self, number: int) -> None:
        try:
            visitors = await crowds.open_all(self.address, number, self.crowd)
            await asyncio.to_thread(_wait_for_pool, self.address)
            self.may_move.set()
            server, kernels = _cpu_seconds(self.address)
            await crowds.move_all(visitors, self.seconds, self.crowd)
            now = _cpu_seconds(self.address)
            self.cpu_seconds = (now[0] - server, now[1] - kernels)
            self.have_moved.set()
            await asyncio.to_thread(self.may_leave.wait)
            await crowds.leave_all(visitors)
        finally:
            self.may_move.set()
            self.have_moved.set()


def many(options: Namespace) -> list[Figure]:
    """Open, move, and look at the server while all are there."""
    crowds.prepare(options.visitors)
    with served.app(POOL, options.root) as address, browsing.chromium() as browser:
        idle = served.family(address)
        meeting = _Meeting(address=address, seconds=options.seconds)
        contexts = [browsing.new_context(browser) for _ in range(options.browsers)]
        visiting = Thread(target=lambda: asyncio.run(meeting.visit(options.visitors)))
        visiting.start()
        opened = [browsing.opened(context, address) for context in contexts]
        meeting.may_move.wait()
        in_browsers = _steps_until(meeting.have_moved, [page for page, _ in opened])
        _wait_for_pool(address)
        full = served.family(address)
        meeting.may_leave.set()
        visiting.join()
    return [
        *_crowd_figures(meeting, options, [opening for _, opening in opened]),
        *_browser_figures(in_browsers),
        *_memory_figures(idle, full, options.visitors + options.browsers),
    ]


def _steps_until(done: Event, pages: list[Page]) -> list[float]:
    """Step in one browser after the other while the crowd moves."""
    times: list[float] = []
    while pages and not done.is_set():
        for page in pages:
            times += browsing.slider_steps(page, 4)
    return times


def _wait_for_pool(address: str) -> None:
    """Wait until kernels wait for the next visitors again."""
    end = time.monotonic() + _POOL_SECONDS
    while time.monotonic() < end:
        health = servers.health(address)
        if health["pool"] == health["pool_size"]:
            return
        time.sleep(0.5)


def _cpu_seconds(address: str) -> tuple[float, float]:
    family = served.family(address)
    kernels = sum(kernel.cpu_seconds for kernel in family.kernels)
    return family.server.cpu_seconds, kernels


def _crowd_figures(
    meeting: _Meeting, options: Namespace, opened: list[browsing.Opening]
) -> list[Figure]:
    crowd = meeting.crowd
    number = options.visitors
    who = f"{number} visitors at once"
    figures = [
        Figure(
            name=f"{who}, pool of {POOL}: all interactive",
            value=max(crowd.interactive, default=float("inf")),
            unit="s",
            limit=INTERACTIVE_LIMIT_SECONDS,
            note=f"half of them after {median(crowd.interactive or [0]):.1f} s",
        ),
        Figure(
            name=f"{who}: visitors or steps that failed",
            value=len(crowd.failures),
            unit="",
            limit=0,
            note="; ".join(sorted(set(crowd.failures)))[:200],
        ),
    ]
    if opened:
        figures.append(
            Figure(
                name=f"first chart in {len(opened)} browsers at that moment, slowest",
                value=max(opening.first_chart for opening in opened),
                unit="s",
            )
        )
    if not crowd.steps:
        return figures
    every = f"{1000 * crowds.STEP_SECONDS:.0f} ms"
    per_step = median(crowd.bytes_per_step)
    messages = median(crowd.messages_per_step)
    return [
        *figures,
        *step_figures(
            f"a step while all {number} move",
            crowd.steps,
            p95_limit_ms=STEP_LIMIT_MS,
            note=f"each one step every {every}, {options.seconds:.0f} s",
        ),
        Figure(
            name=f"a step while all {number} move, slowest",
            value=1000 * max(crowd.steps),
            unit="ms",
            limit=STEP_LIMIT_MS,
            note=f"of {len(crowd.steps):,}",
        ),
        Figure(name="received for a step", value=per_step / 1000, unit="kB"),
        Figure(name="messages received for a step", value=messages, unit=""),
        *(
            Figure(
                name=f"processor time of a step, {who}",
                value=1000 * seconds / len(crowd.steps),
                unit="ms",
            )
            for who, seconds in zip(
                ("server", "kernel"), meeting.cpu_seconds, strict=True
            )
        ),
    ]


def _browser_figures(times: list[float]) -> list[Figure]:
    if not times:
        return []
    return step_figures("key press to bars in a browser beside them", times)


def _memory_figures(
    idle: processes.Family, full: processes.Family, sessions: int
) -> list[Figure]:
    sizes = sorted(kernel.pss_bytes / MB for kernel in full.kernels)
    grown = (full.pss_bytes - idle.pss_bytes) / MB / sessions
    return [
        Figure(
            name=SESSION,
            value=grown,
            unit="MB",
            limit=SESSION_LIMIT_MB,
            note="proportional set size: growth of the server and all kernels by "
            f"{sessions} sessions",
        ),
        Figure(
            name="largest kernel",
            value=max(sizes, default=0.0),
            unit="MB",
            limit=SESSION_LIMIT_MB,
            note=f"of {len(sizes)}, the median {median(sizes or [0]):.0f} MB",
        ),
        Figure(
            name="server without kernels",
            value=full.others_pss_bytes / MB,
            unit="MB",
        ),
        Figure(name="all together", value=full.pss_bytes / MB, unit="MB"),
    ]
