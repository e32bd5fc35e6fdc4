"""Jobs in slices: the event loop answers in between, and a job can be given up."""

import asyncio
import time

from planner.app.widgets.background import SlicedJob


def run(steps, slices=None):
    """Run a job to its end; return what was called, in order."""
    called = []

    async def go() -> None:
        over = asyncio.Event()

        def end(name, *values) -> None:
            called.append((name, *values))
            over.set()

        used = slices or SlicedJob(0.0)
        used.start(
            steps,
            lambda: called.append("between"),
            lambda: end("done"),
            lambda error: end("failed", str(error)),
        )
        await asyncio.wait_for(over.wait(), 5)

    asyncio.run(go())
    return called


def test_each_slice_ends_after_its_time():
    """Three steps, a slice each, then the end."""
    assert ["between"] * 4 + [("done",)] == run(iter(range(3)))


def test_a_long_slice_takes_all_steps():
    """Steps that fit one slice are one."""
    assert ["between", ("done",)] == run(iter(range(3)), SlicedJob(5.0))


def test_an_error_ends_the_job():
    """What has been done before stays."""

    def steps():
        yield
        raise ValueError("no")

    assert ["between", ("failed", "no")] == run(steps())


def test_the_loop_answers_between_slices():
    """A message that arrives meanwhile waits for a slice of two steps, not for all."""

    async def go() -> int:
        done: list[int] = []

        def steps():
            for number in range(200):
                time.sleep(0.002)
                done.append(number)
                yield

        slices = SlicedJob(0.004)
        slices.start(steps(), lambda: None, lambda: None, lambda _error: None)
        await asyncio.sleep(0)
        waited = len(done)
        assert slices.is_running
        slices.cancel()
        assert not slices.is_running
        return waited

    assert asyncio.run(go()) <= 4  # each step takes half a slice, or more


def test_a_new_job_takes_the_place_of_the_one_that_runs():
    """Only the newest ends."""

    async def go() -> list[str]:
        ended: list[str] = []
        slices = SlicedJob(0.0)
        for name in ("old", "new"):
            slices.start(
                iter(range(2)),
                lambda: None,
                lambda name=name: ended.append(name),
                lambda _error: None,
            )
        while slices.is_running:
            await asyncio.sleep(0)
        return ended

    assert ["new"] == asyncio.run(go())


def test_without_an_event_loop_it_runs_at_once():
    """As in a test, or a script."""
    called = []
    SlicedJob(0.0).start(
        iter(range(3)), lambda: None, lambda: called.append("done"), called.append
    )

    assert ["done"] == called
