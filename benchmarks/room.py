"""How soon a room sees a vote: phones on loopback, all with this server on two cores.

    python -m benchmarks.room                   thirty phones, five rounds
    python -m benchmarks.room --phones 60

Each phone waits for news as its page does, and votes at a random moment of two
seconds. The time of a vote is from its request to the news on the screen that counts
it; the time of a question from the leader's press to the news on a phone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse

from tests.ui.servers import served

_VOTE_SECONDS = 2.0
_WAIT_SECONDS = 30.0
_CORES = 2
_JSON = {"Content-Type": "application/json"}


@dataclass(slots=True, kw_only=True)
class Client:
    """A page: its cookie, and what it saw when."""

    http: AsyncHTTPClient
    address: str
    cookie: str = ""
    seen: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    async def open(self, query: str = "") -> None:
        """Load the page and keep its cookie."""
        answer = await self.ask(query)
        self.cookie = answer.headers.get("Set-Cookie", "").partition(";")[0]

    async def ask(self, more: str = "", value: object = None) -> HTTPResponse:
        """Ask for something, or send JSON."""
        headers = {"Cookie": self.cookie} | (_JSON if value is not None else {})
        return await self.http.fetch(
            HTTPRequest(
                f"{self.address}{more}",
                method="GET" if value is None else "POST",
                headers=headers,
                body=None if value is None else json.dumps(value),
                follow_redirects=False,
                request_timeout=_WAIT_SECONDS,
            ),
            raise_error=False,
        )

    async def follow(self) -> None:
        """Wait for news, again and again."""
        version: object = -1
        while True:
            answer = await self.ask(f"/news?seen={version}")
            if answer.code != 200:  # noqa: PLR2004 - HTTP's
                raise RuntimeError(f"{self.address}: {answer.code}")
            state = json.loads(answer.body)
            version = state["version"]
            self.seen.append((time.perf_counter(), state))


async def _until(client: Client, name: str, least: int, since: float) -> float:
    """Return when a page first saw a figure that is as large."""
    end = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < end:
        for when, state in client.seen:
            if when >= since and state[name] >= least:
                return when
        await asyncio.sleep(0.002)
    raise TimeoutError(f"{name} never was {least}")


async def _vote(phone: Client) -> float:
    await asyncio.sleep(random.uniform(0, _VOTE_SECONDS))
    begin = time.perf_counter()
    answer = await phone.ask("/vote", {"answer": f"{random.uniform(2, 9):.1f} GiB"})
    assert answer.code == 204, answer.code  # noqa: PLR2004 - HTTP's
    return begin


async def _round(screen: Client, phones: list[Client], number: int) -> Iterator[float]:
    """Ask or ask again, and vote; return seconds of questions and of votes."""
    begin = time.perf_counter()
    await screen.ask("/act", {"do": "ask" if number == 1 else "again", "question": 0})
    asked = [await _until(one, "round", number, begin) for one in phones]
    votes = await asyncio.gather(*(_vote(one) for one in phones))
    shown = [
        await _until(screen, "votes", count, begin)
        for count in range(1, len(votes) + 1)
    ]
    # The n-th vote that was sent is counted by the n-th news, or sooner by another's.
    late = [there - sent for sent, there in zip(sorted(votes), shown, strict=True)]
    return iter([max(asked) - begin, *late])


async def _run(address: str, start: str, count: int, rounds: int) -> None:
    http = AsyncHTTPClient(max_clients=4 * count)
    screen = Client(http=http, address=f"{address}/screen")
    await screen.open(f"?{start.partition('?')[2]}")
    phones = [Client(http=http, address=address) for _ in range(count)]
    begin = time.perf_counter()
    await asyncio.gather(*(one.open() for one in phones))
    joined = time.perf_counter() - begin
    waiting = [asyncio.create_task(one.follow()) for one in (screen, *phones)]
    asked, votes = [], []
    for number in range(1, rounds + 1):
        question, *each = await _round(screen, phones, number)
        asked.append(question)
        votes += each
    for one in waiting:
        one.cancel()
    votes.sort()
    print(f"{count} phones joined in {joined:.2f} s")
    print(f"a question on every phone: {max(asked):.3f} s at most")
    print(
        f"{len(votes)} votes on the screen: median {1000 * median(votes):.0f} ms, "
        f"95 % {1000 * votes[int(0.95 * len(votes))]:.0f} ms, "
        f"the slowest {1000 * votes[-1]:.0f} ms"
    )


def main() -> None:
    """Start a room and measure it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--phones", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])
    places = f"--max-sessions={2 * options.phones}"
    flags = ("--published", "--room", "--address=127.0.0.1", "--pool=1", places)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder), *flags, f"--per-network={options.phones}") as running,
    ):
        said = running.log.read_text(encoding="utf-8")
        address = re.findall(r"for phones: (\S+)", said)[0]
        kept = re.findall(r"only you can read: (\S+)", said)[-1]
        start = Path(kept).read_text(encoding="utf-8").strip()
        asyncio.run(_run(address, start, options.phones, options.rounds))


if __name__ == "__main__":
    main()
