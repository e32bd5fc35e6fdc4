"""Questions to `/api/plan` wait for their turn, and none takes the others'."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
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


def ran(test: Coroutine[Any, Any, Any]) -> Any:
    """Run a test of the desk; one that waits for what never comes fails."""
    return asyncio.run(asyncio.wait_for(test, 120))


class Slow:
    """In place of a process: answers when it is let."""

    def __init__(self, log: list[str]) -> None:
        self.log, self.go = log, asyncio.Event()

    async def answer(self, body: str) -> tuple[int, dict[str, Any], float]:
        """Note the question, and wait."""
        self.log.append(body)
        await self.go.wait()
        return 200, {}, 0.0


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

    assert ["a0", "b0"] == ran(run())


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

    ran(run())


def test_the_time_to_wait_is_part_of_the_limit(monkeypatch) -> None:
    """Whoever gets no process in time is told so, and leaves no place behind."""

    async def run() -> None:
        log: list[str] = []
        desk, slow = desk_of(log)
        held = [asyncio.ensure_future(desk.answer(name, name)) for name in "ab"]
        while len(log) < len(held):
            await asyncio.sleep(0)
        monkeypatch.setattr(api, "LONGEST_SECONDS", 0.01)
        with pytest.raises(TimeoutError):
            await desk.answer("c", "c")
        for one in slow:
            one.go.set()
        await asyncio.gather(*held)
        assert (["a", "b"], {}) == (log, desk._here)

    ran(run())


def test_a_long_question_makes_room_for_another_visitor(monkeypatch) -> None:
    """Not for the same one, whose next question waits in any case."""
    monkeypatch.setattr(api, "PATIENCE_SECONDS", 0.0)

    async def run() -> None:
        log: list[str] = []
        desk, _slow = desk_of(log)
        held = [asyncio.ensure_future(desk.answer(name, name)) for name in "aba"]
        while len(log) < desk_processes(desk):
            await asyncio.sleep(0)
        assert not any(one.done() for one in held)
        other = asyncio.ensure_future(desk.answer("c", "c"))
        ended = await asyncio.gather(*held[:2], return_exceptions=True)
        assert [TimeoutError] * 2 == [type(one) for one in ended]
        while "c" not in log:
            await asyncio.sleep(0)
        for one in (*held, other):
            one.cancel()
        await asyncio.gather(*held, other, return_exceptions=True)
        assert not desk._here
        assert not desk._waiting

    ran(run())


def desk_processes(desk: Desk) -> int:
    """How many questions are answered at once."""
    return len(desk._idle) + len(desk._answered)


def test_who_took_less_of_the_processor_goes_first() -> None:
    """Also before one who has waited for longer."""

    async def run() -> list[str]:
        log: list[str] = []
        desk, slow = desk_of(log)
        held = [asyncio.ensure_future(desk.answer(name, name)) for name in "ab"]
        while len(log) < len(held):
            await asyncio.sleep(0)
        desk.processor.count("greedy", time.monotonic(), 1e6)
        for name in ("greedy", "new"):
            held.append(asyncio.ensure_future(desk.answer(name, name)))
            while name not in desk._waiting:
                await asyncio.sleep(0)
        for one in slow:
            one.go.set()
        await asyncio.gather(*held)
        return log

    assert ["a", "b", "new", "greedy"] == ran(run())


def test_one_who_leaves_is_dropped_and_counted() -> None:
    """From the queue and from a process, whose work is charged to who asked."""

    async def run() -> None:
        log: list[str] = []
        desk, slow = desk_of(log)
        tasks = [asyncio.ensure_future(desk.answer(name, name)) for name in "abcd"]
        while len(log) < 2 or len(desk._waiting) < 2:
            await asyncio.sleep(0)
        for one in (tasks[0], tasks[2]):
            one.cancel()
        while "d" not in log:
            await asyncio.sleep(0)
        assert "c" not in log
        assert desk.processor.ahead("a", 0.0) > 0.0
        for one in slow:
            one.go.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not desk._here

    ran(run())


def test_processor_time_is_paid_back_at_an_even_pace() -> None:
    """As visits are: a third of each minute's."""
    rate = Desk(is_limited=False).processor
    rate.count("a", 0.0, 30.0)
    assert 60.0 == pytest.approx(rate.wait("a", 0.0, visits=0))
    assert 0.0 == rate.wait("a", 60.0, visits=0) == rate.wait("b", 0.0, visits=0)


def test_a_question_that_takes_too_long_ends_its_process(monkeypatch) -> None:
    """The next one is answered by a new process, and not with the old answer."""

    async def run() -> None:
        desk = Desk(is_limited=False)
        process = Answering(is_limited=False)
        desk._idle = [process]
        monkeypatch.setattr(api, "LONGEST_SECONDS", 0.01)
        with pytest.raises(TimeoutError):
            await desk.answer("a", QUESTION)
        assert process._process is None
        monkeypatch.setattr(api, "LONGEST_SECONDS", 60.0)
        body = json.dumps({"model": "Qwen/Qwen3-4B"})
        status, plan = await desk.answer("a", body)
        assert (200, "Qwen/Qwen3-4B") == (status, plan.get("model"))
        first = process._process
        assert 422 == (await process.answer("{}"))[0]
        assert first is process._process
        assert await ended(process) < 0

    ran(run())


def test_a_process_that_ended_by_itself_is_replaced() -> None:
    """The question that it had fails, and no later one."""

    async def run() -> None:
        process = Answering(is_limited=True)
        await process.answer(QUESTION)
        process._process.kill()
        await process._process.wait()
        assert 200 == (await process.answer(QUESTION))[0]
        assert await ended(process) < 0

    ran(run())
