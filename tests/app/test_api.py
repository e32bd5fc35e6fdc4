"""Questions to `/api/plan` wait for their turn, and none takes the others'."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("voila")

from planner.app.voila import api
from planner.app.voila.api import Answering, Busy, Desk, Rate

QUESTION = json.dumps({"model": "Qwen/Qwen3-8B", "gpu": "L4"})


def test_a_visitor_who_waits_as_told_is_let_in_and_others_at_any_time() -> None:
    """A refused visit is not counted against the visitor."""
    rate = Rate(per_minute=60, at_once=3)
    assert [0.0, 0.0, 0.0] == [rate.wait("a", 10.0) for _ in range(3)]

    refused = {rate.wait("a", 10.0) for _ in range(50)}

    assert {1.0} == refused
    assert 0.0 == rate.wait("b", 10.0)
    assert 0.0 == rate.wait("a", 11.0) < rate.wait("a", 11.0)


def test_visitors_who_left_are_forgotten(monkeypatch) -> None:
    """However many addresses come."""
    monkeypatch.setattr(api, "_MOST_REMEMBERED", 100)
    rate = Rate(per_minute=60, at_once=3)

    for number in range(1000):
        rate.wait(str(number), 10.0 * number)

    assert len(rate._due) <= 100


class Slow:
    """In place of a process: answers when it is let."""

    def __init__(self, log: list[str]) -> None:
        self.log, self.go = log, asyncio.Event()

    async def answer(self, body: str) -> tuple[int, dict[str, Any]]:
        """Note the question, and wait."""
        self.log.append(body)
        await self.go.wait()
        return 200, {}


async def ended(process: Answering) -> int:
    """End a process; its exit status, once nothing of it is left."""
    running = process._process
    assert running is not None
    process.end()
    status = await running.wait()
    running._transport.close()  # type: ignore[attr-defined]
    await asyncio.sleep(0.01)
    return status


def desk_of(log: list[str]) -> tuple[Desk, list[Slow]]:
    """A desk of two processes that are held."""
    desk, slow = Desk(is_limited=False), [Slow(log), Slow(log)]
    desk._idle = list(slow)  # type: ignore[arg-type]
    return desk, slow


def test_one_visitor_leaves_a_process_to_the_others() -> None:
    """Of many questions of one, one is answered at a time."""

    async def run() -> list[str]:
        log: list[str] = []
        desk, slow = desk_of(log)
        tasks = [asyncio.ensure_future(desk.answer("a", f"a{n}")) for n in range(3)]
        await asyncio.sleep(0.01)
        tasks.append(asyncio.ensure_future(desk.answer("b", "b0")))
        await asyncio.sleep(0.01)
        before = list(log)
        for one in slow:
            one.go.set()
        assert [(200, {})] * 4 == await asyncio.gather(*tasks)
        assert len(log) == 4
        return before

    assert ["a0", "b0"] == asyncio.run(run())


def test_more_than_may_wait_are_turned_away() -> None:
    """Of one visitor, and of all."""

    async def run() -> None:
        desk, slow = desk_of([])
        tasks = [asyncio.ensure_future(desk.answer(str(n // 4), "")) for n in range(18)]
        await asyncio.sleep(0.01)
        with pytest.raises(Busy):
            await desk.answer("0", "")
        with pytest.raises(Busy):
            await desk.answer("new", "")
        for one in slow:
            one.go.set()
        await asyncio.gather(*tasks)
        await desk.answer("new", "")
        assert not desk._here

    asyncio.run(run())


def test_a_question_that_takes_too_long_ends_its_process(monkeypatch) -> None:
    """The next one is answered by a new process, and not with the old answer."""

    async def run() -> None:
        process = Answering(is_limited=False)
        monkeypatch.setattr(api, "LONGEST_SECONDS", 0.01)
        with pytest.raises(TimeoutError):
            await process.answer(QUESTION)
        await asyncio.sleep(0.1)  # it ends
        monkeypatch.setattr(api, "LONGEST_SECONDS", 60.0)
        status, plan = await process.answer(json.dumps({"model": "Qwen/Qwen3-4B"}))
        assert (200, "Qwen/Qwen3-4B") == (status, plan.get("model"))
        first = process._process
        assert 422 == (await process.answer("{}"))[0]
        assert first is process._process
        assert await ended(process) < 0

    asyncio.run(run())


def test_a_process_that_ended_by_itself_is_replaced() -> None:
    """The question that it had fails, and no later one."""

    async def run() -> None:
        process = Answering(is_limited=True)
        await process.answer(QUESTION)
        process._process.kill()
        await process._process.wait()
        assert 200 == (await process.answer(QUESTION))[0]
        assert await ended(process) < 0

    asyncio.run(run())
